//! Runs the server: listener, connections, background tasks, and shutdown.

use super::admission::{Admission, ConnectionActivity, Limits};
use super::config::ServerConfig;
use super::connection::{KEEPALIVE_INTERVAL, accept};
use super::device::Device;
use super::notifications;
use super::service::Service;
use super::sync::lock;
use crate::runtime;
use p4runtime::server::p4_runtime_server::P4RuntimeServer;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tonic::service::interceptor::InterceptedService;
use tonic::{Request, Status};
use weir_switch::driver::{DataplaneError, DataplaneHandle};

/// Maximum request size in bytes. Programs and batches of 100,000 entries are smaller. BMv2 accepts 256 MB; gRPC's
/// default is 4 MB. Every client can make the server allocate this much.
const MAX_REQUEST_LEN: usize = 16 << 20;
/// Maximum number of concurrent calls per connection.
const MAX_CONCURRENT_CALLS: u32 = 64;
/// Time that calls have to finish when the server stops.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of threads of the servers. Loading programs and decoding large requests use tokio's blocking threads, table
/// operations the data-plane thread.
const WORKER_THREADS: usize = 2;
/// Maximum number of blocking threads; they compute and do not wait.
const BLOCKING_THREADS: usize = 16;

/// The reason why a server did not start, or ended.
#[derive(Debug, Error)]
pub enum ServeError {
    #[error("cannot serve P4Runtime: {0}")]
    System(#[from] io::Error),
    #[error("cannot start the threads of P4Runtime: {0}")]
    Thread(#[source] io::Error),
    #[error("cannot serve P4Runtime over TLS: {0}")]
    Tls(String),
    #[error(transparent)]
    Dataplane(#[from] DataplaneError),
}

/// Serves P4Runtime on a listener until `stop` completes. Needs a tokio executor with I/O and timers. Streams and calls
/// that are open then end within a second.
///
/// # Errors
///
/// The certificates cannot be used, the data plane has stopped, or the listener fails.
pub async fn serve(
    dataplane: DataplaneHandle,
    config: ServerConfig,
    listener: TcpListener,
    stop: impl Future<Output = ()> + Send,
) -> Result<(), ServeError> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let limits = Limits::default();
    let mut server = tonic::transport::Server::builder()
        .max_concurrent_streams(MAX_CONCURRENT_CALLS)
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(limits.read_timeout));
    if let Some(tls) = &config.tls {
        server = server.tls_config(tls.server()).map_err(|error| ServeError::Tls(error_chain(&error)))?;
    }
    let device = Arc::new(Device::new(dataplane, config));
    let events = notifications::subscribe(&device).await?;
    let mut tasks = JoinSet::new();
    tasks.spawn(notifications::relay(Arc::clone(&device), events));
    tasks.spawn(notifications::notify_idle_timeouts(Arc::clone(&device)));
    let service =
        P4RuntimeServer::new(Service(Arc::clone(&device))).max_decoding_message_size(MAX_REQUEST_LEN);
    let service = InterceptedService::new(service, count_call);

    // Dropped with this future, which ends all connections.
    let (_server_alive, server_watch) = watch::channel(());
    let (stop_sender, stop_begun) = oneshot::channel();
    let stopped = async {
        stop.await;
        lock(&device.sessions).close_all();
        // Fails if the server has already ended by itself.
        let _ = stop_sender.send(());
    };
    let connections = accept(listener, Admission::new(limits), server_watch);
    let serving = server.add_service(service).serve_with_incoming_shutdown(connections, stopped);
    let shutdown_timeout = async {
        match stop_begun.await {
            Ok(()) => tokio::time::sleep(SHUTDOWN_TIMEOUT).await,
            // The server has ended by itself, so there is nothing to wait for.
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serving => served.map_err(|error| ServeError::System(io::Error::other(error_chain(&error)))),
        () = shutdown_timeout => Ok(()),
    }
}

/// Registers each request as a call of its connection. The service keeps the guard until the call ends.
#[allow(clippy::result_large_err)] // tonic's type
fn count_call(mut request: Request<()>) -> Result<Request<()>, Status> {
    if let Some(activity) = request.extensions().get::<Arc<ConnectionActivity>>() {
        let call = Arc::new(activity.begin_call());
        request.extensions_mut().insert(call);
    }
    Ok(request)
}

/// Formats an error with its causes.
fn error_chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

/// P4Runtime servers on their own threads. Dropping it stops them.
#[derive(Debug)]
pub struct Server {
    addresses: Vec<SocketAddr>,
    stop: Option<watch::Sender<()>>,
    thread: Option<JoinHandle<Result<(), ServeError>>>,
}

impl Server {
    /// Starts a server on its own threads.
    ///
    /// # Errors
    ///
    /// The certificates are invalid, or the system provides no thread or event loop. If the data plane has stopped,
    /// [`stop`](Self::stop) returns the error.
    pub fn start(
        dataplane: DataplaneHandle,
        config: ServerConfig,
        listener: TcpListener,
    ) -> Result<Server, ServeError> {
        Server::start_all(vec![(dataplane, config, listener)])
    }

    /// Starts a server for each switch of a fabric. The servers share their threads.
    ///
    /// # Errors
    ///
    /// See [`start`](Self::start).
    pub fn start_all(
        switches: Vec<(DataplaneHandle, ServerConfig, TcpListener)>,
    ) -> Result<Server, ServeError> {
        let addresses = switches.iter().map(|(_, _, listener)| listener.local_addr());
        let addresses = addresses.collect::<Result<_, _>>()?;
        let runtime = runtime::multi_thread("p4runtime", WORKER_THREADS, BLOCKING_THREADS);
        let runtime = runtime.map_err(ServeError::Thread)?;
        if let Some(tls) = switches.iter().find_map(|(_, config, _)| config.tls.as_ref()) {
            // Check the certificates here, so that the caller gets the error.
            let checked = tonic::transport::Server::builder().tls_config(tls.server());
            checked.map_err(|error| ServeError::Tls(error_chain(&error)))?;
        }
        let (stop, stopped) = watch::channel(());
        let serve_all = async move {
            let mut servers = JoinSet::new();
            for (dataplane, config, listener) in switches {
                let mut stopped = stopped.clone();
                // `changed` also returns when the sender is dropped.
                let stopped = async move { drop(stopped.changed().await) };
                servers.spawn(serve(dataplane, config, listener, stopped));
            }
            while let Some(ended) = servers.join_next().await {
                ended.unwrap_or_else(|_| Err(panicked()))?;
            }
            Ok(())
        };
        let thread = std::thread::Builder::new()
            .name("p4runtime".into())
            .spawn(move || runtime.block_on(serve_all))?;
        Ok(Server { addresses, stop: Some(stop), thread: Some(thread) })
    }

    /// Returns the listening address of the first server.
    pub fn address(&self) -> SocketAddr {
        self.addresses[0]
    }

    /// Returns the listening addresses, in the order of the switches.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Returns whether the server runs. It ends only by [`stop`](Self::stop) or with an error.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Ends all streams and waits until the server has ended, for about a second at most.
    ///
    /// # Errors
    ///
    /// The error with which the server had ended before.
    pub fn stop(mut self) -> Result<(), ServeError> {
        self.end().unwrap_or(Ok(()))
    }

    fn end(&mut self) -> Option<Result<(), ServeError>> {
        drop(self.stop.take());
        let thread = self.thread.take()?;
        Some(thread.join().unwrap_or_else(|_| Err(panicked())))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Errors are only available from `stop`.
        let _ = self.end();
    }
}

fn panicked() -> ServeError {
    ServeError::System(io::Error::other("the server panicked"))
}
