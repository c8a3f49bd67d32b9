//! Keeps the kernel from answering Weir's packets.
//!
//! A frame that the agent reads from the interface also reaches the kernel's own stack, which would find no socket on
//! its UDP port and send an ICMP "port unreachable" to the peer. The agent therefore binds a UDP socket to each port
//! at which packets reach this host: Weir's port, and the entropy ports of its own flows, to which ACKs are sent. A
//! filter that rejects everything makes the kernel drop each packet at the socket, before it is queued. This needs no
//! memory and no firewall rule, and the kernel closes the sockets however the process ends.

use super::{AgentError, filter};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

/// File descriptors reserved for the rest of the process.
const SPARE_DESCRIPTORS: u64 = 64;

/// UDP ports that are bound until this is dropped.
#[derive(Debug)]
pub(super) struct PortGuard {
    _sockets: Vec<Socket>,
}

impl PortGuard {
    /// Binds `ports` of `addr`.
    pub(crate) fn bind(addr: Ipv4Addr, ports: &BTreeSet<u16>) -> Result<PortGuard, AgentError> {
        raise_fd_limit(ports.len() as u64 + SPARE_DESCRIPTORS);
        let mut sockets = Vec::with_capacity(ports.len());
        for &port in ports {
            match bind_rejecting(addr, port) {
                Ok(socket) => sockets.push(socket),
                // The kernel does not own the address, so it sends no ICMP for it: no port needs a guard.
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => break,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(AgentError::PortTaken { addr, port });
                }
                Err(error) => {
                    return Err(AgentError::System { operation: format!("binding UDP port {port}"), error });
                }
            }
        }
        Ok(PortGuard { _sockets: sockets })
    }
}

/// Binds a UDP socket whose filter rejects all packets.
fn bind_rejecting(addr: Ipv4Addr, port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    // Before `bind`: no packet may be queued without the filter.
    socket.attach_filter(&filter::reject_all())?;
    socket.bind(&SocketAddrV4::new(addr, port).into())?;
    Ok(socket)
}

/// Raises the limit of open files if it is below `needed`. Errors are ignored: opening a socket beyond the limit
/// fails later.
fn raise_fd_limit(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit { current: Some(needed.min(limit.maximum.unwrap_or(needed))), maximum: limit.maximum },
        );
    }
}
