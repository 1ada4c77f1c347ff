//! Judged conditions as annotations of GitHub Actions, and the defence of its log against other people's texts.
//!
//! The runner obeys lines of a step's output that begin with `::`, and those with `##[` anywhere; escapes are those of
//! its own toolkit (`actions/toolkit`, `packages/core/src/command.ts`).

use std::borrow::Cow;

use bakeoff_core::units::harmless;

use super::{Case, CaseOutcome, Suite};

/// The mark of a command at the beginning of a line.
const COMMAND: &str = "::";
/// The mark of a command of the older form, anywhere in a line.
const OLD_COMMAND: &str = "##[";

/// Returns a line for each condition that did not pass: an error where it failed, a warning where nobody can tell.
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

/// Returns a text as a command's message.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// Returns a text as a command's property.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Returns a text none of whose lines is a command to the runner.
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

/// Returns JSON that says the same, without what the runner would obey within its texts.
pub fn defused_json(json: &str) -> String {
    // Outside of its texts JSON has no such sign, and none of its lines begins with a colon.
    json.replace(OLD_COMMAND, "#\\u0023[")
}

#[cfg(test)]
mod tests {
    use super::super::testing::suite;
    use super::*;

    #[test]
    fn conditions_that_do_not_pass_are_annotations_and_foreign_text_stays_within_its_line() {
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
    fn no_line_of_defused_text_is_a_command() {
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
    fn defused_json_says_the_same() {
        let json = serde_json::json!({"what": "##[add-path]/x"}).to_string();
        let defused = defused_json(&json);
        assert!(!defused.contains("##["), "{defused}");
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&defused).unwrap(),
            serde_json::from_str::<serde_json::Value>(&json).unwrap()
        );
    }
}
