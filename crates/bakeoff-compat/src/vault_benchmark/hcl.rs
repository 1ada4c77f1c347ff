//! Parses HCL into values with their places in the file.
//!
//! vault-benchmark evaluates its files without variables and functions, so a value is a text, a number, a truth value,
//! a list or an object of these. A value that needs evaluation is reported with its place. The report shows the line,
//! with secrets replaced by asterisks, because it reaches the terminal and the log of a pipeline.
//!
//! Not here: the supported options (`fields`, `config`).

use std::ops::Range;

use bakeoff_core::study::{
    DiagnosticSink, Diagnostics, PlacedEntry as Attribute, PlacedNode, PlacedValue as Value,
};
use hcl_edit::expr::{Expression, ObjectKey, UnaryOperator};
use hcl_edit::repr::Span as _;
use hcl_edit::structure::{self, BlockLabel, Structure};
use hcl_edit::template::{Element, Template};

/// Largest accepted configuration, in bytes.
pub(super) const SIZE_MAX: u64 = 4 << 20;

#[derive(Debug, Default)]
pub(super) struct Body {
    pub(super) entries: Vec<Entry>,
}

#[derive(Debug)]
pub(super) enum Entry {
    /// `key = value`
    Attribute(Attribute),
    /// `ident "label" { … }`
    Block(Block),
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) ident: String,
    pub(super) at: Range<usize>,
    pub(super) labels: Vec<(String, Range<usize>)>,
    pub(super) body: Body,
}

/// Reads a file's text.
///
/// # Errors
///
/// When the text has syntax errors or computed values; the error lists all of them.
pub(super) fn parse(
    file: &str,
    text: &str,
) -> Result<(DiagnosticSink<'static>, Body), Diagnostics> {
    let mut sink = DiagnosticSink::new(file.to_owned(), concealed(text));
    let parsed = match hcl_edit::parser::parse_body(text) {
        Ok(parsed) => parsed,
        Err(error) => {
            let at = error.location().offset();
            // The parser's message names only the expected tokens, never the text.
            let what = format!("this is not HCL: {}", error.message().replace('\n', ", "));
            sink.add(&(at..at + 1), what);
            return Err(sink.into_diagnostics());
        }
    };
    let mut reader = Reader { sink };
    let body = reader.body(&parsed);
    match reader.sink {
        sink if sink.is_empty() => Ok((sink, body)),
        sink => Err(sink.into_diagnostics()),
    }
}

/// Returns a text value.
fn quoted(text: impl Into<String>) -> Value {
    Value::Scalar { text: text.into(), plain: false }
}

/// Returns a number, a flag or `null`, as written.
fn plain(text: impl Into<String>) -> Value {
    Value::Scalar { text: text.into(), plain: true }
}

struct Reader {
    sink: DiagnosticSink<'static>,
}

impl Reader {
    fn body(&mut self, body: &structure::Body) -> Body {
        let entries = body.iter().map(|structure| match structure {
            Structure::Attribute(attribute) => Entry::Attribute(Attribute {
                key: attribute.key.to_string(),
                key_at: span(attribute.key.span()),
                node: self.node(&attribute.value),
            }),
            Structure::Block(block) => Entry::Block(self.block(block)),
        });
        Body { entries: entries.collect() }
    }

    fn block(&mut self, block: &structure::Block) -> Block {
        let labels = block.labels.iter().map(|label| {
            let at = match label {
                BlockLabel::Ident(ident) => ident.span(),
                BlockLabel::String(text) => text.span(),
            };
            (label.as_str().to_owned(), span(at))
        });
        Block {
            ident: block.ident.to_string(),
            at: span(block.ident.span()),
            labels: labels.collect(),
            body: self.body(&block.body),
        }
    }

    fn node(&mut self, expression: &Expression) -> PlacedNode {
        PlacedNode::new(span(expression.span()), self.value(expression))
    }

    fn value(&mut self, expression: &Expression) -> Value {
        match expression {
            Expression::Null(_) => plain("null"),
            Expression::Bool(flag) => plain(flag.value().to_string()),
            Expression::Number(number) => plain(number.value().to_string()),
            Expression::String(text) => quoted(text.value()),
            Expression::Array(array) => {
                Value::List(array.iter().map(|expression| self.node(expression)).collect())
            }
            Expression::Object(object) => {
                let entries = object.iter().filter_map(|(key, value)| {
                    let (key, key_at) = match key {
                        ObjectKey::Ident(ident) => (Some(ident.to_string()), span(ident.span())),
                        ObjectKey::Expression(key) => {
                            let node = self.node(key);
                            (node.scalar().map(str::to_owned), node.at)
                        }
                    };
                    if key.is_none() {
                        self.sink.hint(&key_at, "this cannot be a key", "keys are texts");
                    }
                    Some(Attribute { key: key?, key_at, node: self.node(value.expr()) })
                });
                Value::Map(entries.collect())
            }
            Expression::StringTemplate(template) => self.template(template, expression),
            Expression::HeredocTemplate(heredoc) => self.template(&heredoc.template, expression),
            Expression::Parenthesis(inner) => self.value(inner.inner()),
            Expression::UnaryOp(operation)
                if *operation.operator.value() == UnaryOperator::Neg
                    && operation.expr.is_number() =>
            {
                match self.value(&operation.expr) {
                    Value::Scalar { text, .. } => plain(format!("-{text}")),
                    other => other,
                }
            }
            _ => self.computed(expression),
        }
    }

    /// Joins the pieces of a template. `${"a"}` equals `a`.
    fn template(&mut self, template: &Template, whole: &Expression) -> Value {
        let mut text = String::new();
        for element in template {
            match element {
                Element::Literal(literal) => text.push_str(literal.value()),
                Element::Interpolation(piece) => match self.node(&piece.expr).scalar() {
                    Some(piece) => text.push_str(piece),
                    None => return self.computed(whole),
                },
                Element::Directive(_) => return self.computed(whole),
            }
        }
        quoted(text)
    }

    fn computed(&mut self, expression: &Expression) -> Value {
        self.sink.hint(
            &span(expression.span()),
            "this value needs evaluation, but variables and functions are not supported",
            "write the value itself; `$${` stands for a literal `${`",
        );
        plain("null")
    }
}

fn span(span: Option<Range<usize>>) -> Range<usize> {
    span.unwrap_or(0..0)
}

/// Returns true if the value of this option must never be shown.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts = [
        "password",
        "passwd",
        "passphrase",
        "bindpass",
        "bind_pass",
        "secret_key",
        "client_secret",
        "private_key",
        "credential",
        "connection_url",
        "connection_uri",
        "connection_string",
        "jwt",
        "certificate",
        "ca_cert",
    ];
    parts.iter().any(|part| name.contains(part))
        || matches!(
            &*name,
            "token" | "secret" | "user_token" | "vault_token" | "key" | "x_vault_token"
        )
}

/// Returns the text with every secret replaced by asterisks, one per byte.
///
/// Works line by line without parsing, because a file with syntax errors holds secrets too. A secret is everything
/// between the name of a secret option with `=` or `:` and the end of the line, the list or the heredoc.
fn concealed(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut until = SecretEnd::Nothing;
    for line in text.split_inclusive('\n') {
        match &mut until {
            SecretEnd::Nothing => {
                let Some(from) = secret_begins(line) else {
                    shown.push_str(line);
                    continue;
                };
                shown.push_str(&line[..from]);
                stars(&line[from..], &mut shown);
                let value = line[from..].trim();
                until = match value.strip_prefix("<<") {
                    Some(delimiter) => {
                        SecretEnd::Delimiter(delimiter.trim_start_matches('-').trim().to_owned())
                    }
                    None if depth(value) > 0 => SecretEnd::Closed(depth(value)),
                    None => SecretEnd::Nothing,
                };
            }
            SecretEnd::Delimiter(delimiter) => {
                let ends = line.trim() == delimiter;
                stars(line, &mut shown);
                if ends {
                    until = SecretEnd::Nothing;
                }
            }
            SecretEnd::Closed(open) => {
                *open += depth(line);
                let ends = *open <= 0;
                stars(line, &mut shown);
                if ends {
                    until = SecretEnd::Nothing;
                }
            }
        }
    }
    shown
}

/// End of the current secret.
enum SecretEnd {
    Nothing,
    Delimiter(String),
    /// Ends when this many brackets are closed.
    Closed(isize),
}

/// Returns the number of opening brackets minus the number of closing ones.
fn depth(text: &str) -> isize {
    let count = |brackets: [char; 2]| text.chars().filter(|c| brackets.contains(c)).count();
    count(['[', '{']).cast_signed() - count([']', '}']).cast_signed()
}

fn stars(text: &str, to: &mut String) {
    for byte in text.bytes() {
        to.push(if byte.is_ascii_whitespace() { char::from(byte) } else { '*' });
    }
}

/// Returns the position of a secret on a line.
fn secret_begins(line: &str) -> Option<usize> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    let mut at = 0;
    while let Some(start) = line[at..].find(is_name).map(|start| at + start) {
        let end = line[start..].find(|c| !is_name(c)).map_or(line.len(), |end| start + end);
        let after = line[end..].trim_start_matches('"').trim_start();
        let assigned = after.starts_with(['=', ':']) && !after.starts_with("==");
        if assigned && is_secret(&line[start..end]) {
            let value = after[1..].trim_start_matches([' ', '\t']);
            return Some(line.len() - value.len());
        }
        at = end;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(text: &str) -> Value {
        let (_, mut body) = parse("t.hcl", &format!("x = {text}\n")).unwrap();
        match body.entries.remove(0) {
            Entry::Attribute(attribute) => attribute.node.value,
            Entry::Block(_) => panic!("an attribute was written"),
        }
    }

    #[track_caller]
    fn check(text: &str, expected: &str) {
        let Value::Scalar { text, plain } = value(text) else { panic!("a scalar was written") };
        let kind = if plain { "plain" } else { "quoted" };
        assert_eq!(format!("{kind} {text:?}"), expected);
    }

    #[test]
    fn values_keep_their_written_type() {
        check("null", "plain \"null\"");
        check("true", "plain \"true\"");
        check("5", "plain \"5\"");
        check("-5", "plain \"-5\"");
        check("1.5", "plain \"1.5\"");
        check(r#""a\nb\"c""#, r#"quoted "a\nb\"c""#);
        check("(\"a\")", "quoted \"a\"");
        check("\"$${x}${\"y\"}\"", "quoted \"${x}y\"");
    }

    #[test]
    fn a_heredoc_is_a_text_with_its_line_ends() {
        check("<<EOF\n  a\nb\nEOF", r#"quoted "  a\nb\n""#);
        check("<<-EOF\n    a\n      b\n    EOF", r#"quoted "a\n  b\n""#);
    }

    #[test]
    fn refuses_computed_values_with_their_place() {
        for text in ["var.x", "upper(\"a\")", "\"${x}\"", "1 + 2", "[for x in [1]: x]"] {
            let error = parse("t.hcl", &format!("a = 1\nx = {text}\n")).unwrap_err().to_string();
            assert!(error.contains("t.hcl:2:5") && error.contains("needs evaluation"), "{error}");
        }
    }

    #[test]
    fn refuses_broken_syntax_with_its_place() {
        let error = parse("t.hcl", "a = 1\nb = \n").unwrap_err().to_string();
        assert!(error.contains("t.hcl:2:") && error.contains("not HCL"), "{error}");
        assert!(parse("t.hcl", "a = 1\na = 2\n").is_err());
        parse("t.hcl", "").unwrap();
    }

    #[test]
    fn diagnostics_hide_secrets() {
        let check = |text: &str, expected: &str| assert_eq!(concealed(text), expected);
        check("vault_token = \"root\"\n", "vault_token = ******\n");
        check("config { password=\"x\" }\nb = 1", "config { password=*** *\nb = 1");
        check("token_ttl = \"2m\"\n", "token_ttl = \"2m\"\n");
        check("\"password\": \"pä\"\n", "\"password\": *****\n");
        check("jwt = <<EOF\nabc\nEOF\nb = 1\n", "jwt = *****\n***\n***\nb = 1\n");
        check("key = [\n  \"a\",\n]\nb = 1\n", "key = *\n  ****\n*\nb = 1\n");
        for broken in ["password = \"p4ss\n", "password = \"p4ss\" \"\n", "password = p4ss.word(\n"]
        {
            let error = parse("t.hcl", broken).unwrap_err().to_string();
            assert!(!error.contains("p4ss"), "{error}");
        }
    }
}
