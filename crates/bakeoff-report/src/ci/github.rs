//! Renders judged conditions as annotations for GitHub Actions, and protects its log against foreign texts.
//!
//! The runner executes output lines that begin with `::`, and lines with `##[` anywhere. The escapes are those of its
//! toolkit (`actions/toolkit`, `packages/core/src/command.ts`).

use std::borrow::Cow;

use bakeoff_core::units::harmless;

use super::{Case, CaseOutcome, Suite};

/// Prefix of a command line.
const COMMAND: &str = "::";
/// Mark of an older command, anywhere in a line.
const OLD_COMMAND: &str = "##[";

/// Returns a line for each condition that did not pass: an error if it failed, a warning if its outcome is unknown.
pub fn annotations(suite: &Suite) -> Vec<String> {
    suite.cases.iter().filter_map(|case| annotation(&suite.name, case)).collect()
}

fn annotation(suite: &str, case: &Case) -> Option<String> {
    let (level, seen) = match &case.outcome {
        CaseOutcome::Passed => return None,
        CaseOutcome::Failed(seen) => ("error", seen),
        CaseOutcome::Unknown(seen) => ("warning", seen),
    };
    let title = property(&harmless(&format!("{suite}: {}", case.name)));
    let lines: Vec<String> = seen.iter().map(|line| harmless(line)).collect();
    Some(format!("::{level} title={title}::{}", data(&lines.join("\n"))))
}

/// Escapes a command's message.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Escapes a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns the text with no line that the runner would execute.
pub fn defused(text: &str) -> Cow<'_, str> {
    let is_command = |line: &str| line.trim_start().starts_with(COMMAND);
    if !text.contains(OLD_COMMAND) && !text.lines().any(is_command) {
        return Cow::Borrowed(text);
    }
    let line = |line: &str| match is_command(line) {
        true => line.replacen(COMMAND, ": :", 1),
        false => line.to_owned(),
    };
    let lines: String = text.split_inclusive('\n').map(line).collect();
    Cow::Owned(lines.replace(OLD_COMMAND, "# #["))
}

/// Returns equivalent JSON with no text that the runner would execute.
pub fn defused_json(json: &str) -> String {
    // Outside of strings, JSON has no `#`, and none of its lines begins with a colon.
    json.replace(OLD_COMMAND, "#\\u0023[")
}

#[cfg(test)]
mod tests {
    use super::super::testing::suite;
    use super::*;

    #[test]
    fn failed_conditions_are_annotations_with_escaped_text() {
        assert_eq!(
            annotations(&suite()),
            [
                "::error title=bakeoff load%3A errors > 1%25::errors is 4, 100 %25%0A</failure>\u{fffd}\
                 ::error::owned \u{fffd}[31m\u{ffff}\"'&",
                "::warning title=bakeoff load%3A max > 1s::max is unknown",
            ]
        );
        assert_eq!(property("a:b,c%d\r\n"), "a%3Ab%2Cc%25d%0D%0A");
        assert_eq!(data("a:b,c%d\r\n"), "a:b,c%25d%0D%0A");
    }

    #[test]
    fn defused_text_has_no_command() {
        for text in ["plain: text", "a :: b", "::", "  ::add-path::/x\nnext", "x ##[error]y\n\t::z"]
        {
            let defused = defused(text);
            let obeyed = |line: &str| line.trim_start().starts_with("::") || line.contains("##[");
            assert!(!defused.lines().any(obeyed), "{defused:?}");
            assert_eq!(defused == text, !text.lines().any(obeyed), "{defused:?}");
        }
        assert_eq!(defused("###[a]"), "## #[a]");
        assert_eq!(defused("  ::add-path::/x\r\n"), "  : :add-path::/x\r\n");
    }

    #[test]
    fn defused_json_is_equivalent() {
        let json = serde_json::json!({"what": "##[add-path]/x"}).to_string();
        let defused = defused_json(&json);
        assert!(!defused.contains("##["), "{defused}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&defused).unwrap(),
            serde_json::from_str::<serde_json::Value>(&json).unwrap()
        );
    }
}
