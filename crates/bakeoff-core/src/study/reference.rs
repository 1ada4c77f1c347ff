//! Generates the reference of a study's fields, `docs/study-fields.md`, from the tables that parsing uses.

use std::fmt::Write as _;
use std::path::Path;

use super::field::{Field, Form, Requirement, Table};
use super::fields::STUDY;
use crate::units::{ByteCount, count_text};

/// Head of the page.
const HEAD: &str = "\
# All fields of a study

Generated from the tables that bakeoff reads studies by: `BLESS=1 cargo test -p bakeoff-core --lib study::reference`.
[studies.md](studies.md) explains them with examples.
";

/// Returns the page: a section for each mapping, the study first.
fn page() -> String {
    let sections: String = tables().into_iter().map(section).collect();
    HEAD.to_owned() + &sections
}

/// Returns all tables, that of the study first.
pub(super) fn tables() -> Vec<&'static Table> {
    let mut tables = Vec::new();
    collect(&STUDY, &mut tables);
    tables
}

/// Adds a table and those below it, each once.
fn collect(table: &'static Table, tables: &mut Vec<&'static Table>) {
    if tables.iter().any(|known| known.name == table.name) {
        return;
    }
    tables.push(table);
    table.fields.iter().for_each(|field| collect_form(&field.form, tables));
}

fn collect_form(form: &'static Form, tables: &mut Vec<&'static Table>) {
    match form {
        Form::Table(table) => collect(table, tables),
        Form::OneOrMany(one)
        | Form::List(one)
        | Form::Named(one)
        | Form::Open(one)
        | Form::Keyed(_, one) => collect_form(one, tables),
        Form::Either(forms) => forms.iter().for_each(|form| collect_form(form, tables)),
        _ => {}
    }
}

fn section(table: &Table) -> String {
    let mut text = format!("\n## {}\n\n{}", table.name, table.meaning);
    if !table.one_of.is_empty() {
        let sets = table.one_of.iter().map(|names| words(names, " with "));
        let sets: Vec<String> = sets.collect();
        write!(text, " Exactly one of: {}.", sets.join("; ")).expect("a text");
    }
    text +=
        "\n\n| field | value | if omitted | meaning | example |\n| --- | --- | --- | --- | --- |\n";
    text + &table.fields.iter().map(row).collect::<String>()
}

fn row(field: &Field) -> String {
    let omitted = match field.given {
        Requirement::Always => "required".to_owned(),
        Requirement::Default(default) => format!("`{default}`"),
        Requirement::Maybe => String::new(),
    };
    let cells = [
        format!("`{}`", field.name),
        form(&field.form),
        omitted,
        field.meaning.to_owned(),
        format!("`{}`", field.example),
    ];
    format!("| {} |\n", cells.map(|cell| cell.replace('|', "\\|")).join(" | "))
}

/// Describes a form in a few words.
fn form(of: &Form) -> String {
    match of {
        Form::Text => "text".to_owned(),
        Form::AsWritten => "text, number or flag".to_owned(),
        Form::Flag => "`true` or `false`".to_owned(),
        Form::Word(known) => words(known, ", "),
        Form::Whole { min, max } => format!("{} to {}", count_text(*min), count_text(*max)),
        Form::Number { min, from_min: true, max } => format!("number from {min} to {max}"),
        Form::Number { min, from_min: false, max } => format!("number above {min}, to {max}"),
        Form::Size { min, max } => format!("size from {} to {}", ByteCount(*min), ByteCount(*max)),
        Form::Duration { zero: true, max } => format!("duration, at most {max}"),
        Form::Duration { zero: false, max } => format!("duration above zero, at most {max}"),
        Form::Rate => "rate".to_owned(),
        Form::Status => "HTTP statuses".to_owned(),
        Form::Share => "share".to_owned(),
        Form::Percent => "whole percentage".to_owned(),
        Form::OneOrMany(one) => format!("{}, or a list of them", form(one)),
        Form::List(one) => format!("list: {}", form(one)),
        Form::Table(table) => format!("[{0}](#{0})", table.name),
        Form::Named(one) => format!("by names of your choice: {}", form(one)),
        Form::Open(one) => format!("by name: {}", form(one)),
        Form::Keyed(known, one) => format!("by {}: {}", words(known, ", "), form(one)),
        Form::Either(forms) => forms.iter().map(form).collect::<Vec<_>>().join(" or "),
    }
}

fn words(of: &[&str], between: &str) -> String {
    of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(between)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_is_that_of_the_parser() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/study-fields.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, page()).expect("the page is written");
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(kept == page(), "docs/study-fields.md is out of date; `cargo xtask bless`");
    }
}
