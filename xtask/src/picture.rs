//! Takes the README's pictures: the first screen of a run's report, in light and in dark.
//!
//! A headless Chromium opens the report, a page that works offline. Not here: the contents of the page
//! (`bakeoff_report`).

#[path = "../../crates/bakeoff/tests/support/chromium.rs"]
#[allow(dead_code, reason = "the tests use the functions that control the page")]
mod chromium;
#[path = "../../crates/bakeoff/tests/support/debian.rs"]
mod debian;

use std::path::Path;
use std::time::Duration;

use self::chromium::Chromium;
use self::debian::{FetchProblem, finish};
use super::Failure;

/// Size of the window in CSS pixels: width and height.
const WINDOW: (u32, u32) = (1200, 790);
/// Longest time for one picture.
const TAKEN: Duration = Duration::from_secs(60);
/// Files in `docs/images`, each with Chromium's number of the colour scheme (`PreferredColorScheme`).
const PICTURES: [(&str, u8); 2] = [("report-dark.png", 0), ("report-light.png", 1)];

/// Writes the pictures of the report in the folder `run` to `docs/images`.
///
/// # Errors
/// When there is no report, no browser, or no picture.
pub(crate) fn take(run: &str) -> Result<(), Failure> {
    let page = Path::new(run).join("report.html");
    let page = page.canonicalize().map_err(|error| {
        format!(
            "no report at {}: {error}\nhint: write it with `bakeoff report RUN`",
            page.display()
        )
    })?;
    let browser = Chromium::find().map_err(|missing| match missing {
        FetchProblem::Unable(why) | FetchProblem::Failed(why) => why,
    })?;
    let images = super::root().join("docs/images");
    std::fs::create_dir_all(&images).map_err(|error| format!("{}: {error}", images.display()))?;
    let home = tempfile::tempdir().map_err(|error| format!("no temporary folder: {error}"))?;
    for (name, scheme) in PICTURES {
        let picture = images.join(name);
        let mut command = browser.plain(home.path());
        command.args(["--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"]);
        command.arg(format!("--user-data-dir={}", home.path().join(name).display()));
        command.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        command.arg(format!("--window-size={},{}", WINDOW.0, WINDOW.1));
        command.arg(format!("--screenshot={}", picture.display()));
        finish("chromium", command.arg(format!("file://{}", page.display())), TAKEN)?;
        if !picture.is_file() {
            return Err(format!("chromium wrote no {}", picture.display()));
        }
        println!("{}", picture.display());
    }
    Ok(())
}
