//! Writes the README of an analysis: title, description, the table and the pictures.

use std::fmt::Write as _;

use crate::dbtester::config::Config;

pub(super) fn readme(config: &Config, table: &str) -> String {
    let mut text = format!(
        "\n\n<br><br><hr>\n##### {}\n\n{}\n\n```\n{table}```\n\n\n",
        config.title, config.description
    );
    for image in &config.images {
        let name = image.path.rsplit('/').next().unwrap_or_default();
        let written = match image.local {
            true => write!(text, "![{}](./{name})\n\n\n\n", image.title),
            false => write!(text, "<img src=\"{}\" alt=\"{}\">\n\n\n\n", image.path, image.title),
        };
        written.expect("text takes text");
    }
    text
}
