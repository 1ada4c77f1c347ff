//! Writes values as YAML for people to edit: blocks, no braces.
//!
//! Quotes strings that YAML could take for another type.

use serde_json::Value;

pub(super) fn documents(documents: &[Value]) -> String {
    let texts: Vec<String> = documents.iter().map(document).collect();
    texts.join("---\n")
}

fn document(value: &Value) -> String {
    let mut out = String::new();
    block(value, 0, &mut out);
    out
}

/// Writes a value that begins on its own line.
fn block(value: &Value, indent: usize, out: &mut String) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                pad(indent, out);
                out.push_str(&text(name));
                out.push(':');
                after(value, indent + 2, out);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                pad(indent, out);
                out.push('-');
                item_of(item, indent + 2, out);
            }
        }
        other => {
            pad(indent, out);
            out.push_str(&scalar(other));
            out.push('\n');
        }
    }
}

/// Writes the value after a name and its colon.
fn after(value: &Value, indent: usize, out: &mut String) {
    if is_block(value) {
        out.push('\n');
        block(value, indent, out);
    } else {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
    }
}

/// Writes the value after the dash of a list.
fn item_of(value: &Value, indent: usize, out: &mut String) {
    if is_block(value) {
        let mut own = String::new();
        block(value, indent, &mut own);
        out.push(' ');
        out.push_str(own.trim_start_matches(' '));
    } else {
        out.push(' ');
        out.push_str(&scalar(value));
        out.push('\n');
    }
}

fn is_block(value: &Value) -> bool {
    match value {
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    }
}

fn pad(indent: usize, out: &mut String) {
    out.extend(std::iter::repeat_n(' ', indent));
}

fn scalar(value: &Value) -> String {
    match value {
        Value::String(string) => text(string),
        // JSON numbers, booleans, null and empty values are valid YAML.
        other => other.to_string(),
    }
}

/// Writes a string, unquoted if YAML 1.1 and 1.2 both read it as a string.
fn text(string: &str) -> String {
    let begins = string.starts_with(|c: char| c.is_ascii_alphabetic());
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '/' | '_');
    let word = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let meant = word.iter().any(|word| string.eq_ignore_ascii_case(word));
    if begins && string.chars().all(plain) && !meant {
        return string.to_owned();
    }
    Value::String(string.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_blocks() {
        let value = json!({
            "a": {"b": [1, {"c": "x", "d": []}, ["deep"]], "e": {}},
            "f": "two words", "g": null, "h": true,
        });
        let expected = "a:\n  b:\n    - 1\n    - c: x\n      d: []\n    - - deep\n  e: {}\n\
                        f: \"two words\"\ng: null\nh: true\n";
        assert_eq!(document(&value), expected);
    }

    #[test]
    fn ambiguous_strings_are_quoted() {
        for string in
            ["on", "No", "1", "1.5", "", "a: b", "- a", "#", "*", "{", "null", "100m", "a\nb"]
        {
            assert!(text(string).starts_with('"'), "{string}");
        }
        for string in ["networking.istio.io/v1", "Gateway", "consul-default"] {
            assert_eq!(text(string), string);
        }
    }
}
