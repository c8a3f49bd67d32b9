//! The Thrift server of `weir switch`: the part of simple_switch's interface that simple_switch_CLI and p4-utils use.
//!
//! BMv2 serves three services on one TCP port, distinguished by Thrift's multiplexed protocol: `standard` (tables,
//! action profiles, counters, meters, registers, ports, the program), `simple_pre_lag` (multicast) and
//! `simple_switch` (queues, clone sessions). `dispatch.rs` lists the modules of each. Each call becomes a command of
//! a [`DataplaneHandle`]. Errors are returned as BMv2's exceptions and codes. `docs/thrift.md` lists the supported
//! commands of the CLI.
//!
//! Peers are untrusted: size, number of elements, nesting and duration of a call and the number of connections are
//! limited, and no memory is reserved for announced lengths. Thrift has no authentication: as in BMv2, any client
//! that reaches the port controls the switch.

mod config;
mod connection;
mod dev_mgr;
mod dispatch;
mod entries;
mod externs;
mod learning;
mod nodes;
mod notifications;
mod profiles;
mod service;
mod simple_pre_lag;
mod simple_switch;
mod structs;
mod table_error;
mod tables;
#[cfg(test)]
mod tests;
mod value;

pub use notifications::NotificationSocket;

use crate::p4runtime::Programs;
use connection::{ConnectionPermit, Connections};
use nodes::Pre;
use notifications::Notifier;
use service::Service;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_switch::driver::DataplaneHandle;

/// Delay after a failed accept or thread start, for example when there are no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

#[derive(Clone, Debug)]
pub struct ThriftConfig {
    /// Listening address; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Device id that `switch_info` shows.
    pub device_id: u64,
    /// Seed of the `random` extern after `reset_state`.
    pub seed: u64,
    /// Whether clients may load programs (`load_new_config_file`, `swap_configs`).
    pub allow_config_swap: bool,
    /// Loaded programs of the process, shared with the P4Runtime servers.
    pub programs: Arc<Programs>,
    /// Socket on which digests are published; `None` for no notifications.
    pub notifications: Option<Arc<NotificationSocket>>,
}

impl ThriftConfig {
    /// Default port of BMv2 (options_parse.cpp, `default_thrift_port`).
    pub const DEFAULT_PORT: u16 = 9090;
}

/// A running server. Dropping it ends all connections and waits for the thread that accepts them.
#[derive(Debug)]
pub struct ThriftServer {
    address: SocketAddr,
    listener: TcpListener,
    connections: Arc<Connections>,
    thread: Option<JoinHandle<()>>,
}

impl ThriftServer {
    /// Starts a server for the switch behind the handle.
    ///
    /// # Errors
    ///
    /// The address cannot be bound, or the system provides no thread.
    pub fn start(handle: DataplaneHandle, config: &ThriftConfig) -> io::Result<ThriftServer> {
        let listener = TcpListener::bind(config.listen)?;
        let address = listener.local_addr()?;
        let notifications = config.notifications.clone();
        let notifier =
            notifications.map(|socket| Notifier::start(&handle, config.device_id, socket)).transpose()?;
        let service = Service {
            handle,
            notifier,
            device_id: config.device_id,
            port: address.port(),
            seed: config.seed,
            pre: Pre::default(),
            allow_config_swap: config.allow_config_swap,
            programs: Arc::clone(&config.programs),
            staged_switch: None,
        };
        let service = Arc::new(Mutex::new(service));
        let connections = Arc::new(Connections::default());
        let (thread_listener, thread_connections) = (listener.try_clone()?, Arc::clone(&connections));
        let run = move || accept_connections(&thread_listener, &service, &thread_connections);
        let thread = Some(std::thread::Builder::new().name("thrift".into()).spawn(run)?);
        Ok(ThriftServer { address, listener, connections, thread })
    }

    /// Returns the listening address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for ThriftServer {
    fn drop(&mut self) {
        self.connections.close();
        // Makes `accept` return. Fails only if the listener is already shut down.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // Fails only if the thread has panicked.
            let _ = thread.join();
        }
    }
}

/// Accepts connections and serves each on its own thread, until the server is dropped.
fn accept_connections(listener: &TcpListener, service: &Arc<Mutex<Service>>, connections: &Arc<Connections>) {
    loop {
        let result = listener.accept();
        if connections.is_closed() {
            return;
        }
        let Ok((stream, _)) = result else {
            std::thread::sleep(ACCEPT_RETRY_DELAY);
            continue;
        };
        let Some(permit) = ConnectionPermit::acquire(connections, &stream) else { continue };
        let service = service.clone();
        let serve = move || connection::serve(stream, &permit, &service);
        if let Err(error) = std::thread::Builder::new().name("thrift-peer".into()).spawn(serve) {
            tracing::warn!(%error, "cannot start a thread for a Thrift client; closing its connection");
            std::thread::sleep(ACCEPT_RETRY_DELAY);
        }
    }
}
