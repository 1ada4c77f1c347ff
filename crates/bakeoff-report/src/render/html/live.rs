//! The page that shows a run while it lasts, with the report's style and colours.
//!
//! It is the same for all runs: its script builds what the events of `/events` bring, and at the end puts the report in
//! its place.
//!
//! Not here: the events and their server (the binary).

use super::page;

/// Content before the first event.
const TOP: &str = "<p class=\"study\"><span id=\"title\">A run of bakeoff</span>\
    <span id=\"state\" role=\"status\">Connecting to the run.</span></p>\n\
    <h1 id=\"verdict\">No verdict yet: no round is complete.</h1><p class=\"support\" id=\"support\"></p>\n\
    <noscript><p class=\"alarm\">This page needs JavaScript. The report at the end of the run does not.</p></noscript>\n\
    <div id=\"places\"></div>\n\
    <section aria-labelledby=\"usage-h\"><h2 id=\"usage-h\">Nodes</h2><div id=\"usage\">\
    <p class=\"how\">No sample yet.</p></div></section>";

/// Renders the page. It has no parameters: its server sends the rest.
pub fn live_page() -> String {
    page::live("bakeoff: live", TOP)
}
