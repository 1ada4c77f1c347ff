//! Identifies a process by its id and start time, so that a later process with the same id is not taken for it.

use std::fs;

/// A process. The pair is unique until the machine restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessId {
    pub(super) pid: i32,
    /// Time since the machine's start, in kernel ticks.
    pub(super) start_ticks: u64,
}

impl ProcessId {
    /// Reads the process that has this id now; `None` if there is none, or it has exited.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        stat.is_alive().then_some(Self { pid, start_ticks: stat.start_ticks })
    }

    pub(super) fn is_running(self) -> bool {
        Self::read(self.pid) == Some(self)
    }
}

/// Fields of `/proc/PID/stat` used here.
pub(super) struct Stat {
    state: char,
    pub(super) parent: i32,
    start_ticks: u64,
}

impl Stat {
    pub(super) fn read(pid: i32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The name may hold any character, so skip it.
        let rest = &text[text.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// Returns false for a process that has exited, reaped or not.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// Returns the ids of all processes.
pub(super) fn all() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_of_a_process_may_hold_anything() {
        let rest = (0..40).map(|n| n.to_string()).collect::<Vec<_>>().join(" ");
        let stat = Stat::parse(&format!("12 (a) b (c) S {rest}")).unwrap();
        assert_eq!((stat.state, stat.parent, stat.start_ticks), ('S', 0, 18));
        assert!(Stat::parse("").is_none() && Stat::parse("1 (x").is_none());
    }
}
