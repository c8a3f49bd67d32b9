//! The Thrift server of `weir switch`: the part of simple_switch's interface that simple_switch_CLI and p4-utils use.
//!
//! BMv2 serves three services over one TCP port, told apart by Thrift's multiplexed protocol: `standard` (tables,
//! cells, ports, the program), `simple_pre_lag` (multicast) and `simple_switch` (queues, clone sessions). The calls
//! are in one file each; they become commands of a [`DataplaneHandle`]. A refusal is answered with BMv2's exception
//! and code. `docs/thrift.md` lists the verbs of the command line that work.
//!
//! Peers may be hostile: a call is bounded in bytes, elements, depth and time, the number of connections is bounded
//! too, and nothing is reserved on a peer's word. There is no authentication in Thrift: who reaches the port controls
//! the switch, as in BMv2.

mod config;
mod connection;
mod dev_mgr;
mod entries;
mod externs;
mod profiles;
mod service;
mod simple_pre_lag;
mod simple_switch;
mod tables;
#[cfg(test)]
mod tests;
mod value;

use crate::p4runtime::Programs;
use connection::{ConnectionPermit, Connections};
use service::Service;
use simple_pre_lag::Pre;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_switch::driver::DataplaneHandle;

/// Delay of the server when the system has no more sockets or threads.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// Configuration of a server.
#[derive(Clone, Debug)]
pub struct ThriftConfig {
    /// Address on which it listens; port 0 for any free one.
    pub listen: SocketAddr,
    /// Device id that `switch_info` shows.
    pub device_id: u64,
    /// Seed of the program's random numbers after `reset_state`.
    pub seed: u64,
    /// True if clients may load programs (`load_new_config_file`, `swap_configs`).
    pub allow_config_swap: bool,
    /// The programs of the process.
    pub programs: Arc<Programs>,
}

impl ThriftConfig {
    /// BMv2's port (options_parse.cpp, `default_thrift_port`).
    pub const PORT: u16 = 9090;
}

/// A running server. Dropping it ends all its connections and waits for its thread.
#[derive(Debug)]
pub struct ThriftServer {
    address: SocketAddr,
    listener: TcpListener,
    connections: Arc<Connections>,
    thread: Option<JoinHandle<()>>,
}

impl ThriftServer {
    /// Listens and serves the switch behind the handle.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the system gives no thread.
    pub fn start(handle: DataplaneHandle, config: &ThriftConfig) -> io::Result<ThriftServer> {
        let listener = TcpListener::bind(config.listen)?;
        let address = listener.local_addr()?;
        let service = Service {
            handle,
            device_id: config.device_id,
            port: address.port(),
            seed: config.seed,
            pre: Pre::default(),
            allow_config_swap: config.allow_config_swap,
            programs: Arc::clone(&config.programs),
            pending_switch: None,
        };
        let service = Arc::new(Mutex::new(service));
        let connections = Arc::new(Connections::default());
        let (incoming, accepted) = (listener.try_clone()?, connections.clone());
        let accept = move || accept(&incoming, &service, &accepted);
        let thread = Some(std::thread::Builder::new().name("thrift".into()).spawn(accept)?);
        Ok(ThriftServer { address, listener, connections, thread })
    }

    /// Returns the address on which the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ThriftServer {
    fn drop(&mut self) {
        self.connections.close();
        // It makes `accept` return; a listener that is shut down already is as good.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn accept(listener: &TcpListener, service: &Arc<Mutex<Service>>, connections: &Arc<Connections>) {
    loop {
        let accepted = listener.accept();
        if connections.is_closed() {
            return;
        }
        let Ok((stream, _)) = accepted else {
            std::thread::sleep(ACCEPT_RETRY_DELAY);
            continue;
        };
        let Some(slot) = ConnectionPermit::take(connections, &stream) else { continue };
        let service = service.clone();
        let serve = move || connection::serve(stream, &slot, &service);
        if let Err(error) = std::thread::Builder::new().name("thrift-peer".into()).spawn(serve) {
            tracing::warn!(%error, "a Thrift client is turned away");
            std::thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}
