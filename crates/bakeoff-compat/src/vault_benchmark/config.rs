//! Reads the configuration file: options at its top level, and the tests.
//!
//! Not here: the syntax (`hcl`), a test's own options (`tests`), the precedence of options (`options`).

use std::collections::BTreeSet;
use std::path::Path;
use std::rc::Rc;

use bakeoff_core::study::{Diagnostics, suggest};
use bakeoff_core::units::shown;
use bakeoff_engine::LoadError;
use bakeoff_files as files;

use super::fields::{Environment, Fields, FileContext};
use super::hcl;

/// Reserved name for the sum of all tests.
pub(super) const TOTAL: &str = "total";

/// A parsed file. Call [`Config::finish`] after building the tests: it reports unknown options.
#[derive(Debug)]
pub(super) struct Config {
    pub(super) options: Fields,
    /// Tests in the order of the file.
    pub(super) tests: Vec<Test>,
    shared: Rc<FileContext>,
}

/// A block `test "kind" "name" { … }`.
#[derive(Debug)]
pub(super) struct Test {
    /// Type of the test, such as `kvv2_read`.
    pub(super) kind: String,
    /// Name in the report, unique in the file.
    pub(super) name: String,
    /// Percentage of all requests. The weights of all tests add up to 100.
    pub(super) weight: u32,
    /// Mount path from the file. Callers use [`Test::mount`].
    mount_name: Option<String>,
    /// Options in `config { … }`; empty if the block is missing.
    pub(super) config: Fields,
    block: Fields,
}

impl Test {
    /// Returns the mount path of the test's engine or method, used unless mounts are random.
    pub(super) fn mount(&self) -> &str {
        self.mount_name.as_deref().unwrap_or(&self.name)
    }

    /// Reports a fault of the whole test.
    pub(super) fn diagnostic(&self, what: impl Into<String>, hint: impl Into<String>) {
        self.block.diagnostic("", what, hint);
    }

    /// Reports an unknown type and suppresses reports on the test's options. `known` lists the supported types, and
    /// `elsewhere` those that only vault-benchmark has.
    pub(super) fn unknown_kind(&self, known: &[&str], elsewhere: &[&str]) {
        self.config.pass_over();
        let Some((_, at)) = self.block.labels().first() else { return };
        let kind = shown(&self.kind);
        let what = if elsewhere.contains(&&*self.kind) {
            format!("vault-benchmark has the test type `{kind}`, but bakeoff does not")
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
    /// When the file cannot be read, is not HCL, or declares invalid tests.
    pub(super) fn read(path: &Path, environment: Environment) -> Result<Self, LoadError> {
        let cannot = |error: &dyn std::fmt::Display| {
            let what = format!("cannot read the configuration `{}`: {error}", path.display());
            LoadError::input(
                what,
                "`-config=FILE` names a file of tests; see `docs/vault-benchmark.md`",
            )
        };
        let text = files::read_text(path, hcl::SIZE_MAX).map_err(|error| cannot(&error))?;
        Ok(Self::parse(&path.display().to_string(), &text, environment)?)
    }

    /// Parses a file's text. `file` is its name in messages.
    ///
    /// # Errors
    ///
    /// When the text is not HCL.
    pub(super) fn parse(
        file: &str,
        text: &str,
        environment: Environment,
    ) -> Result<Self, Diagnostics> {
        let (sink, body) = hcl::parse(file, text)?;
        let shared = Rc::new(FileContext::new(sink, environment));
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
                let what = format!("two tests are called `{name}`");
                test.diagnostic(what, "give each test its own name");
            }
            if test.name.eq_ignore_ascii_case(TOTAL) {
                let what = format!("no test can be called `{name}`");
                test.diagnostic(
                    what,
                    "the report uses this name for the sum of all tests: choose another",
                );
            }
        }
        let total: u64 = self.tests.iter().map(|test| u64::from(test.weight)).sum();
        let diagnostic = |what: String, hint: &str| {
            let at = self.tests.first().map_or(0..0, |test| test.block.range());
            self.shared.sink().hint(&at, what, hint);
        };
        if self.tests.is_empty() {
            let hint = "write `test \"kvv2_read\" \"reads\" { weight = 100 }`";
            diagnostic("this file has no test".to_owned(), hint);
        } else if total != 100 {
            let hint = "`weight` is a test's percentage of all requests";
            diagnostic(format!("the weights of all tests add up to {total}, not to 100"), hint);
        }
    }

    /// Reports a fault of an option at the top level.
    pub(super) fn diagnostic(
        &self,
        option: &str,
        what: impl Into<String>,
        hint: impl Into<String>,
    ) {
        self.options.diagnostic(option, what, hint);
    }

    /// Succeeds if every option was read and valid.
    ///
    /// # Errors
    ///
    /// When there are diagnostics; the error lists all, in the order of the file's lines.
    pub(super) fn finish(&self) -> Result<(), Diagnostics> {
        self.options.finish();
        let sink = std::mem::take(&mut *self.shared.sink());
        if sink.is_empty() { Ok(()) } else { Err(sink.into_diagnostics()) }
    }
}

fn test(block: Fields, shared: &FileContext) -> Option<Test> {
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
    fn tests_keep_the_order_of_the_file() {
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
        check_diagnostic("workers = 1", &["has no test"]);
    }

    #[test]
    fn names_of_tests_are_unique() {
        let two = "test \"k\" \"a\" { weight = 50 }\ntest \"k\" \"a\" { weight = 50 }\n";
        check_diagnostic(two, &["two tests are called `a`", "t.hcl:2:1"]);
        check_diagnostic("test \"k\" \"total\" { weight = 100 }", &["called `total`"]);
        check_diagnostic("test \"k\" { weight = 100 }", &["a type and a name"]);
        check_diagnostic("test \"k\" \"\" { weight = 100 }", &["name is empty"]);
    }

    #[test]
    fn unknown_options_are_refused_at_every_level() {
        check_diagnostic(
            "wrkers = 1\ntest \"k\" \"a\" { weight = 100 }",
            &["unknown option `wrkers`"],
        );
        let inside = "test \"k\" \"a\" {\n  weight = 100\n  mountname = \"x\"\n}\n";
        check_diagnostic(inside, &["`mountname` in test `a`", "t.hcl:3:3", "`mount_name`?"]);
    }

    #[test]
    fn unknown_type_lists_the_types_and_skips_its_options() {
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
        check(&["kvv2_raed"], "but bakeoff does not");
    }
}
