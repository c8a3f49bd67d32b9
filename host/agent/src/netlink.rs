//! Queries the kernel's links, routes and neighbours over rtnetlink. The answers are for the network namespace of the
//! thread that opened the socket, while /sys and /proc/net may show another one.

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::link::{LinkAttribute, LinkFlags, LinkMessage};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use weir_host::wire::MacAddr;

/// An rtnetlink socket.
pub(super) struct Netlink {
    socket: Socket,
}

/// The properties of a network interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// MTU in bytes, without the Ethernet header.
    pub mtu: u32,
    /// True if the interface is administratively up.
    pub is_up: bool,
}

impl Netlink {
    pub(crate) fn open() -> io::Result<Netlink> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Netlink { socket })
    }

    /// Returns the interface with this index; `None` if it does not exist, for example because it was removed.
    pub(crate) fn link(&self, index: u32) -> io::Result<Option<Link>> {
        let mut request = LinkMessage::default();
        request.header.index = index;
        let replies = match self.request(RouteNetlinkMessage::GetLink(request), NLM_F_REQUEST) {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NODEV.raw_os_error()) => {
                return Ok(None);
            }
            replies => replies?,
        };
        Ok(replies.into_iter().find_map(|reply| match reply {
            RouteNetlinkMessage::NewLink(link) => {
                let mtu = link.attributes.iter().find_map(|attribute| match attribute {
                    LinkAttribute::Mtu(mtu) => Some(*mtu),
                    _ => None,
                });
                // The kernel always reports an MTU.
                Some(Link { mtu: mtu.unwrap_or(0), is_up: link.header.flags.contains(LinkFlags::Up) })
            }
            _ => None,
        }))
    }

    /// Returns the gateway to `peer` through the interface `index`; `None` if the peer is on the link, or if the query
    /// fails, for example because there is no route.
    pub(crate) fn gateway(&self, index: u32, peer: Ipv4Addr) -> io::Result<Option<Ipv4Addr>> {
        let mut request = RouteMessage::default();
        request.header.address_family = AddressFamily::Inet;
        request.header.destination_prefix_length = 32;
        request.attributes.push(RouteAttribute::Destination(RouteAddress::Inet(peer)));
        request.attributes.push(RouteAttribute::Oif(index));
        let Ok(replies) = self.request(RouteNetlinkMessage::GetRoute(request), NLM_F_REQUEST) else {
            // The kernel reports a missing route as an error, such as ENETUNREACH. All errors are treated alike,
            // because the caller then looks for `peer` itself among the neighbours.
            return Ok(None);
        };
        Ok(replies.into_iter().find_map(|reply| match reply {
            RouteNetlinkMessage::NewRoute(route) => {
                route.attributes.iter().find_map(|attribute| match attribute {
                    RouteAttribute::Gateway(RouteAddress::Inet(gateway)) => Some(*gateway),
                    _ => None,
                })
            }
            _ => None,
        }))
    }

    /// Returns the IPv4 neighbours of the interface `index` whose MAC address is known.
    pub(crate) fn neighbours(&self, index: u32) -> io::Result<BTreeMap<Ipv4Addr, MacAddr>> {
        let mut request = NeighbourMessage::default();
        request.header.family = AddressFamily::Inet;
        let replies = self.request(RouteNetlinkMessage::GetNeighbour(request), NLM_F_REQUEST | NLM_F_DUMP)?;
        let mut known = BTreeMap::new();
        for reply in replies {
            let RouteNetlinkMessage::NewNeighbour(entry) = reply else { continue };
            let is_unusable = matches!(
                entry.header.state,
                NeighbourState::Incomplete | NeighbourState::Failed | NeighbourState::None
            );
            if entry.header.ifindex != index || is_unusable {
                continue;
            }
            let (mut addr, mut mac) = (None, None);
            for attribute in entry.attributes {
                match attribute {
                    NeighbourAttribute::Destination(NeighbourAddress::Inet(ip)) => addr = Some(ip),
                    NeighbourAttribute::LinkLayerAddress(bytes) => mac = MacAddr::try_from(bytes).ok(),
                    _ => {}
                }
            }
            if let (Some(addr), Some(mac)) = (addr, mac) {
                known.insert(addr, mac);
            }
        }
        Ok(known)
    }

    /// Sends a request and returns all messages of the reply.
    fn request(&self, message: RouteNetlinkMessage, flags: u16) -> io::Result<Vec<RouteNetlinkMessage>> {
        let mut header = NetlinkHeader::default();
        header.flags = flags;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;
        let mut replies = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error.to_string()))?;
                match reply.payload {
                    NetlinkPayload::Done(_) => return Ok(replies),
                    // Without a code it is a plain acknowledgement.
                    NetlinkPayload::Error(error) if error.code.is_some() => return Err(error.to_io()),
                    NetlinkPayload::InnerMessage(message) => replies.push(message),
                    _ => {}
                }
                // Messages are aligned to four bytes. `max(4)` makes progress even if a header claims a length of 0.
                let length = (reply.header.length as usize).next_multiple_of(4);
                rest = rest.get(length.max(4)..).unwrap_or_default();
            }
            // Only a dump spans several datagrams and ends with DONE.
            if flags & NLM_F_DUMP == 0 {
                return Ok(replies);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every namespace has a loopback interface, with index 1.
    #[test]
    fn loopback_is_found() {
        let netlink = Netlink::open().unwrap();
        let link = netlink.link(1).unwrap().unwrap();
        assert!(link.mtu >= 1_500, "{link:?}");
        assert_eq!(netlink.link(i32::MAX as u32).unwrap(), None);
        assert_eq!(netlink.gateway(1, Ipv4Addr::LOCALHOST).unwrap(), None);
        netlink.neighbours(1).unwrap();
    }
}
