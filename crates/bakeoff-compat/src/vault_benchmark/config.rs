//! The configuration file: options at its top level, and the tests.
//!
//! Not here: the syntax (`hcl`), a test's own options (`tests`), which option wins over which
//! (`options`).

use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;
use std::rc::Rc;

use bakeoff_core::study::{Diagnostics, suggest};
use bakeoff_core::units::shown;
use bakeoff_engine::LoadError;

use super::fields::{Environment, Fields, Shared};
use super::hcl;

/// The name under which all tests are added up; no test may have it.
pub(super) const TOTAL: &str = "total";

/// A configuration file. Who has built its tests asks [`Config::finish`] whether all was known.
#[derive(Debug)]
pub(super) struct Config {
    /// Options at the top level.
    pub(super) options: Fields,
    /// In the order of the file.
    pub(super) tests: Vec<Test>,
    shared: Rc<Shared>,
}

/// `test "kind" "name" { … }`
#[derive(Debug)]
pub(super) struct Test {
    /// The type: `kvv2_read`.
    pub(super) kind: String,
    /// The name that the report has for it; unique in the file.
    pub(super) name: String,
    /// Its share of all requests in hundredths; those of all tests add up to 100.
    pub(super) weight: u32,
    /// Where it is mounted unless mounts are random; [`Test::mount`] says what holds.
    mount_name: Option<String>,
    /// The options in `config { … }`; without any if the block is missing.
    pub(super) config: Fields,
    block: Fields,
}

impl Test {
    /// Returns where the test's engine or method is mounted if mounts are not random.
    pub(super) fn mount(&self) -> &str {
        self.mount_name.as_deref().unwrap_or(&self.name)
    }

    /// A mistake about the test as a whole.
    pub(super) fn diagnostic(&self, what: impl Into<String>, hint: impl Into<String>) {
        self.block.diagnostic("", what, hint);
    }

    /// Says that there is no such type, and leaves the options of the test alone. `known` are the
    /// types that there are; `elsewhere` those that vault-benchmark has besides.
    pub(super) fn unknown_kind(&self, known: &[&str], elsewhere: &[&str]) {
        self.config.pass_over();
        let Some((_, at)) = self.block.labels().first() else { return };
        let kind = shown(&self.kind);
        let what = if elsewhere.contains(&&*self.kind) {
            format!("test type `{kind}` is one of vault-benchmark's that bakeoff does not have")
        } else {
            format!("unknown test type `{kind}`")
        };
        let hint = if elsewhere.contains(&&*self.kind) {
            format!("there are {}", known.join(", "))
        } else {
            match suggest(&self.kind, known.iter().copied(), "") {
                nearest if nearest.starts_with("did you") => nearest,
                _ => format!("there are {}", known.join(", ")),
            }
        };
        self.config.shared().sink().hint(at, what, hint);
    }
}

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is no HCL, or whose tests are not what tests are.
    pub(super) fn read(path: &Path, environment: Environment) -> Result<Self, LoadError> {
        let cannot = |error: &dyn std::fmt::Display| {
            let what = format!("cannot read the configuration `{}`: {error}", path.display());
            LoadError::input(
                what,
                "`-config=FILE` names a file of tests: `docs/vault-benchmark.md`",
            )
        };
        let file = std::fs::File::open(path).map_err(|error| cannot(&error))?;
        let mut text = String::new();
        file.take(hcl::SIZE_MAX + 1).read_to_string(&mut text).map_err(|error| cannot(&error))?;
        if text.len() as u64 > hcl::SIZE_MAX {
            return Err(cannot(&format!("it has more than {} MiB", hcl::SIZE_MAX >> 20)));
        }
        Ok(Self::parse(&path.display().to_string(), &text, environment)?)
    }

    /// Reads a file's text; `file` is its name.
    ///
    /// # Errors
    ///
    /// Refuses what is no HCL.
    pub(super) fn parse(
        file: &str,
        text: &str,
        environment: Environment,
    ) -> Result<Self, Diagnostics> {
        let (sink, body) = hcl::parse(file, text)?;
        let shared = Rc::new(Shared::new(sink, environment));
        let options = Fields::top(body, &shared);
        let tests: Vec<Test> =
            options.blocks("test").into_iter().filter_map(|block| test(block, &shared)).collect();
        let config = Self { options, tests, shared };
        config.check();
        Ok(config)
    }

    /// Checks names and weights over all tests.
    fn check(&self) {
        let mut names = BTreeSet::new();
        for test in &self.tests {
            let name = shown(&test.name);
            if !names.insert(&test.name) {
                let what = format!("there is another test `{name}`");
                test.diagnostic(what, "their figures would be one: give each its own name");
            }
            if test.name.eq_ignore_ascii_case(TOTAL) {
                let what = format!("no test can be called `{name}`");
                test.diagnostic(what, "all tests are added up under this name: choose another");
            }
        }
        let total: u64 = self.tests.iter().map(|test| u64::from(test.weight)).sum();
        let diagnostic = |what: String, hint: &str| {
            let at = self.tests.first().map_or(0..0, |test| test.block.range());
            self.shared.sink().hint(&at, what, hint);
        };
        if self.tests.is_empty() {
            let hint = "write `test \"kvv2_read\" \"reads\" { weight = 100 }`";
            diagnostic("there is no test in this file".to_owned(), hint);
        } else if total != 100 {
            let hint = "`weight` is a test's share of all requests, in hundredths";
            diagnostic(format!("the weights of all tests add up to {total} and not to 100"), hint);
        }
    }

    /// A mistake about an option at the top level.
    pub(super) fn diagnostic(
        &self,
        option: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.options.diagnostic(option, what, hint);
    }

    /// Returns whether all that was written has been asked for and could be read.
    ///
    /// # Errors
    ///
    /// All mistakes, in the order of the file's lines.
    pub(super) fn finish(&self) -> Result<(), Diagnostics> {
        self.options.finish();
        let sink = std::mem::take(&mut *self.shared.sink());
        if sink.is_empty() { Ok(()) } else { Err(sink.into_diagnostics()) }
    }
}

fn test(block: Fields, shared: &Shared) -> Option<Test> {
    let labels = block.labels();
    let [(kind, _), (name, name_at)] = labels else {
        let what = "a test has a type and a name";
        block.pass_over();
        block.diagnostic("", what, "write `test \"kvv2_read\" \"reads\" { … }`");
        return None;
    };
    if name.is_empty() {
        shared.sink().add(name_at, "the test's name is empty");
    }
    let weight = block.whole_from("weight", 0).unwrap_or(0);
    Some(Test {
        kind: kind.clone(),
        name: name.clone(),
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
        mount_name: block.text("mount_name").filter(|name| !name.is_empty()),
        config: block.block("config"),
        block,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Config, Diagnostics> {
        Config::parse("t.hcl", text, Environment::default())
    }

    #[track_caller]
    fn check_diagnostic(text: &str, expected: &[&str]) {
        let diagnostics = match parse(text) {
            Ok(config) => config.finish().unwrap_err(),
            Err(diagnostics) => diagnostics,
        };
        let diagnostics = diagnostics.to_string();
        for expected in expected {
            assert!(diagnostics.contains(expected), "{diagnostics}");
        }
    }

    #[test]
    fn tests_are_had_in_the_order_of_the_file() {
        let config = parse(
            "test \"kvv2_write\" \"b\" {\n  weight = 40\n  mount_name = \"kv\"\n}\n\
             test \"approle_auth\" \"a\" {\n  weight = 60\n}\n",
        );
        let config = config.unwrap();
        config.finish().unwrap();
        let tests: Vec<_> = config
            .tests
            .iter()
            .map(|test| (&*test.kind, &*test.name, test.weight, test.mount()))
            .collect();
        assert_eq!(tests, [("kvv2_write", "b", 40, "kv"), ("approle_auth", "a", 60, "a")]);
    }

    #[test]
    fn weights_add_up_to_a_hundred() {
        check_diagnostic("test \"k\" \"a\" { weight = 50 }", &["add up to 50", "t.hcl:1:1"]);
        check_diagnostic("test \"k\" \"a\" { }", &["add up to 0"]);
        check_diagnostic("test \"k\" \"a\" { weight = -1 }", &["`weight` must be at least 0"]);
        check_diagnostic("workers = 1", &["there is no test"]);
    }

    #[test]
    fn names_of_tests_are_told_apart() {
        let two = "test \"k\" \"a\" { weight = 50 }\ntest \"k\" \"a\" { weight = 50 }\n";
        check_diagnostic(two, &["another test `a`", "t.hcl:2:1"]);
        check_diagnostic("test \"k\" \"total\" { weight = 100 }", &["called `total`"]);
        check_diagnostic("test \"k\" { weight = 100 }", &["a type and a name"]);
        check_diagnostic("test \"k\" \"\" { weight = 100 }", &["name is empty"]);
    }

    #[test]
    fn unknown_options_are_refused_at_every_height() {
        check_diagnostic(
            "wrkers = 1\ntest \"k\" \"a\" { weight = 100 }",
            &["unknown option `wrkers`"],
        );
        let inside = "test \"k\" \"a\" {\n  weight = 100\n  mountname = \"x\"\n}\n";
        check_diagnostic(inside, &["`mountname` in test `a`", "t.hcl:3:3", "`mount_name`?"]);
    }

    #[test]
    fn an_unknown_type_says_which_there_are_and_nothing_of_its_options() {
        let text = "test \"kvv2_raed\" \"a\" {\n  weight = 100\n  config { x = 1 }\n}\n";
        let check = |elsewhere: &[&str], expected: &str| {
            let config = parse(text).unwrap();
            config.tests[0].unknown_kind(&["kvv2_read", "ssh_sign"], elsewhere);
            let diagnostics = config.finish().unwrap_err();
            assert_eq!(diagnostics.0.len(), 1);
            let diagnostic = diagnostics.to_string();
            assert!(
                diagnostic.contains("t.hcl:1:6") && diagnostic.contains(expected),
                "{diagnostic}"
            );
        };
        check(&[], "did you mean `kvv2_read`?");
        check(&["kvv2_raed"], "bakeoff does not have");
    }
}
