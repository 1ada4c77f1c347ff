//! Finds the TCP and UDP addresses that a process and its descendants listen on.
//!
//! The kernel lists listening TCP sockets with their inodes, and a process's descriptors name the inodes it holds. If
//! netlink fails, `/proc/net/tcp` and `tcp6` list every socket of the network namespace, as `udp` and `udp6` do
//! (`proc_pid_net(5)`). They print an address as 32-bit words in the machine's byte order, in hexadecimal. A connected
//! UDP socket only receives from its peer and does not count.
//!
//! Not here: bytes sent and received (`sockets`).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::{procfs, sockets};

/// State of a listening TCP socket in these files (`TCP_LISTEN`).
const LISTEN: &str = "0A";
/// State of an unconnected UDP socket (`TCP_CLOSE`).
const UNCONNECTED: &str = "07";

/// Returns the addresses that the members of a process group and their descendants listen on, each once. An IPv4
/// address mapped to IPv6 is returned as IPv4.
pub(super) fn addresses(group: i32) -> Vec<SocketAddr> {
    let family = procfs::family(group);
    let inodes: BTreeSet<u32> = family.iter().flat_map(|stat| procfs::sockets(stat.pid)).collect();
    if inodes.is_empty() {
        return Vec::new();
    }
    let mut listeners = sockets::listeners().unwrap_or_else(listed_tcp);
    listeners.extend(listed(["/proc/net/udp", "/proc/net/udp6"], UNCONNECTED));
    let ours = listeners.into_iter().filter(|(_, inode)| inodes.contains(inode));
    let addresses: BTreeSet<SocketAddr> = ours.map(|(address, _)| address).collect();
    addresses.into_iter().collect()
}

/// Returns the process that listens for TCP connections at an address of this machine, with its program's name. `None`:
/// no process that this user may see listens there.
pub(super) fn process(at: SocketAddr) -> Option<(i32, String)> {
    let accepts = |own: IpAddr| own == at.ip() || own.is_unspecified();
    let listeners = sockets::listeners().unwrap_or_else(listed_tcp);
    let inodes: BTreeSet<u32> = listeners
        .into_iter()
        .filter(|(own, _)| own.port() == at.port() && accepts(own.ip()))
        .map(|(_, inode)| inode)
        .collect();
    let holds = |&pid: &i32| procfs::sockets(pid).iter().any(|inode| inodes.contains(inode));
    let (program, stat) = procfs::named(procfs::pids().into_iter().find(holds)?)?;
    Some((stat.pid, program))
}

/// Lists listening TCP sockets from the files.
fn listed_tcp() -> Vec<(SocketAddr, u32)> {
    listed(["/proc/net/tcp", "/proc/net/tcp6"], LISTEN)
}

/// Lists the sockets of these files in a state, with their inodes.
fn listed(files: [&str; 2], state: &str) -> Vec<(SocketAddr, u32)> {
    let texts = files.map(|file| std::fs::read_to_string(file).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter_map(|line| listener(line, state)).collect()
}

/// Parses a line; `None` if its socket is in another state.
fn listener(line: &str, state: &str) -> Option<(SocketAddr, u32)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (address, port) = fields.get(1)?.split_once(':')?;
    if *fields.get(3)? != state {
        return None;
    }
    let word = |at: usize| u32::from_str_radix(address.get(at..at + 8)?, 16).ok();
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for place in 0..4 {
                bytes[place * 4..][..4].copy_from_slice(&word(place * 8)?.to_ne_bytes());
            }
            IpAddr::from(Ipv6Addr::from(bytes)).to_canonical()
        }
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((SocketAddr::new(ip, port), fields.get(9)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn process_is_found_by_the_address_that_it_listens_on() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = server.local_addr().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(process(at).map(|(pid, _)| pid), Some(own));
        let other = SocketAddr::new(IpAddr::from([127, 9, 9, 9]), at.port());
        assert_eq!(process(other), None, "it listens on one address alone");
        drop(server);
        assert_eq!(process(at), None);
    }

    #[test]
    fn a_process_is_found_to_listen_where_it_does() {
        let plain = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = plain.local_addr().unwrap();
        let six = TcpListener::bind("[::1]:0").ok();
        let group = rustix::process::getpgrp().as_raw_nonzero().get();
        let found = addresses(group);
        assert!(found.contains(&address), "{address} is not in {found:?}");
        if let Some(six) = six {
            assert!(found.contains(&six.local_addr().unwrap()), "{found:?}");
        }
        let packets = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(addresses(group).contains(&packets.local_addr().unwrap()));
        packets.connect(address).unwrap();
        assert!(!addresses(group).contains(&packets.local_addr().unwrap()), "it has a peer");
        let of_ours = |mut all: Vec<(SocketAddr, u32)>| {
            all.retain(|(of, _)| *of == address);
            all
        };
        let from_kernel = of_ours(sockets::listeners().expect("the kernel lists its sockets"));
        assert_eq!(
            (from_kernel.len(), &from_kernel),
            (1, &of_ours(listed_tcp())),
            "the files say the same"
        );
        let of_init = addresses(1);
        assert!(!of_init.contains(&address) || group == 1, "{of_init:?}");
        drop(plain);
        assert!(!addresses(group).contains(&address));
    }

    #[cfg(target_endian = "little")]
    #[test]
    fn a_line_is_read_with_its_address_and_its_inode() {
        let check = |line: &str, expected: Option<(&str, u32)>| {
            let expected = expected.map(|(address, inode)| (address.parse().unwrap(), inode));
            assert_eq!(listener(line, LISTEN), expected, "{line}");
        };
        let four =
            "0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1";
        check(four, Some(("127.0.0.1:8080", 77)));
        check(&four.replace("0100007F", "00000000"), Some(("0.0.0.0:8080", 77)));
        check(&four.replace(" 0A ", " 01 "), None);
        let six = four.replace("0100007F", "00000000000000000000000001000000");
        check(&six, Some(("[::1]:8080", 77)));
        let mapped = four.replace("0100007F", "0000000000000000FFFF00000100007F");
        check(&mapped, Some(("127.0.0.1:8080", 77)));
        check("  sl  local_address rem_address   st tx_queue", None);
        check("0: 0100:1F90 0 0A", None);
        check("", None);
    }
}
