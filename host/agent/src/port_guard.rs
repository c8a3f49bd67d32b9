//! Keeps the kernel from answering our packets.
//!
//! A frame that we read from the interface also goes up the kernel's own stack, which finds no
//! socket on its UDP port and sends an ICMP "port unreachable" to the peer. So the agent holds a UDP
//! socket on each port at which packets reach this host: Weir's, and the entropy ports of its own
//! flows, to which ACKs come back. A filter that takes nothing makes the kernel drop the packet
//! at the socket, before it is queued: no answer, no memory, no rule to clean up. The sockets vanish
//! with the process, however it ends.

use super::{AgentError, filter};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use socket2::{Domain, Protocol, Socket, Type};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};

/// Descriptors that the process wants for itself.
const SPARE_DESCRIPTORS: u64 = 64;

/// Held UDP ports; dropped, they are free again.
#[derive(Debug)]
pub(super) struct PortGuard {
    _sockets: Vec<Socket>,
}

impl PortGuard {
    /// Holds `ports` of `addr`. If the kernel does not own `addr`, it does not answer for it either.
    pub fn bind(addr: Ipv4Addr, ports: &BTreeSet<u16>) -> Result<PortGuard, AgentError> {
        raise_fd_limit(ports.len() as u64 + SPARE_DESCRIPTORS);
        let mut sockets = Vec::with_capacity(ports.len());
        for &port in ports {
            match hold(addr, port) {
                Ok(socket) => sockets.push(socket),
                Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => break,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    return Err(AgentError::PortTaken { addr, port });
                }
                Err(error) => {
                    return Err(AgentError::System { what: format!("holding UDP port {port}"), error });
                }
            }
        }
        Ok(PortGuard { _sockets: sockets })
    }
}

fn hold(addr: Ipv4Addr, port: u16) -> io::Result<Socket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.attach_filter(&filter::reject_all())?;
    socket.bind(&SocketAddrV4::new(addr, port).into())?;
    Ok(socket)
}

/// Raises the limit of open files if it is below `needed`. If the process may not raise it, opening the first socket
/// beyond the limit fails.
fn raise_fd_limit(needed: u64) {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|current| current < needed) {
        let _ = setrlimit(
            Resource::Nofile,
            Rlimit { current: Some(needed.min(limit.maximum.unwrap_or(needed))), maximum: limit.maximum },
        );
    }
}
