use super::AgentError;
use super::netlink::Netlink;
use pnet::datalink::{self, NetworkInterface};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weir_host::wire::{ETHERNET_LEN, MacAddr};
use weir_units::Bytes;

/// IPv4 counts a packet's length in 16 bits; the loopback interface takes one byte more.
const MAX_IPV4_LEN: u32 = 65_535;

/// A network interface of this machine (of the network namespace it was looked up in).
#[derive(Clone, Debug)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its number.
    pub index: u32,
    /// Its MAC address.
    pub mac: MacAddr,
    /// The host's address.
    pub addr: Ipv4Addr,
    /// The largest Ethernet frame it takes, without check sequence.
    pub max_frame: Bytes,
    pub(super) pnet: NetworkInterface,
    neighbours: BTreeMap<Ipv4Addr, MacAddr>,
}

impl Interface {
    /// Looks the interface up. `addr` stands for one of its own addresses if given.
    ///
    /// # Errors
    ///
    /// There is no interface of this name, it is down, it has no MAC or IPv4 address, or the kernel cannot be asked.
    pub fn find(name: &str, addr: Option<Ipv4Addr>) -> Result<Interface, AgentError> {
        let all = datalink::interfaces();
        let Some(found) = all.iter().find(|i| i.name == name) else {
            let known: Vec<_> = all.iter().map(|i| i.name.as_str()).collect();
            return Err(AgentError::NoInterface { name: name.to_owned(), known: known.join(", ") });
        };
        let iface = name.to_owned();
        let Some(mac) = found.mac else { return Err(AgentError::NoMac { iface }) };
        let own = found.ips.iter().find_map(|net| match net.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        });
        let Some(addr) = addr.or(own) else { return Err(AgentError::NoAddress { iface }) };
        let netlink = Netlink::open().map_err(AgentError::system("opening netlink"))?;
        let link = netlink.link(found.index).map_err(AgentError::system(format!("asking for {name}")))?;
        let Some(link) = link.filter(|link| link.up) else { return Err(AgentError::InterfaceDown { iface }) };
        let neighbours =
            netlink.neighbours(found.index).map_err(AgentError::system("reading the neighbour table"))?;
        Ok(Interface {
            name: iface,
            index: found.index,
            mac: mac.octets(),
            addr,
            max_frame: Bytes::new(u64::from(link.mtu.min(MAX_IPV4_LEN)) + ETHERNET_LEN as u64),
            pnet: found.clone(),
            neighbours,
        })
    }

    /// Returns the destination of frames to `peer`: the MAC address of the peer, or of the gateway to it.
    ///
    /// # Errors
    ///
    /// `peer` is this host or no unicast address, the kernel cannot be asked for the route, or the neighbour table
    /// has no MAC address of the next hop.
    pub fn next_hop(&self, peer: Ipv4Addr) -> Result<MacAddr, AgentError> {
        if peer == self.addr {
            return Err(AgentError::OwnAddress { peer });
        }
        if peer.is_unspecified() || peer.is_multicast() || peer.is_broadcast() {
            return Err(AgentError::NotUnicast { peer });
        }
        if let Some(mac) = self.neighbours.get(&peer) {
            return Ok(*mac);
        }
        let gateway = Netlink::open()
            .and_then(|netlink| netlink.gateway(self.index, peer))
            .map_err(AgentError::system(format!("asking for the route to {peer}")))?;
        let hop = gateway.unwrap_or(peer);
        self.neighbours.get(&hop).copied().ok_or_else(|| AgentError::NoNeighbour {
            peer,
            hop,
            iface: self.name.clone(),
        })
    }

    /// MAC addresses of the hosts on the link, as the kernel knows them.
    pub fn neighbours(&self) -> &BTreeMap<Ipv4Addr, MacAddr> {
        &self.neighbours
    }
}
