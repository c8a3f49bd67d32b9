use super::AgentError;
use super::netlink::Netlink;
use pnet::datalink::{self, NetworkInterface};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weir_host::wire::{ETHERNET_LEN, MacAddr};
use weir_units::Bytes;

/// Maximum of IPv4's 16-bit total length. The loopback interface has an MTU of one byte more.
const MAX_IPV4_LEN: u32 = 65_535;

/// A network interface, in the network namespace in which it was looked up.
#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub index: u32,
    pub mac: MacAddr,
    pub addr: Ipv4Addr,
    /// Largest Ethernet frame in bytes, without FCS.
    pub max_frame: Bytes,
    pub(super) pnet: NetworkInterface,
    neighbours: BTreeMap<Ipv4Addr, MacAddr>,
}

impl Interface {
    /// Looks up an interface by name. `addr` replaces the interface's first IPv4 address if given.
    ///
    /// # Errors
    ///
    /// The interface does not exist, is down, or has no MAC or IPv4 address, or a netlink query fails.
    pub fn find(name: &str, addr: Option<Ipv4Addr>) -> Result<Interface, AgentError> {
        let all = datalink::interfaces();
        let Some(found) = all.iter().find(|i| i.name == name) else {
            let known: Vec<_> = all.iter().map(|i| i.name.as_str()).collect();
            return Err(AgentError::NoInterface { name: name.to_owned(), known: known.join(", ") });
        };
        let iface = name.to_owned();
        let Some(mac) = found.mac else { return Err(AgentError::NoMac { iface }) };
        let first_addr = found.ips.iter().find_map(|net| match net.ip() {
            IpAddr::V4(ip) => Some(ip),
            IpAddr::V6(_) => None,
        });
        let Some(addr) = addr.or(first_addr) else { return Err(AgentError::NoAddress { iface }) };
        let netlink = Netlink::open().map_err(AgentError::system("opening netlink"))?;
        let link = netlink.link(found.index).map_err(AgentError::system(format!("querying {name}")))?;
        let Some(link) = link.filter(|link| link.is_up) else {
            return Err(AgentError::InterfaceDown { iface });
        };
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

    /// Returns the destination MAC address of frames to `peer`: that of the peer, or of the gateway to it.
    ///
    /// # Errors
    ///
    /// `peer` is this host's own address or not a unicast address, netlink cannot be opened, or the neighbour table has
    /// no MAC address of the next hop.
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
            .map_err(AgentError::system(format!("querying the route to {peer}")))?;
        let hop = gateway.unwrap_or(peer);
        self.neighbours.get(&hop).copied().ok_or_else(|| AgentError::NoNeighbour {
            peer,
            hop,
            iface: self.name.clone(),
        })
    }

    /// Returns the kernel's neighbour table of this interface, as of [`Interface::find`].
    pub fn neighbours(&self) -> &BTreeMap<Ipv4Addr, MacAddr> {
        &self.neighbours
    }
}
