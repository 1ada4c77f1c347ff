//! Describes commands without starting them.

use std::path::PathBuf;

use bakeoff_install::Program;

use super::*;
use crate::testing;

fn study_system(process: study::Process, nodes: u32) -> study::System {
    study::System { process: Some(process), ..testing::study_system("process", nodes, &[]) }
}

fn process(command: &[&str]) -> study::Process {
    study::Process {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        environment: Default::default(),
        files: Default::default(),
        ready: None,
    }
}

fn installed() -> InstalledProgram {
    InstalledProgram {
        system: "process".into(),
        version: String::new(),
        source: String::new(),
        program: Program::Binary(PathBuf::from("/bin/sh")),
        library_path: Vec::new(),
        sha256: String::new(),
        date: None,
        folder: None,
    }
}

fn described(system: &study::System) -> Result<Description, HostError> {
    let program = installed();
    let context = DescribeContext {
        system,
        composite: system,
        role: crate::COMPOSITE,
        program: Some(&program),
        dir: std::path::Path::new("/nowhere"),
        locations: &[bakeoff_host::Location::HERE],
        members: &[],
        seed: 1,
        neighbours: &[],
    };
    Process.describe(&context, &mut Allocator::new(None))
}

#[test]
fn each_node_has_its_own_named_ports() {
    let mut process = process(&["sh", "{port}", "{port:admin}", "{node}"]);
    process.environment = [("ADMIN".into(), "{port:admin}".into())].into();
    process.files = [("a".into(), "{port:peer} {dir} {unknown}".into())].into();
    let nodes = described(&study_system(process, 2)).unwrap().nodes;
    assert_eq!(nodes.len(), 2);
    let mut all = Vec::new();
    for (number, node) in (1..).zip(&nodes) {
        let purposes: Vec<&str> = node.ports.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(purposes, ["client", "admin", "peer"]);
        let port = |name: &str| node.port(name).to_string();
        let args: Vec<&str> = node.args.iter().filter_map(|arg| arg.to_str()).collect();
        assert_eq!(args, [port("client"), port("admin"), format!("process-{number}")]);
        assert_eq!(node.env, [("ADMIN".to_owned(), port("admin"))]);
        let file = String::from_utf8(node.files[0].contents.clone()).unwrap();
        assert_eq!(file, format!("{} /nowhere/process-{number} {{unknown}}", port("peer")));
        assert_eq!(node.program, PathBuf::from("/bin/sh"));
        all.extend(node.ports.iter().map(|(_, port)| *port));
    }
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6, "no port is given twice");
}

#[test]
fn error_names_an_unset_variable_and_hides_secrets() {
    let mut process = process(&["sh", "{port}"]);
    process.environment = [("TOKEN".into(), "$BAKEOFF_TESTS_SET_NO_SUCH_NAME".into())].into();
    let error = described(&study_system(process.clone(), 1)).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("`$BAKEOFF_TESTS_SET_NO_SUCH_NAME`, which is not set"), "{error}");
    // Values of variables are not searched for words.
    process.environment = [("TOKEN".into(), "$PATH".into())].into();
    let nodes = described(&study_system(process, 1)).unwrap().nodes;
    assert_eq!(nodes[0].env[0].1, std::env::var("PATH").unwrap());
}

#[test]
fn refuses_an_unsound_command_before_it_is_run() {
    let wrong = |process: study::Process, reply: &str| {
        let (what, hint) = sound(&study_system(process, 1)).unwrap_err();
        assert!(what.contains(reply) && !hint.is_empty(), "{what}\n{hint}");
    };
    wrong(process(&["sh"]), "no text holds `{port}`");
    wrong(process(&["sh", "{port:admin}"]), "no text holds `{port}`");
    wrong(process(&["sh", "{{port}}"]), "no text holds `{port}`");
    wrong(process(&["{dir}/x", "{port}"]), "does not start with a program");
    wrong(process(&["", "{port}"]), "does not start with a program");
    assert_eq!(sound(&study_system(process(&["sh", "{port}"]), 1)), Ok(()));
}

#[test]
fn unknown_words_are_reported_with_their_text() {
    let check = |process: study::Process, expected: &[(ProcessText, &str, &str)]| {
        let found = misspelt(&study_system(process, 1));
        let seen: Vec<(ProcessText, &str)> =
            found.iter().map(|one| (one.within.clone(), one.word.as_str())).collect();
        let wanted: Vec<_> =
            expected.iter().map(|(within, word, _)| (within.clone(), *word)).collect();
        assert_eq!(seen, wanted);
        for (one, (_, _, what)) in found.iter().zip(expected) {
            assert!(one.what.contains(what) && !one.hint.is_empty(), "{}\n{}", one.what, one.hint);
        }
    };
    let part = "`command`: `{backend}` refers to a part";
    check(
        process(&["sh", "-c", "{port} {backend}"]),
        &[(ProcessText::Command(2), "{backend}", part)],
    );
    let mut own = process(&["sh", "{prt}"]);
    own.environment = [("A".into(), "{nod}".into()), ("B".into(), "$nod".into())].into();
    own.files = [("x".into(), "{nod} {port:}".into())].into();
    let expected = [
        (ProcessText::Command(1), "{prt}", "unknown word `{prt}`"),
        (ProcessText::Environment("A".into()), "{nod}", "`A`: unknown word `{nod}`"),
        (ProcessText::File("x".into()), "{port:}", "file `x`: `{port:}` does not name a port"),
    ];
    check(own, &expected);
    check(process(&["sh", "{port}"]), &[]);
}

#[test]
fn certificate_is_generated_if_a_word_refers_to_it() {
    let plain = described(&study_system(process(&["sh", "{port}"]), 1)).unwrap();
    assert!(plain.tls.is_none() && plain.nodes[0].files.is_empty());
    let system = study_system(process(&["sh", "{port}", "{cert}", "{cert-and-key}"]), 2);
    let described = described(&system).unwrap();
    assert!(described.tls.is_some() && described.memory.get::<CaPem>().is_some());
    for node in &described.nodes {
        let args: Vec<String> = node.args.iter().map(|arg| arg.display().to_string()).collect();
        assert_eq!(args[1], format!("/nowhere/{}/tls/certificate.pem", node.name));
        let private = node.files.iter().filter(|file| file.mode == FileMode::Private);
        let private: Vec<_> = private.map(|file| file.path.display().to_string()).collect();
        assert_eq!(private, ["tls/key.pem", "tls/both.pem"]);
    }
    let tls = Some(study::Tls { insecure: true, ..study::Tls::default() });
    let (what, _) = sound(&study::System { tls, ..system }).unwrap_err();
    assert!(what.starts_with("it has `tls`"), "{what}");
}
