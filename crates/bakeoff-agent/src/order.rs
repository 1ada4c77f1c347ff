//! A node's description in the form that is sent to another machine.
//!
//! An order starts with the coordinator's paths. Its sender replaces the folders that differ on the other machine with
//! [`LaunchOrder::moved`]: the folder of the nodes, the program cache, bakeoff itself.
//!
//! Not here: launching (`bakeoff_host`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bakeoff_core::log_findings::{Level, LevelWord};
use bakeoff_core::study::Limits;
use bakeoff_host::{
    FileMode, HostError, Location, NodeDisk, NodeFile, NodeSpec, OnFailure, SetupCommand, Upgrade,
};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// Describes one server process to run on another machine. The fields are those of [`NodeSpec`], as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    name: String,
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>, bool)>,
    dir: String,
    location: Location,
    ports: Vec<(String, u16)>,
    held: Vec<u16>,
    limits: Option<String>,
    before: Vec<OrderBefore>,
    never_root: bool,
    stop_signal: Option<i32>,
    logs: Vec<String>,
    level_words: Vec<(String, Option<Level>)>,
    disk: NodeDisk,
    upgrade: Option<OrderUpgrade>,
}

/// Another version of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OrderUpgrade {
    version: String,
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

/// A command to run before the server starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OrderBefore {
    program: String,
    args: Vec<String>,
    within_ms: u64,
    again: bool,
}

impl LaunchOrder {
    /// Converts a description into an order.
    ///
    /// # Errors
    /// When a path or an argument is not UTF-8.
    pub fn new(spec: &NodeSpec) -> Result<Self, HostError> {
        let unsound = |what: &str| HostError::Spec {
            node: spec.name.clone(),
            problem: format!("{what} is not UTF-8 and cannot be sent to another machine"),
        };
        let path =
            |path: &Path, what: &str| path.to_str().map(str::to_owned).ok_or_else(|| unsound(what));
        let words = |args: &[OsString]| -> Result<Vec<String>, HostError> {
            let word = |arg: &OsString| arg.to_str().map(str::to_owned);
            args.iter().map(|arg| word(arg).ok_or_else(|| unsound("an argument"))).collect()
        };
        let limits = spec.limits.as_ref().map(serde_json::to_string).transpose();
        let limits = limits.map_err(|_| unsound("its limits"))?;
        Ok(Self {
            name: spec.name.clone(),
            program: path(&spec.program, "its program's path")?,
            args: words(&spec.args)?,
            env: spec.env.clone(),
            files: spec
                .files
                .iter()
                .map(|file| {
                    let private = file.mode == FileMode::Private;
                    Ok((path(&file.path, "a file's path")?, file.contents.clone(), private))
                })
                .collect::<Result<_, HostError>>()?,
            dir: path(&spec.dir, "its folder's path")?,
            location: spec.location,
            ports: spec.ports.clone(),
            held: spec.held.clone(),
            limits,
            before: spec
                .before
                .iter()
                .map(|before| {
                    Ok(OrderBefore {
                        program: path(&before.program, "a command's path")?,
                        args: words(&before.args)?,
                        within_ms: before.within.as_millis() as u64,
                        again: before.failure == OnFailure::TryAgain,
                    })
                })
                .collect::<Result<_, HostError>>()?,
            never_root: spec.never_root,
            stop_signal: spec.stop_signal.map(Signal::as_raw),
            logs: spec
                .logs
                .iter()
                .map(|log| path(log, "a log's path"))
                .collect::<Result<_, HostError>>()?,
            level_words: spec
                .level_words
                .iter()
                .map(|&(word, level)| (word.to_owned(), level))
                .collect(),
            disk: spec.disk,
            upgrade: match &spec.upgrade {
                None => None,
                Some(new) => Some(OrderUpgrade {
                    version: new.version.clone(),
                    program: path(&new.program, "its program's path")?,
                    args: words(&new.args)?,
                    env: new.env.clone(),
                }),
            },
        })
    }

    /// Replaces one folder by another in paths, arguments, environment values and text files. Folders are absolute and
    /// unique to a run, so no other text can match.
    pub fn moved(mut self, from: &str, to: &str) -> Self {
        let change = |text: &mut String| {
            if text.contains(from) {
                *text = text.replace(from, to);
            }
        };
        change(&mut self.program);
        change(&mut self.dir);
        self.args.iter_mut().for_each(change);
        self.env.iter_mut().for_each(|(_, value)| change(value));
        for (_, contents, _) in &mut self.files {
            if let Ok(text) = std::str::from_utf8(contents)
                && text.contains(from)
            {
                *contents = text.replace(from, to).into_bytes();
            }
        }
        for before in &mut self.before {
            change(&mut before.program);
            before.args.iter_mut().for_each(change);
        }
        if let Some(new) = &mut self.upgrade {
            change(&mut new.program);
            new.args.iter_mut().for_each(change);
            new.env.iter_mut().for_each(|(_, value)| change(value));
        }
        self
    }

    /// Returns the paths of the programs to run: the first version, then that of an upgrade.
    pub fn programs(&self) -> impl Iterator<Item = &Path> {
        let upgrade = self.upgrade.as_ref().map(|new| &new.program);
        [&self.program].into_iter().chain(upgrade).map(Path::new)
    }

    /// Converts the order back to a description, on the machine that runs it.
    ///
    /// # Errors
    /// When the limits or the stop signal are invalid.
    pub(crate) fn spec(self) -> Result<NodeSpec, HostError> {
        let unsound = |problem: &str| HostError::Spec {
            node: self.name.clone(),
            problem: problem.to_owned(),
        };
        let limits: Option<Limits> = match &self.limits {
            None => None,
            Some(text) => {
                Some(serde_json::from_str(text).map_err(|_| unsound("its limits are invalid"))?)
            }
        };
        let stop_signal = match self.stop_signal {
            None => None,
            Some(raw) => Some(
                Signal::from_named_raw(raw).ok_or_else(|| unsound("its stop signal is invalid"))?,
            ),
        };
        let file = |(path, contents, private): (String, Vec<u8>, bool)| NodeFile {
            path: path.into(),
            contents,
            mode: if private { FileMode::Private } else { FileMode::Readable },
        };
        let before = |before: OrderBefore| SetupCommand {
            program: before.program.into(),
            args: before.args.into_iter().map(Into::into).collect(),
            within: std::time::Duration::from_millis(before.within_ms),
            failure: if before.again { OnFailure::TryAgain } else { OnFailure::GiveUp },
        };
        Ok(NodeSpec {
            program: self.program.into(),
            args: self.args.into_iter().map(Into::into).collect(),
            env: self.env,
            files: self.files.into_iter().map(file).collect(),
            location: self.location,
            ports: self.ports,
            held: self.held,
            limits,
            before: self.before.into_iter().map(before).collect(),
            never_root: self.never_root,
            stop_signal,
            logs: self.logs.into_iter().map(PathBuf::from).collect(),
            level_words: lasting(self.level_words),
            disk: self.disk,
            upgrade: self.upgrade.map(|new| Upgrade {
                version: new.version,
                program: new.program.into(),
                args: new.args.into_iter().map(Into::into).collect(),
                env: new.env,
            }),
            ..NodeSpec::new(self.name, "", self.dir.into())
        })
    }
}

/// Returns the words with static lifetime. Leaks each distinct list once; there are as many as kinds of servers.
fn lasting(words: Vec<(String, Option<Level>)>) -> &'static [LevelWord] {
    static KEPT: Mutex<Vec<&'static [LevelWord]>> = Mutex::new(Vec::new());
    if words.is_empty() {
        return &[];
    }
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    let same = |known: &&&'static [LevelWord]| {
        let known = known.iter().map(|&(word, level)| (word, level));
        known.eq(words.iter().map(|(word, level)| (word.as_str(), *level)))
    };
    if let Some(known) = kept.iter().find(same) {
        return known;
    }
    let leaked = |(word, level): (String, Option<Level>)| (&*word.leak(), level);
    let list: &'static [LevelWord] = words.into_iter().map(leaked).collect::<Vec<_>>().leak();
    kept.push(list);
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> NodeSpec {
        NodeSpec {
            args: vec!["--data=/run/1/nodes/a-1/data".into(), "-x".into()],
            env: vec![("LIB".into(), "/cache/etcd/lib".into())],
            upgrade: Some(Upgrade {
                version: "3.7".into(),
                program: "/cache/etcd-3.7/etcd".into(),
                args: vec!["--data=/run/1/nodes/a-1/data".into()],
                env: vec![("LIB".into(), "/cache/etcd-3.7/lib".into())],
            }),
            files: vec![NodeFile {
                path: "conf/a.conf".into(),
                contents: b"dir /run/1/nodes/a-1\nkeep /run/1x".to_vec(),
                mode: FileMode::Private,
            }],
            ports: vec![("client".into(), 17_001)],
            held: vec![17_002],
            limits: Some(Limits { cpu: Some(0.5), memory: None, cpus: vec![1] }),
            stop_signal: Some(Signal::QUIT),
            never_root: true,
            logs: vec!["server.log".into()],
            level_words: &[("BAD", Some(Level::Error)), ("fine", None)],
            disk: NodeDisk::Breakable,
            ..NodeSpec::new("a-1".into(), "/cache/etcd/etcd", "/run/1/nodes/a-1".into())
        }
    }

    #[test]
    fn order_round_trip_keeps_the_description() {
        let order = LaunchOrder::new(&spec()).unwrap();
        let sent: LaunchOrder =
            serde_json::from_slice(&serde_json::to_vec(&order).unwrap()).unwrap();
        let there = sent.spec().unwrap();
        assert_eq!(format!("{there:?}"), format!("{:?}", spec()));
        let again = LaunchOrder::new(&spec()).unwrap().spec().unwrap();
        assert!(std::ptr::eq(there.level_words, again.level_words), "kept once");
    }

    #[test]
    fn moved_replaces_folders_everywhere() {
        let order = LaunchOrder::new(&spec()).unwrap();
        let order = order.moved("/run/1/nodes", "/var/tmp/b/nodes").moved("/cache", "/srv/c");
        let there = order.spec().unwrap();
        assert_eq!(there.program, Path::new("/srv/c/etcd/etcd"));
        assert_eq!(there.dir, Path::new("/var/tmp/b/nodes/a-1"));
        assert_eq!(there.args[0], "--data=/var/tmp/b/nodes/a-1/data");
        assert_eq!(there.env[0].1, "/srv/c/etcd/lib");
        assert_eq!(there.files[0].contents, b"dir /var/tmp/b/nodes/a-1\nkeep /run/1x");
    }
}
