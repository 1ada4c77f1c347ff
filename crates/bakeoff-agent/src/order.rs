//! A node's description as it goes to another machine.
//!
//! Paths in it are those of the coordinator. Whoever sends it replaces the folders that are elsewhere on the other
//! machine ([`LaunchOrder::moved`]): the folder of the nodes, the cache of programs, bakeoff itself.
//!
//! Not here: launching (`bakeoff_host`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use bakeoff_core::log_findings::{Level, LevelWord};
use bakeoff_core::study::Limits;
use bakeoff_host::{Before, FileMode, HostError, NodeFile, NodeSpec, OnFailure, Seat};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

/// One server process to run on another machine. Its fields are those of [`NodeSpec`], as text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchOrder {
    name: String,
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    files: Vec<(String, Vec<u8>, bool)>,
    dir: String,
    seat: Seat,
    ports: Vec<(String, u16)>,
    held: Vec<u16>,
    limits: Option<String>,
    before: Vec<OrderBefore>,
    never_root: bool,
    stop_signal: Option<i32>,
    logs: Vec<String>,
    level_words: Vec<(String, Option<Level>)>,
}

/// A command before it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct OrderBefore {
    program: String,
    args: Vec<String>,
    within_ms: u64,
    again: bool,
}

impl LaunchOrder {
    /// Writes a description as an order.
    ///
    /// # Errors
    /// When a path or an argument is no UTF-8.
    pub fn new(spec: &NodeSpec) -> Result<Self, HostError> {
        let unsound = |what: &str| HostError::Spec {
            node: spec.name.clone(),
            problem: format!("{what} is no UTF-8, and cannot be sent to another machine"),
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
            seat: spec.seat,
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
        })
    }

    /// Returns it with one folder in the place of another, wherever it stands: in paths, arguments, the environment
    /// and in files of text. Folders are absolute and of a run's own, so that nothing else can be meant.
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
        self
    }

    /// Returns the program that it runs.
    pub fn program(&self) -> &Path {
        Path::new(&self.program)
    }

    /// Has another program run.
    pub fn with_program(mut self, program: &str) -> Self {
        program.clone_into(&mut self.program);
        self
    }

    /// Returns the description on the machine that runs it.
    ///
    /// # Errors
    /// When its limits or its signal cannot be read.
    pub(crate) fn spec(self) -> Result<NodeSpec, HostError> {
        let unsound = |problem: &str| HostError::Spec {
            node: self.name.clone(),
            problem: problem.to_owned(),
        };
        let limits: Option<Limits> = match &self.limits {
            None => None,
            Some(text) => {
                Some(serde_json::from_str(text).map_err(|_| unsound("its limits are none"))?)
            }
        };
        let stop_signal = match self.stop_signal {
            None => None,
            Some(raw) => {
                Some(Signal::from_named_raw(raw).ok_or_else(|| unsound("its signal is none"))?)
            }
        };
        let file = |(path, contents, private): (String, Vec<u8>, bool)| NodeFile {
            path: path.into(),
            contents,
            mode: if private { FileMode::Private } else { FileMode::Readable },
        };
        let before = |before: OrderBefore| Before {
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
            seat: self.seat,
            ports: self.ports,
            held: self.held,
            limits,
            before: self.before.into_iter().map(before).collect(),
            never_root: self.never_root,
            stop_signal,
            logs: self.logs.into_iter().map(PathBuf::from).collect(),
            level_words: lasting(self.level_words),
            ..NodeSpec::new(self.name, "", self.dir.into())
        })
    }
}

/// Returns words that last as long as the process. Kinds of servers are few, and each list is kept once.
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
            ..NodeSpec::new("a-1".into(), "/cache/etcd/etcd", "/run/1/nodes/a-1".into())
        }
    }

    #[test]
    fn a_description_arrives_as_it_was() {
        let order = LaunchOrder::new(&spec()).unwrap();
        let sent: LaunchOrder =
            serde_json::from_slice(&serde_json::to_vec(&order).unwrap()).unwrap();
        let there = sent.spec().unwrap();
        assert_eq!(format!("{there:?}"), format!("{:?}", spec()));
        let again = LaunchOrder::new(&spec()).unwrap().spec().unwrap();
        assert!(std::ptr::eq(there.level_words, again.level_words), "kept once");
    }

    #[test]
    fn folders_are_replaced_wherever_they_stand() {
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
