//! `bakeoff manifests`: writes the Kubernetes manifests that a study of ingress gateways needs, and a study with
//! `endpoints` to run with them.
//!
//! All numbers come from the study: limits of gateways and sidecars, size of the application's answers. Vendor charts
//! install control planes, with the values written here. The compared parts (gateways, sidecars, application) are
//! manifests. Nothing is applied.
//!
//! Not here: the resources (`resources`), YAML output (`yaml`).

mod readme;
mod resources;
mod yaml;

use std::fs;

use bakeoff_core::study::{self, Study};
use bakeoff_systems as systems;
use bakeoff_systems::declaration::Plane;
use serde_json::Value;

use crate::cli::ManifestsArgs;
use crate::commands::study_file::{StudyText, study_text};
use crate::failure::Failure;
use crate::messages;
use resources::PreparedSystem;

struct ManifestFile {
    name: &'static str,
    text: String,
}

pub(crate) fn write(args: &ManifestsArgs) -> Result<(), Failure> {
    let StudyText { name, file, text } = study_text(&args.study)?;
    let study = study::parse(&name, &file, &text, &systems::kinds())?;
    let files = files(&study, &name, &text, &args.node)?;
    let out = &args.out;
    fs::create_dir_all(out).map_err(|error| Failure::file("make", out, &error))?;
    let mut there = fs::read_dir(out).map_err(|error| Failure::file("read", out, &error))?;
    if there.next().is_some() {
        return Err(Failure::input(
            format!("`{}` is not empty", out.display()),
            "name a new folder: existing files might belong to another cluster",
        ));
    }
    for ManifestFile { name, text } in &files {
        let path = out.join(name);
        fs::write(&path, text).map_err(|error| Failure::file("write", &path, &error))?;
    }
    let names: Vec<String> =
        files.iter().map(|file| out.join(file.name).display().to_string()).collect();
    messages::output(&format!("{}\n\n{} describes how to use them", names.join("\n"), names[0]));
    Ok(())
}

/// Returns all files, the README first.
fn files(study: &Study, name: &str, text: &str, node: &str) -> Result<Vec<ManifestFile>, Failure> {
    let contenders = contenders(study)?;
    let endpoints = with_endpoints(text, &contenders, node);
    let file = format!("{STUDY} of {name}");
    // Parse the result: an invalid `--node` shows up here.
    study::parse(name, &file, &endpoints, &systems::kinds())?;
    let yaml = |documents: Vec<Value>| yaml::documents(&documents);
    let has = |plane| contenders.iter().any(|one| one.plane == Some(plane));
    let mut files = vec![
        ManifestFile { name: "README.md", text: readme::text(&contenders, STUDY) },
        ManifestFile { name: "namespaces.yaml", text: yaml(resources::namespaces(&contenders)) },
        ManifestFile {
            name: "applications.yaml",
            text: yaml(resources::applications(&contenders)),
        },
    ];
    if has(Plane::Consul) {
        let values = resources::consul_values(&contenders);
        files.push(ManifestFile { name: "consul-values.yaml", text: yaml(vec![values]) });
        let gateways = resources::consul_gateways(&contenders);
        files.push(ManifestFile { name: "consul-gateways.yaml", text: yaml(gateways) });
    }
    if has(Plane::Istio) {
        let gateways = resources::istio_gateways(&contenders);
        files.push(ManifestFile { name: "istio-gateways.yaml", text: yaml(gateways) });
    }
    files.push(ManifestFile { name: STUDY, text: endpoints });
    Ok(files)
}

/// Name of the study to run against the manifests.
const STUDY: &str = "study.yaml";

/// Returns the systems of a study, or an error if one cannot run in Kubernetes.
fn contenders(study: &Study) -> Result<Vec<PreparedSystem<'_>>, Failure> {
    let mut contenders = Vec::new();
    for (number, system) in (0..).zip(&study.systems) {
        let one = PreparedSystem::new(system, number).ok_or_else(|| {
            Failure::input(
                format!(
                    "system `{}` of kind `{}` cannot run in Kubernetes",
                    system.name, system.kind
                ),
                "use systems of kind `ingress-gateway` or `application`",
            )
        })?;
        let begins = one.name.starts_with(|first: char| first.is_ascii_lowercase());
        if !begins || one.name.ends_with('-') {
            return Err(Failure::input(
                format!("system `{}` cannot have that name in Kubernetes", one.name),
                "rename it: service names begin with a letter and end with a letter or a digit",
            ));
        }
        if let Some((kind, option)) = resources::left_out(system) {
            return Err(Failure::input(
                format!(
                    "`{option}` of kind `{kind}` in system `{}` has no counterpart in Kubernetes",
                    one.name
                ),
                "remove it from the study",
            ));
        }
        contenders.push(one);
    }
    for plane in [Plane::Consul, Plane::Istio] {
        let mut alike = contenders
            .iter()
            .filter(|one| one.plane == Some(plane))
            .filter_map(|one| one.control_plane)
            .map(|plane| (&plane.version, plane.nodes, &plane.options));
        let first = alike.next();
        if alike.any(|other| Some(other) != first) {
            return Err(Failure::input(
                format!("study `{}` has different control planes of one kind", study.name),
                "a cluster has one of each kind: set the same version, nodes and options",
            ));
        }
    }
    if contenders.iter().all(|one| one.plane.is_none()) {
        return Err(Failure::input(
            format!("study `{}` has no system of kind `ingress-gateway`", study.name),
            "try the shipped one: `bakeoff manifests ingress`",
        ));
    }
    Ok(contenders)
}

/// Returns the study's text with endpoints instead of its systems. All other lines stay as they are.
fn with_endpoints(text: &str, contenders: &[PreparedSystem<'_>], node: &str) -> String {
    let host = if node.contains(':') { format!("[{node}]") } else { node.to_owned() };
    let mut out = String::new();
    let mut in_systems = false;
    for line in text.lines() {
        let begins = line.starts_with(|c: char| !c.is_whitespace() && c != '#');
        if begins {
            in_systems = line.starts_with("systems:");
            if in_systems {
                out.push_str("systems:\n");
                for one in contenders {
                    let (name, port) = (one.name, one.node_port());
                    out += &format!(
                        "  {name}: {{kind: http, endpoints: [\"http://{host}:{port}\"]}}\n"
                    );
                }
                out.push('\n');
            }
        }
        let editor = line.starts_with("# yaml-language-server:");
        if !in_systems && !editor {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests;
