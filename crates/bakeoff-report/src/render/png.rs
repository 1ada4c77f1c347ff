//! The share image in pixels, for places that show no SVG.
//!
//! It brings its own font, so that the image is the same on every machine. It reads no file.
//!
//! Not here: the drawing (`html::card`).

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use super::html::card;
use crate::document::report::Report;

/// Returns the share image as PNG, 1200 by 630.
///
/// # Panics
/// Never: the drawing is our own, with escaped texts.
pub fn png(report: &Report) -> Vec<u8> {
    let mut fonts = Database::new();
    fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
    fonts.load_font_data(notosans::BOLD_TTF.to_vec());
    fonts.set_sans_serif_family("Noto Sans");
    let options = Options {
        fontdb: Arc::new(fonts),
        font_family: "Noto Sans".to_owned(),
        ..Options::default()
    };
    let tree = Tree::from_str(&card::card(report), &options).expect("our own SVG");
    let mut pixels = Pixmap::new(card::SIZE.0, card::SIZE.1).expect("a size above zero");
    resvg::render(&tree, Transform::default(), &mut pixels.as_mut());
    pixels.encode_png().expect("an image in memory")
}
