//! Samples the whole machine, and the disk that holds the servers' data.
//!
//! Not here: single processes (`census`), the checks that use the samples (core's `check`).

use std::path::{Path, PathBuf};

use bakeoff_core::trial_samples::{BusyBy, Column};

use super::busy_time::BusyTimeSource;
use super::procfs;

/// The machine, and the disk below one directory.
pub(super) struct Machine {
    data: PathBuf,
    /// Device number of the disk that holds `data`; `None` if there is no single disk (tmpfs, overlay, btrfs).
    device: Option<(u32, u32)>,
    running: BusyTimeSource,
}

/// Sector size in `/proc/diskstats`, independent of the disk's own.
const SECTOR: u64 = 512;

impl Machine {
    /// Creates a sampler. `data`: the directory that holds the servers' data.
    pub(super) fn new(data: &Path) -> Self {
        let device = rustix::fs::stat(data).ok();
        let device = device.map(|of| (rustix::fs::major(of.st_dev), rustix::fs::minor(of.st_dev)));
        // Major number 0 is not a device.
        let device = device.filter(|&(major, _)| major != 0);
        Self { data: data.to_owned(), device, running: BusyTimeSource::find() }
    }

    /// Returns the source of the busy time.
    pub(super) fn busy_by(&self) -> BusyBy {
        self.running.name()
    }

    pub(super) fn sample(&self) -> Vec<(Column, f64)> {
        let mut row = Vec::new();
        if let Ok(text) = std::fs::read_to_string("/proc/stat") {
            row.extend(cpus(&text, procfs::ticks_per_second()));
        }
        if let Some(seconds) = self.running.seconds() {
            row.retain(|(column, _)| *column != Column::Busy);
            row.push((Column::Busy, seconds));
        }
        row.extend(PRESSURES.into_iter().filter_map(|(file, column)| {
            Some((column, pressure(&std::fs::read_to_string(file).ok()?)?))
        }));
        let opened = std::fs::read_to_string("/proc/net/snmp").ok();
        let opened = opened.and_then(|text| connections_opened(&text));
        row.extend(opened.map(|count| (Column::ConnectionsOpened, count as f64)));
        let disk = self
            .device
            .and_then(|device| disk(&std::fs::read_to_string("/proc/diskstats").ok()?, device));
        row.extend(disk.into_iter().flatten());
        if let Ok(space) = rustix::fs::statvfs(&self.data) {
            row.push((Column::DiskFree, space.f_bavail.saturating_mul(space.f_frsize) as f64));
        }
        row
    }
}

/// Returns the boot ID of the running kernel (`random(4)`). Processes with the same ID run on the same machine, even in
/// different containers. `None` if it cannot be read.
pub fn running_kernel() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

/// Returns the number of online CPUs, from `/proc/stat`.
pub fn cpus_online() -> Option<u32> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let each = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    Some(text.lines().filter(each).count() as u32).filter(|&count| count > 0)
}

/// Parses `/proc/stat` (`proc_stat(5)`). Guest time is included in user time.
fn cpus(text: &str, ticks_per_second: f64) -> Vec<(Column, f64)> {
    let mut row = Vec::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("cpu") => {
                let ticks = words.map_while(|word| word.parse::<u64>().ok()).collect::<Vec<_>>();
                let [user, nice, system, _, _, irq, softirq, ..] = ticks[..] else { continue };
                let busy = user + nice + system + irq + softirq;
                row.push((Column::Busy, busy as f64 / ticks_per_second));
                let steal = ticks.get(7).map(|&steal| steal as f64 / ticks_per_second);
                row.extend(steal.map(|steal| (Column::Steal, steal)));
            }
            Some("procs_running") => {
                let running = words.next().and_then(|word| word.parse::<f64>().ok());
                row.extend(running.map(|running| (Column::RunQueue, running)));
            }
            Some("processes") => {
                let begun = words.next().and_then(|word| word.parse::<f64>().ok());
                row.extend(begun.map(|begun| (Column::TasksBegun, begun)));
            }
            _ => {}
        }
    }
    row
}

/// Files with the kernel's pressure stall times (`Documentation/accounting/psi.rst`).
const PRESSURES: [(&str, Column); 3] = [
    ("/proc/pressure/cpu", Column::PressureCpu),
    ("/proc/pressure/io", Column::PressureIo),
    ("/proc/pressure/memory", Column::PressureMemory),
];

/// Returns the seconds in which at least one task waited.
fn pressure(text: &str) -> Option<f64> {
    let some = text.lines().find_map(|line| line.strip_prefix("some "))?;
    let total = some.split_ascii_whitespace().find_map(|word| word.strip_prefix("total="))?;
    Some(total.parse::<u64>().ok()? as f64 / 1e6)
}

/// Returns TCP's `ActiveOpens` from `/proc/net/snmp`, whose lines come in pairs of names and values.
fn connections_opened(text: &str) -> Option<u64> {
    let mut tcp = text.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, values) = (tcp.next()?, tcp.next()?);
    let place = names.split_ascii_whitespace().position(|name| name == "ActiveOpens")?;
    values.split_ascii_whitespace().nth(place)?.parse().ok()
}

/// Parses one device's line of `/proc/diskstats` (the kernel's `Documentation/admin-guide/iostats.rst`).
fn disk(text: &str, (major, minor): (u32, u32)) -> Option<[(Column, f64); 5]> {
    let fields = text.lines().find_map(|line| {
        let fields = line.split_ascii_whitespace().collect::<Vec<_>>();
        let is = |at: usize, number: u32| {
            fields.get(at).and_then(|field| field.parse().ok()) == Some(number)
        };
        (is(0, major) && is(1, minor)).then_some(fields)
    })?;
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some([
        (Column::DiskReads, number(3)? as f64),
        (Column::DiskRead, (number(5)? * SECTOR) as f64),
        (Column::DiskWrites, number(7)? as f64),
        (Column::DiskWritten, (number(9)? * SECTOR) as f64),
        (Column::DiskBusy, number(12)? as f64 / 1000.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_steal_and_queue_are_parsed() {
        let text = "cpu  100 10 50 9000 40 5 6 7 3 0\ncpu0 1 1 1 1\nintr 5\nprocesses 9\nprocs_running 4\n";
        let expected = [
            (Column::Busy, 1.71),
            (Column::Steal, 0.07),
            (Column::TasksBegun, 9.0),
            (Column::RunQueue, 4.0),
        ]
        .to_vec();
        assert_eq!(cpus(text, 100.0), expected);
        // A kernel without steal time has no such column.
        assert_eq!(cpus("cpu 1 1 1 1 1 1 1\n", 100.0), [(Column::Busy, 0.05)]);
        assert!(cpus("cpu 1 2\nprocs_running x\n", 100.0).is_empty());
    }

    #[test]
    fn pressure_and_connections_are_read() {
        let text =
            "some avg10=1.50 avg60=0.00 avg300=0.00 total=2500000\nfull avg10=0.00 total=9\n";
        assert_eq!(pressure(text), Some(2.5));
        assert_eq!(pressure(""), None);
        let snmp = "Ip: A\nIp: 1\nTcp: RtoMin MaxConn ActiveOpens\nTcp: 200 -1 1487\nUdp: B\n";
        assert_eq!(connections_opened(snmp), Some(1487));
        assert_eq!(connections_opened("Tcp: X\nTcp: 1\n"), None);
    }

    #[test]
    fn a_disk_is_found_by_its_number() {
        let text = "   7       0 loop0 1 1 1 1 1 1 1 1 1 1 1\n \
                    254       0 vda 30 2 17 55 49 15 31 18 1 688 765 56 4 38 8 16 17\n \
                    254       1 vda1 3 2 1 5 4 1 3 1 1 6 7\n";
        let found = disk(text, (254, 0)).unwrap();
        let expected = [
            (Column::DiskReads, 30.0),
            (Column::DiskRead, 17.0 * 512.0),
            (Column::DiskWrites, 49.0),
            (Column::DiskWritten, 31.0 * 512.0),
            (Column::DiskBusy, 0.688),
        ];
        assert_eq!(found, expected);
        assert_eq!(disk(text, (254, 2)), None);
        assert_eq!(disk("254 0 vda 1\n", (254, 0)), None);
    }

    #[test]
    fn samples_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let row = Machine::new(dir.path()).sample();
        for column in [Column::Busy, Column::RunQueue, Column::DiskFree] {
            assert!(row.iter().any(|&(one, value)| one == column && value > 0.0), "{column:?}");
        }
        assert!(cpus_online().unwrap() >= 1);
    }
}
