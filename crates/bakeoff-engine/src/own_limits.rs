//! Reports limits that the generator hits during a load: CPU time of its cgroup, ephemeral ports of this machine.
//!
//! Not here: limits that are known before a load (`open_files`), limits on servers (`bakeoff-host`).

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

/// Maximum bytes of incomplete answers that all clients hold together. One answer's body may have up to 1 GiB.
pub(crate) const HELD_MAX: usize = if cfg!(test) { 8 << 20 } else { 2 << 30 };

/// Returns how long this process's cgroups have throttled it so far; zero without a limit.
///
/// A limit on a parent cgroup throttles us too, so the longest time of them counts.
pub(crate) fn throttled() -> Duration {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let places = groups.lines().filter_map(place_of);
    places.map(|(root, group)| longest(&root, &group)).max().unwrap_or_default()
}

/// Returns the root of a cgroup hierarchy that limits CPU time, and the path of our group in it (cgroups(7)).
fn place_of(line: &str) -> Option<(PathBuf, String)> {
    let (_, rest) = line.split_once(':')?;
    let (controllers, group) = rest.split_once(':')?;
    let root = Path::new("/sys/fs/cgroup");
    let is_cpu = controllers.split(',').any(|one| one == "cpu");
    match controllers {
        "" if root.join("cgroup.controllers").exists() => Some((root.into(), group.into())),
        "" => Some((root.join("unified"), group.into())),
        _ if is_cpu => Some((root.join(controllers), group.into())),
        _ => None,
    }
}

fn longest(root: &Path, group: &str) -> Duration {
    let ours = root.join(group.trim_start_matches('/'));
    let groups = ours.ancestors().take_while(|group| group.starts_with(root));
    let read = |group: &Path| fs::read_to_string(group.join("cpu.stat")).ok();
    groups.filter_map(read).filter_map(|stat| throttled_in(&stat)).max().unwrap_or_default()
}

/// Parses `cpu.stat`: microseconds in version 2, nanoseconds in version 1.
fn throttled_in(stat: &str) -> Option<Duration> {
    let field = |name: &str| {
        let value = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value?.trim().parse().ok()
    };
    field("throttled_usec")
        .map(Duration::from_micros)
        .or_else(|| field("throttled_time").map(Duration::from_nanos))
}

/// Returns the reason with a hint if connecting failed because this machine has no free ephemeral port.
pub fn ports_exhausted(error: &io::Error) -> Option<String> {
    if error.raw_os_error() != Some(Errno::ADDRNOTAVAIL.raw_os_error()) {
        return None;
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let range = range.split_whitespace().collect::<Vec<_>>().join(" to ");
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let closing = closing_in(&sockets)
        .map_or_else(String::new, |count| format!(", and {count} connections wait in TIME_WAIT"));
    Some(format!(
        "this machine has no port left to connect from: `net.ipv4.ip_local_port_range` is {range}{closing}\nhint: keep \
         connections, use a lower rate, or widen the range"
    ))
}

/// Parses the number of connections in TIME_WAIT from `/proc/net/sockstat`.
fn closing_in(sockets: &str) -> Option<u64> {
    let tcp = sockets.lines().find_map(|line| line.strip_prefix("TCP:"))?;
    let mut words = tcp.split_whitespace().skip_while(|word| *word != "tw");
    words.nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttled_time_is_read_from_both_versions_of_cgroups() {
        let two = "usage_usec 9\nnr_periods 5\nnr_throttled 4\nthrottled_usec 2650000\n";
        assert_eq!(throttled_in(two), Some(Duration::from_millis(2650)));
        let one = "nr_periods 5\nnr_throttled 4\nthrottled_time 2650000000\n";
        assert_eq!(throttled_in(one), Some(Duration::from_millis(2650)));
        assert_eq!(throttled_in("usage_usec 9\n"), None);
    }

    #[test]
    fn exhausted_ports_are_not_mistaken_for_a_refusing_server() {
        let none = io::Error::from_raw_os_error(Errno::ADDRNOTAVAIL.raw_os_error());
        let text = ports_exhausted(&none).unwrap();
        assert!(text.contains("ip_local_port_range` is 3") || text.contains(" to "), "{text}");
        assert_eq!(ports_exhausted(&io::ErrorKind::ConnectionRefused.into()), None);
        let sockets =
            "sockets: used 9\nTCP: inuse 5 orphan 0 tw 28231 alloc 6 mem 0\nUDP: inuse 1\n";
        assert_eq!(closing_in(sockets), Some(28231));
    }
}
