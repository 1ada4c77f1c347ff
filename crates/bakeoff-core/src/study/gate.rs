//! Derives the study of a gate: one system of a study, twice.
//!
//! Both copies have everything that the study says about the system, except for the program, version or options of
//! each build. They are called `base` and `new`. Each trial starts fresh servers, even if the study keeps them:
//! trials on kept servers repeat the luck of two processes.
//!
//! Not here: the programs on a command line (the binary), the judgement (`report::compare`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::parse::systems::option_form;
use super::{Clusters, DecidingPlace, Kind, Load, Study, System};
use crate::suggest::suggest;
use crate::units::shown;

/// Names of a gate's systems, in order.
pub const BUILDS: [&str; 2] = ["base", "new"];

/// Holds the system of a gate and its two builds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateBuilds {
    /// Name of a system of the study.
    pub system: String,
    /// Builds: `base`, then `new` ([`BUILDS`]).
    pub builds: [Build; 2],
}

/// Holds the settings of one build.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Build {
    /// Program that replaces the study's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<String>,
    /// Version that replaces the study's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Options that replace or extend the study's.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
}

/// Reason why a study has no such gate, and a hint.
pub type NoGate = (String, String);

impl Study {
    /// Returns the study of a gate: only the named system, as `base` and as `new`.
    ///
    /// # Errors
    /// Fails if there is no such system, if bakeoff does not start it, if its kind lacks an option, or if the builds
    /// do not differ.
    pub fn gate(&self, system: &str, builds: &[Build; 2], kinds: &[Kind]) -> Result<Study, NoGate> {
        let Some(asked) = self.systems.iter().find(|one| one.name == system) else {
            let names = self.systems.iter().map(|one| one.name.as_str());
            let what = format!("study `{}` has no system `{}`", self.name, shown(system));
            return Err((what, suggest(system, names, "its systems:")));
        };
        if !asked.is_started() {
            let what = format!("`{system}` runs already: there is no program to put in its place");
            return Err((what, "a gate starts both builds itself".to_owned()));
        }
        let kind = kinds.iter().find(|kind| kind.name == asked.kind);
        let kind = kind.ok_or_else(|| {
            (format!("unknown kind `{}`", asked.kind), "`bakeoff systems` lists them".to_owned())
        })?;
        let [base, new] = builds;
        let systems = [built(asked, BUILDS[0], base, kind)?, built(asked, BUILDS[1], new, kind)?];
        let differ =
            |one: &System| System { name: String::new(), parts: BTreeMap::new(), ..one.clone() };
        if differ(&systems[0]) == differ(&systems[1]) {
            return Err((
                "base and new are the same program with the same options".to_owned(),
                "name another one with `--base` or `--new`, or an option with `--new-option`"
                    .to_owned(),
            ));
        }
        let mut workloads: Vec<_> =
            self.workloads.iter().filter(|workload| workload.is_done_by(asked)).cloned().collect();
        workloads.iter_mut().for_each(|workload| workload.systems.clear());
        for (workload, system) in
            workloads.iter().flat_map(|one| systems.iter().map(move |system| (one, system)))
        {
            if let Some(why) = workload.mix.keys().find_map(|one| (kind.lacks)(system, *one)) {
                let what = format!("`{}` cannot do workload `{}`", system.name, workload.name);
                return Err((what, why));
            }
        }
        let used = |load: &&Load| workloads.iter().any(|one| one.loads.contains(&load.name));
        let mut loads: Vec<Load> = self.loads.iter().filter(used).cloned().collect();
        for load in &mut loads {
            let own = load.clients_for.remove(system);
            load.clients_for.clear();
            if let Some(clients) = own {
                load.clients_for = BUILDS.map(|name| (name.to_owned(), clients.clone())).into();
            }
        }
        let remains = |one: &DecidingPlace| workloads.iter().any(|work| work.name == one.workload);
        let question = self.question.clone().filter(remains);
        Ok(Study {
            name: format!("{}-gate", self.name),
            title: format!("Two builds of {system}, of: {}", self.title),
            systems: systems.into(),
            workloads,
            loads,
            question,
            clusters: Clusters::Fresh,
            publication: None,
            published: Vec::new(),
            quick: None,
            ..self.clone()
        })
    }
}

fn built(of: &System, name: &str, build: &Build, kind: &Kind) -> Result<System, NoGate> {
    let mut system = System { name: name.to_owned(), ..of.clone() };
    for (role, part) in &mut system.parts {
        part.name = format!("{name}-{role}");
    }
    if let Some(program) = &build.program {
        // The study's version refers to its own program.
        system.version = None;
        match &mut system.process {
            Some(process) => process.command[0].clone_from(program),
            None => system.program = Some(program.clone()),
        }
    }
    if let Some(version) = &build.version {
        if system.process.is_some() {
            return Err((
                format!("`{}` is a command, and `{version}` would not choose one", of.name),
                format!("give a program: `--{name} ./{}`", of.name),
            ));
        }
        (system.program, system.version) = (None, Some(version.clone()));
    }
    for (option, value) in &build.options {
        let Some(known) = kind.options.iter().find(|known| known.name == option) else {
            let what = format!("kind `{}` has no option `{}`", kind.name, shown(option));
            let names = kind.options.iter().map(|option| option.name);
            return Err((what, suggest(option, names, "its options:")));
        };
        option_form(known.name, &known.form, value)
            .map_err(|unreadable| (unreadable.what, unreadable.hint))?;
        system.options.insert(option.clone(), value.clone());
    }
    (kind.sound)(&system)
        .map(|()| system)
        .map_err(|(what, hint)| (format!("`{name}`: {what}"), hint))
}

#[cfg(test)]
mod tests {
    use super::super::{KindOption, Operation, OptionForm, parse};
    use super::*;

    const STORE: Kind = Kind {
        operations: &[Operation::Put, Operation::Get],
        options: &[KindOption { name: "delay", form: OptionForm::Duration, meaning: "waits" }],
        nodes_max: 3,
        ..Kind::new("store")
    };

    const TEXT: &str = "\
title: Two stores
systems:
  one: {kind: store, version: 3.6}
  other: {kind: store}
workloads:
  writes: {mix: {put: 1}, keys: {count: 100}}
  others: {mix: {put: 1}, keys: {count: 100}, systems: [other]}
loads:
  few: {clients: 2, clients-for: {one: 5}, stop: {after: 1s}}
trials: 3
clusters: kept
";

    fn study() -> Study {
        parse("stores", "stores.yaml", TEXT, &[STORE])
            .unwrap_or_else(|diagnostics| panic!("{diagnostics}"))
    }

    fn program(path: &str) -> Build {
        Build { program: Some(path.to_owned()), ..Build::default() }
    }

    fn option(value: &str) -> Build {
        Build { options: [("delay".to_owned(), value.to_owned())].into(), ..Build::default() }
    }

    #[test]
    fn gate_study_has_one_system_twice() {
        let gate = study().gate("one", &[Build::default(), program("/new")], &[STORE]).unwrap();
        let [base, new] = &gate.systems[..] else { panic!("{:?}", gate.systems) };
        assert_eq!((&*base.name, &*new.name), ("base", "new"));
        assert_eq!((base.version.as_deref(), base.program.as_deref()), (Some("3.6"), None));
        assert_eq!((new.version.as_deref(), new.program.as_deref()), (None, Some("/new")));
        assert_eq!(gate.workloads.len(), 1, "others are done by the other alone");
        assert_eq!(gate.loads[0].clients_for.get("new"), Some(&vec![5]));
        assert_eq!(gate.loads[0].clients_for.len(), 2);
        assert_eq!((gate.name.as_str(), gate.clusters), ("stores-gate", Clusters::Fresh));
    }

    #[track_caller]
    fn refused(system: &str, builds: [Build; 2], expected: [&str; 2]) {
        let (what, hint) = study().gate(system, &builds, &[STORE]).unwrap_err();
        assert_eq!([&*what, &*hint], expected);
    }

    #[test]
    fn rejects_studies_without_a_gate() {
        let same = "name another one with `--base` or `--new`, or an option with `--new-option`";
        let what = "base and new are the same program with the same options";
        refused("one", [Build::default(), Build::default()], [what, same]);
        refused("one", [program("/a"), program("/a")], [what, same]);
        refused(
            "ones",
            [program("/a"), program("/b")],
            ["study `stores` has no system `ones`", "did you mean `one`?"],
        );
        let none = ["kind `store` has no option `delays`", "did you mean `delay`?"];
        let misspelt = [("delays".to_owned(), "1ms".to_owned())].into();
        refused("one", [Build::default(), Build { options: misspelt, ..Build::default() }], none);
        let (what, _) =
            study().gate("one", &[Build::default(), option("soon")], &[STORE]).unwrap_err();
        assert!(what.contains("soon"), "{what}");
        assert!(study().gate("one", &[option("1ms"), option("2ms")], &[STORE]).is_ok());
    }
}
