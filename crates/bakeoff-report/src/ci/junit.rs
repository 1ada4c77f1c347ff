//! Renders judged conditions as a JUnit file.
//!
//! Jenkins, GitLab and GitHub's test reporters read this form: `testsuites`, `testsuite`, `testcase`. A condition with
//! an unknown outcome is an `error`. `skipped` would look like a pass.

use bakeoff_core::units::harmless;

use super::{Case, CaseOutcome, Suite};

/// Returns the file, ending in a newline.
pub fn junit(suite: &Suite) -> String {
    let count =
        |is: fn(&CaseOutcome) -> bool| suite.cases.iter().filter(|case| is(&case.outcome)).count();
    let counts = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\"",
        suite.cases.len(),
        count(|outcome| matches!(outcome, CaseOutcome::Failed(_))),
        count(|outcome| matches!(outcome, CaseOutcome::Unknown(_)))
    );
    let name = escaped(&suite.name);
    let cases: String = suite.cases.iter().map(|one| case(&suite.name, one)).collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{name}\" {counts}>\n  \
         <testsuite name=\"{name}\" {counts}>\n{cases}  </testsuite>\n</testsuites>\n"
    )
}

fn case(suite: &str, case: &Case) -> String {
    let (class, name) = (escaped(&suite.replace(' ', ".")), escaped(&case.name));
    let begin = format!("    <testcase classname=\"{class}\" name=\"{name}\"");
    let (element, kind, seen) = match &case.outcome {
        CaseOutcome::Passed => return format!("{begin}/>\n"),
        CaseOutcome::Failed(seen) => ("failure", "failed", seen),
        CaseOutcome::Unknown(seen) => ("error", "cannot-tell", seen),
    };
    let message = escaped(seen.first().map_or("", String::as_str));
    let lines: Vec<String> = seen.iter().map(|line| escaped(line)).collect();
    format!(
        "{begin}>\n      <{element} type=\"{kind}\" message=\"{message}\">{}</{element}>\n    </testcase>\n",
        lines.join("\n")
    )
}

/// Escapes a text for XML, and replaces characters that XML cannot hold.
fn escaped(text: &str) -> String {
    let mut xml = String::with_capacity(text.len());
    for c in harmless(text).chars() {
        match c {
            '&' => xml.push_str("&amp;"),
            '<' => xml.push_str("&lt;"),
            '>' => xml.push_str("&gt;"),
            '"' => xml.push_str("&quot;"),
            '\'' => xml.push_str("&apos;"),
            '\u{fffe}' | '\u{ffff}' => xml.push(char::REPLACEMENT_CHARACTER),
            c => xml.push(c),
        }
    }
    xml
}

#[cfg(test)]
mod tests {
    use super::super::testing::suite;
    use super::*;

    #[test]
    fn each_condition_is_a_case_with_escaped_text() {
        assert_eq!(
            junit(&suite()),
            "\
<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<testsuites name=\"bakeoff load\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\">
  <testsuite name=\"bakeoff load\" tests=\"3\" failures=\"1\" errors=\"1\" skipped=\"0\">
    <testcase classname=\"bakeoff.load\" name=\"p99 &gt; 20ms\"/>
    <testcase classname=\"bakeoff.load\" name=\"errors &gt; 1%\">
      <failure type=\"failed\" message=\"errors is 4, 100 %\">errors is 4, 100 %
&lt;/failure&gt;\u{fffd}::error::owned \u{fffd}[31m\u{fffd}&quot;&apos;&amp;</failure>
    </testcase>
    <testcase classname=\"bakeoff.load\" name=\"max &gt; 1s\">
      <error type=\"cannot-tell\" message=\"max is unknown\">max is unknown</error>
    </testcase>
  </testsuite>
</testsuites>
"
        );
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_text_becomes_valid_xml(text in "\\PC*|[\\x00-\\x1f<>&\"'\u{fffe}\u{ffff}]*") {
            let xml = escaped(&text);
            let is_text = |c: char| !matches!(c, '<' | '>' | '"' | '\'' | '\u{fffe}' | '\u{ffff}') && !c.is_control();
            assert!(xml.chars().all(is_text), "{xml:?}");
        }
    }
}
