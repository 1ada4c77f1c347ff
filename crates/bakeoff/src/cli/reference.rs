//! Checks that `docs/commands.md` and `docs/commands-load.md` match the command line: each command with its options,
//! and the exit codes.
//!
//! `BLESS=1` writes them anew (`cargo xtask bless`).

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory as _};

use super::Cli;
use crate::failure::EXIT_CODES;

const OPENING: &str = "\
# Commands, options and exit codes

Generated from the command line. `bakeoff COMMAND --help` has these texts too, and for some
commands examples and their own exit codes. A command writes its result to standard output
and everything else to standard error. Without a terminal there are no colours, and no line is overwritten. `load` and
the commands that replace other load tools are in [commands-load.md](commands-load.md).
";

const OPENING_LOAD: &str = "\
# Commands that replace load tools

Generated from the command line. `bakeoff COMMAND --help` has these texts too, and for some
commands examples and their own exit codes. [load.md](load.md) explains `bakeoff load`.
[commands.md](commands.md) has all other commands, and the exit codes.
";

/// Commands of `commands-load.md`.
const LOADING: [&str; 6] = ["load", "wrk", "hey", "vault-benchmark", "etcd-benchmark", "dbtester"];

/// Commands that take another tool's options, each with the document that describes them.
const OTHER_TOOLS: [(&str, &str); 4] = [
    ("wrk", "wrk-and-hey.md"),
    ("hey", "wrk-and-hey.md"),
    ("vault-benchmark", "vault-benchmark.md"),
    ("etcd-benchmark", "etcd-benchmark.md"),
];

/// Returns each page's name in `docs/` and its text.
fn pages() -> [(&'static str, String); 2] {
    let mut commands = OPENING.to_owned();
    let mut loading = OPENING_LOAD.to_owned();
    let mut cli = Cli::command();
    cli.build();
    for command in
        cli.get_subcommands().filter(|one| !one.is_hide_set() && one.get_name() != "help")
    {
        let name = command.get_name();
        let page = if LOADING.contains(&name) { &mut loading } else { &mut commands };
        section(command, name, page);
    }
    exit_codes(&mut commands);
    [("commands.md", commands), ("commands-load.md", loading)]
}

fn exit_codes(text: &mut String) {
    text.push_str("\n## Exit codes\n\n| code | meaning |\n| --- | --- |\n");
    // A line with more indentation continues the line before.
    let rows = EXIT_CODES.lines().skip(1).collect::<Vec<_>>().join("\n").replace("\n       ", " ");
    for line in rows.lines() {
        let (code, meaning) = line.trim().split_once(' ').expect("a code and its meaning");
        writeln!(text, "| {code} | {} |", meaning.trim()).expect("text takes text");
    }
}

/// Adds a command and its subcommands; `name` holds all words that call it.
fn section(command: &Command, name: &str, text: &mut String) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(text, "\n## `bakeoff {name}`\n\n{}.\n", about.trim_end_matches('.')).expect("text");
    if let Some((_, document)) = OTHER_TOOLS.iter().find(|(tool, _)| *tool == name) {
        writeln!(text, "It takes that tool's options: [{document}]({document}).").expect("text");
        return;
    }
    for own in command.get_subcommands().filter(|own| own.get_name() != "help") {
        section(own, &format!("{name} {}", own.get_name()), text);
    }
    let taken = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    let mut args: Vec<&Arg> = command.get_arguments().filter(taken).collect();
    args.sort_by_key(|arg| arg.get_index().unwrap_or(usize::MAX));
    if args.is_empty() {
        return;
    }
    text.push_str("\n| option | meaning |\n| --- | --- |\n");
    for arg in args {
        let help = arg.get_long_help().or_else(|| arg.get_help());
        let help = help.map(ToString::to_string).unwrap_or_default();
        writeln!(text, "| {} | {} |", form(arg), cell(&(help + &default(arg)))).expect("text");
    }
}

/// Returns an option as the user writes it: `--trials N`, or `STUDY`.
fn form(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let values: Vec<String> = match arg.get_action().takes_values() {
        true => names.iter().map(ToString::to_string).collect(),
        false => Vec::new(),
    };
    let flag = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long} "),
        (None, Some(long)) => format!("--{long} "),
        (Some(short), None) => format!("-{short} "),
        (None, None) => String::new(),
    };
    let values = values.join(" ");
    let is_optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
    let text = match arg.is_require_equals_set() && is_optional && !values.is_empty() {
        true => format!("{}[={values}]", flag.trim()),
        false => format!("{flag}{values}"),
    };
    format!("`{}`", cell(&text).trim())
}

fn default(arg: &Arg) -> String {
    let of = arg.get_default_values();
    if of.is_empty() || !arg.get_action().takes_values() {
        return String::new();
    }
    let values: Vec<String> = of.iter().map(|one| one.to_string_lossy().into_owned()).collect();
    format!(" [default: {}]", values.join(" "))
}

/// Returns text escaped for a table cell, on one line.
fn cell(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    text.replace('|', "\\|")
}

#[test]
fn reference_matches_the_command_line() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, expected) in pages() {
        let path = docs.join(name);
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, expected).expect("the document is written");
            continue;
        }
        let held = fs::read_to_string(&path).unwrap_or_default();
        assert!(held == expected, "docs/{name} differs from the command line; `cargo xtask bless`");
    }
}

#[test]
fn parser_survives_arbitrary_command_lines() {
    use clap::Parser as _;
    let corpus: [&[u8]; 5] = [
        b"run quickstart --scale 0.01 --trials 3 --seed 7 --json",
        b"load http://127.0.0.1:1/ --rate 100/s --for 10s --fail-if p99>20ms --clients 4",
        b"gate kv-stores --system etcd --base 3.6.1 --new ./etcd --detect 5%",
        b"compare a b --fail-if throughput<-5% --format markdown",
        b"history --prune logs --older-than 720h",
    ];
    let pieces = [" ", "--", "=", "%", "-", "\u{2212}", "1e400", "..", "/s", "0", "\u{202e}"];
    bakeoff_fuzz::run("bakeoff's command line", &corpus, &pieces, |input| {
        let line = String::from_utf8_lossy(input);
        if let Err(error) = Cli::try_parse_from(std::iter::once("bakeoff").chain(line.split(' '))) {
            error.to_string();
        }
    });
}
