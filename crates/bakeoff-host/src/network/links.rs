//! Asks the kernel for links, addresses, routes and rules over `NETLINK_ROUTE` (`rtnetlink(7)`).
//!
//! Not here: which of them make a network (`serve`).

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::Duration;

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressMessage, AddressScope};
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::route::{
    RouteAttribute, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleMessage, RulePortRange};
use netlink_packet_route::{AddressFamily, IpProtocol, RouteNetlinkMessage};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socket_with};

use super::CutPath;

/// Index of a namespace's loopback link.
pub(super) const LOOPBACK: u32 = 1;
/// Priority of the rules that cut paths: before the main table (32,766), after the local one (0).
const CUT_PRIORITY: u32 = 100;
/// Prefix length of a single address.
const ONE: u8 = 32;

/// A netlink socket of the namespace in which it was opened.
pub(super) struct Links {
    netlink: OwnedFd,
}

/// Table of routes for delayed packets, and the priorities of the rules about it. What was delayed has the usual routes.
const DELAY_TABLE: u8 = 100;
const DELAYED_PRIORITY: u32 = 90;

/// A rule about the packets of a path.
#[derive(Clone)]
pub(super) struct PathRule(RuleMessage);

impl PathRule {
    /// Sends the packets of a path to the link of [`Links::delays`].
    pub(super) fn delayed(path: CutPath) -> Self {
        let Self(mut rule) = Self::all(path);
        rule.header.action = RuleAction::ToTable;
        rule.header.table = DELAY_TABLE;
        Self(rule)
    }

    /// Drops all packets of a path.
    pub(super) fn all((from, to): CutPath) -> Self {
        let mut rule = RuleMessage::default();
        rule.header.family = AddressFamily::Inet;
        rule.header.action = RuleAction::Blackhole;
        (rule.header.src_len, rule.header.dst_len) = (ONE, ONE);
        rule.attributes = vec![
            RuleAttribute::Priority(CUT_PRIORITY),
            RuleAttribute::Source(from.into()),
            RuleAttribute::Destination(to.into()),
        ];
        Self(rule)
    }

    /// Drops the packets of one TCP connection of a path, by the ports of its sender and its receiver.
    pub(super) fn connection(path: CutPath, (from, to): (u16, u16)) -> Self {
        let only = |port| RulePortRange { start: port, end: port };
        let Self(mut rule) = Self::all(path);
        rule.attributes.extend([
            RuleAttribute::IpProtocol(IpProtocol::Tcp),
            RuleAttribute::SourcePortRange(only(from)),
            RuleAttribute::DestinationPortRange(only(to)),
        ]);
        Self(rule)
    }
}

impl Links {
    /// Opens a socket in the current thread's namespace.
    pub(super) fn open() -> io::Result<Self> {
        let family = rustix::net::AddressFamily::NETLINK;
        // `NETLINK_ROUTE` is 0, the protocol of a socket for which none is asked.
        let netlink = socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        // The kernel answers at once. If it does not, fail rather than hang.
        set_socket_timeout(&netlink, Timeout::Recv, Some(Duration::from_secs(5)))?;
        Ok(Self { netlink })
    }

    /// Makes a pair of links: one here with an index and a name, its peer `eth0` with an index in another namespace.
    pub(super) fn pair(
        &self,
        (index, name): (u32, &str),
        peer_index: u32,
        namespace: BorrowedFd<'_>,
    ) -> io::Result<()> {
        let mut peer = LinkMessage::default();
        peer.header.index = peer_index;
        peer.attributes = vec![
            LinkAttribute::IfName("eth0".to_owned()),
            LinkAttribute::NetNsFd(namespace.as_raw_fd()),
        ];
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(peer))),
            ]),
        ];
        self.create(RouteNetlinkMessage::NewLink(link))
    }

    /// Turns a link on.
    pub(super) fn up(&self, index: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        (link.header.flags, link.header.change_mask) = (LinkFlags::Up, LinkFlags::Up);
        self.ask(RouteNetlinkMessage::SetLink(link), 0)
    }

    /// Makes a link the one for delayed packets, with room for `waiting` of them.
    pub(super) fn delays(&self, (index, name): (u32, &str), waiting: u32) -> io::Result<()> {
        let mut link = LinkMessage::default();
        link.header.index = index;
        link.attributes = vec![LinkAttribute::TxQueueLen(waiting)];
        self.ask(RouteNetlinkMessage::SetLink(link), 0)?;
        let to_link = vec![RouteAttribute::Oif(index)];
        self.route((DELAY_TABLE, 0), RouteScope::Link, to_link)?;
        let mut back = RuleMessage::default();
        back.header.family = AddressFamily::Inet;
        back.header.action = RuleAction::ToTable;
        back.header.table = RouteHeader::RT_TABLE_MAIN;
        back.attributes = vec![
            RuleAttribute::Priority(DELAYED_PRIORITY),
            RuleAttribute::Iifname(name.to_owned()),
        ];
        self.add(&PathRule(back))
    }

    /// Gives a link an address.
    pub(super) fn address(&self, index: u32, address: Ipv4Addr) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.family = AddressFamily::Inet;
        message.header.prefix_len = ONE;
        message.header.scope = AddressScope::Universe;
        message.header.index = index;
        message.attributes = vec![
            AddressAttribute::Local(address.into()),
            AddressAttribute::Address(address.into()),
        ];
        self.create(RouteNetlinkMessage::NewAddress(message))
    }

    /// Adds a route to one address that a link reaches directly.
    pub(super) fn neighbour(&self, index: u32, to: Ipv4Addr) -> io::Result<()> {
        self.route(
            (RouteHeader::RT_TABLE_MAIN, ONE),
            RouteScope::Link,
            vec![RouteAttribute::Destination(to.into()), RouteAttribute::Oif(index)],
        )
    }

    /// Adds the route to all other addresses.
    pub(super) fn default_route(&self, index: u32, via: Ipv4Addr) -> io::Result<()> {
        let attributes = vec![RouteAttribute::Gateway(via.into()), RouteAttribute::Oif(index)];
        self.route((RouteHeader::RT_TABLE_MAIN, 0), RouteScope::Universe, attributes)
    }

    fn route(
        &self,
        (table, length): (u8, u8),
        scope: RouteScope,
        attributes: Vec<RouteAttribute>,
    ) -> io::Result<()> {
        let mut message = RouteMessage::default();
        message.header = RouteHeader {
            address_family: AddressFamily::Inet,
            destination_prefix_length: length,
            table,
            protocol: RouteProtocol::Static,
            scope,
            kind: RouteType::Unicast,
            ..RouteHeader::default()
        };
        message.attributes = attributes;
        self.create(RouteNetlinkMessage::NewRoute(message))
    }

    /// Adds a rule.
    pub(super) fn add(&self, rule: &PathRule) -> io::Result<()> {
        self.create(RouteNetlinkMessage::NewRule(rule.0.clone()))
    }

    /// Removes a rule.
    pub(super) fn remove(&self, rule: &PathRule) -> io::Result<()> {
        self.ask(RouteNetlinkMessage::DelRule(rule.0.clone()), 0)
    }

    fn create(&self, message: RouteNetlinkMessage) -> io::Result<()> {
        self.ask(message, NLM_F_CREATE | NLM_F_EXCL)
    }

    /// Sends a request and waits for the kernel's acknowledgement.
    fn ask(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<()> {
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        send(&self.netlink, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0; 8 << 10];
        let (read, _) = recv(&self.netlink, &mut buffer[..], RecvFlags::empty())?;
        let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&buffer[..read]);
        match answer.map_err(io::Error::other)?.payload {
            NetlinkPayload::Error(error) => match error.code {
                None => Ok(()),
                Some(code) => Err(io::Error::from_raw_os_error(-code.get())),
            },
            _ => Err(io::Error::other("the kernel answered something else")),
        }
    }
}
