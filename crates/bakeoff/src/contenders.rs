//! The contenders of a study, found before anything is started: programs fetched, endpoints asked.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bakeoff_core::record::SystemRecord;
use bakeoff_core::study::{self, Study};

use crate::cluster;
use crate::failure::Failure;
use crate::host::ports::Allocator;
use crate::install::{self, Cache, Installed, VersionRequest};
use crate::messages::Messages;
use crate::systems::{self, Asked, System, talk};

/// A system of the study with all that is needed to run it.
pub(crate) struct Contender<'a> {
    pub(crate) asked: &'a study::System,
    pub(crate) system: &'static dyn System,
    pub(crate) program: Option<Installed>,
    pub(crate) record: SystemRecord,
}

/// Finds, and where needed fetches, the programs of all systems; asks those that run already.
pub(crate) fn gather<'a>(
    study: &'a Study,
    run_dir: &Path,
    messages: &mut Messages,
    stop: &AtomicBool,
) -> Result<Vec<Contender<'a>>, Failure> {
    study.systems.iter().map(|asked| contender(asked, run_dir, messages, stop)).collect()
}

fn contender<'a>(
    asked: &'a study::System,
    run_dir: &Path,
    messages: &mut Messages,
    stop: &AtomicBool,
) -> Result<Contender<'a>, Failure> {
    let system = systems::by_kind(&asked.kind).expect("the study was checked against the registry");
    let mut record = SystemRecord {
        name: asked.name.clone(),
        kind: asked.kind.clone(),
        already_running: !asked.is_started(),
        nodes: asked.nodes,
        promises: system.promises(asked),
        ..SystemRecord::default()
    };
    if record.already_running {
        let endpoints: Vec<String> =
            asked.endpoints.iter().map(|e| format!("{}:{}", e.host, e.port)).collect();
        let endpoints = endpoints.join(", ");
        messages.step(&format!("{}: asking {endpoints}", asked.name));
        let cluster = cluster::attach(system, asked)?.ready(stop)?;
        record.tls_version = talk::tls_version(cluster.first());
        record.version = cluster.view.version;
        record.source = Some(endpoints);
        // Somebody else configured it.
        record.promises.acknowledged_in = None;
        return Ok(Contender { asked, system, program: None, record });
    }
    let program = match system.recipe() {
        None => None,
        Some(recipe) => {
            let wanted = version_request(asked.version.as_deref())?;
            let own = asked.program.as_deref().map(Path::new);
            let cache = Cache::from_environment()?;
            let progress = &mut |line: &str| messages.step(line);
            Some(install::install(recipe, wanted.as_ref(), own, &cache, progress, stop)?)
        }
    };
    match &program {
        Some(installed) => {
            record.version = Some(installed.version.clone());
            record.source = Some(installed.source.clone());
            record.sha256 = Some(installed.sha256.clone());
            record.date.clone_from(&installed.date);
        }
        None => {
            record.version = Some(env!("CARGO_PKG_VERSION").to_owned());
            record.source = Some("part of bakeoff".to_owned());
        }
    }
    // Described once for its settings; ports and folders differ from trial to trial.
    let described = Asked { system: asked, program: program.as_ref(), dir: run_dir, seed: 0 };
    record.settings = system.describe(&described, &mut Allocator::new(None))?.settings;
    Ok(Contender { asked, system, program, record })
}

/// A version as the user wrote it.
pub(crate) fn version_request(text: Option<&str>) -> Result<Option<VersionRequest>, Failure> {
    let parse = |text: &str| {
        let hint = "a version is dotted numbers: `3.6` or `3.6.16`";
        text.parse::<VersionRequest>().map_err(|error| Failure::input(error.to_string(), hint))
    };
    text.map(parse).transpose()
}
