//! Names a process by its number and the time of its start, so that another with the same number is not taken for it.

use std::fs;

/// A process: no other will ever have both numbers, until the machine is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProcessId {
    pub(super) pid: i32,
    /// Since the machine's start, in ticks of the kernel.
    pub(super) start_ticks: u64,
}

impl ProcessId {
    /// Reads who has this number now; `None` for nobody, or one that has ended.
    pub(super) fn read(pid: i32) -> Option<Self> {
        let stat = Stat::read(pid)?;
        stat.is_alive().then_some(Self { pid, start_ticks: stat.start_ticks })
    }

    pub(super) fn is_running(self) -> bool {
        Self::read(self.pid) == Some(self)
    }
}

/// The fields of `/proc/PID/stat` that are used here.
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
        // The name before it may hold anything.
        let rest = &text[text.rfind(')')? + 1..];
        let fields: Vec<&str> = rest.split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            start_ticks: fields.get(19)?.parse().ok()?,
        })
    }

    /// One that has ended and was not waited for runs no more.
    pub(super) fn is_alive(&self) -> bool {
        !matches!(self.state, 'Z' | 'X')
    }
}

/// The numbers of all processes.
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
