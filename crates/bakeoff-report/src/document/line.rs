//! Lines of a report: one about audits, and a text that is cut to a line.
//!
//! Not here: what they say (`words`, `linearizability`).

/// One line about audits.
pub(crate) struct AuditLine {
    pub(crate) text: String,
    /// True if an audit failed.
    pub(crate) failed: bool,
}

/// Cuts a text to `width` characters, with `…` at its end.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}
