//! Accepts connections within the limits of [`Admission`]. A connection ends when it is evicted, when it is idle for
//! too long, or with its server.

use super::admission::{Admission, ConnectionActivity, ConnectionPermit};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::Connected;

/// Interval of the HTTP/2 pings that detect dead clients.
pub(super) const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Delay after a failed accept, for example when there are no file descriptors left.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// An admitted connection.
pub(super) struct Connection {
    stream: TcpStream,
    permit: ConnectionPermit,
    /// Time of the last received byte.
    last_read: Instant,
    timer: Pin<Box<Sleep>>,
    /// Completes when the connection must end, with the reason; `None` after that.
    shutdown: Option<Pin<Box<dyn Future<Output = &'static str> + Send>>>,
}

/// Accepts the connections of a listener. Stops when the returned receiver is dropped. All connections end when the
/// sender of `server` is dropped.
pub(super) fn accept(
    listener: TcpListener,
    admission: Arc<Admission>,
    server: watch::Receiver<()>,
) -> ReceiverStream<io::Result<Connection>> {
    let (queue, connections) = mpsc::channel(1);
    tokio::spawn(async move {
        loop {
            let (stream, peer) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a P4Runtime connection");
                        sleep(ACCEPT_RETRY_DELAY).await;
                        continue;
                    }
                },
                () = queue.closed() => return,
            };
            let Some(permit) = admission.admit(peer.ip().to_canonical()) else {
                tracing::warn!(%peer, "rejecting a P4Runtime connection: every open one takes part in the arbitration");
                continue;
            };
            // A failure is not an error: without TCP_NODELAY small messages are only delayed.
            let _ = stream.set_nodelay(true);
            let connection = Connection::new(stream, permit, server.clone());
            if queue.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(connections)
}

impl Connection {
    fn new(stream: TcpStream, permit: ConnectionPermit, mut server: watch::Receiver<()>) -> Connection {
        let activity = Arc::clone(&permit.activity);
        let shutdown = Box::pin(async move {
            let server_ended = async { while server.changed().await.is_ok() {} };
            tokio::select! {
                () = server_ended => "the server has ended",
                () = activity.evicted() => "evicted by another connection",
            }
        });
        let last_read = Instant::now();
        // Reset to the actual deadline by the first read.
        let timer = Box::pin(sleep_until(last_read));
        Connection { stream, permit, last_read, timer, shutdown: Some(shutdown) }
    }

    /// Returns the time at which the connection is closed unless there is activity.
    fn deadline(&self) -> Instant {
        let limits = self.permit.limits();
        let read_deadline = self.last_read + limits.read_timeout;
        self.permit.activity.deadline(limits).map_or(read_deadline, |idle| idle.min(read_deadline))
    }
}

impl Connected for Connection {
    /// Passed to each request, which registers its call there.
    type ConnectInfo = Arc<ConnectionActivity>;
    fn connect_info(&self) -> Arc<ConnectionActivity> {
        Arc::clone(&self.permit.activity)
    }
}

fn aborted(reason: &'static str) -> Poll<io::Result<()>> {
    Poll::Ready(Err(io::Error::new(io::ErrorKind::ConnectionAborted, reason)))
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // Checked before the read, so that a client that sends without a pause cannot outlive its connection.
        match self.shutdown.as_mut().map(|shutdown| shutdown.as_mut().poll(context)) {
            Some(Poll::Pending) => {}
            Some(Poll::Ready(reason)) => {
                self.shutdown = None;
                return aborted(reason);
            }
            None => return aborted("the connection has ended"),
        }
        let read = Pin::new(&mut self.stream).poll_read(context, buffer);
        if read.is_ready() {
            self.last_read = Instant::now();
        }
        // Calls begin and end on other tasks and move the idle deadline without waking this one. When the timer
        // fires, the deadline may have moved, so compute it again.
        while self.deadline() > Instant::now() {
            if read.is_ready() {
                return read;
            }
            let deadline = self.deadline();
            self.timer.as_mut().reset(deadline);
            ready!(self.timer.as_mut().poll(context));
        }
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "connection idle for too long")))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, buffers)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::super::admission::Limits;
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio_stream::StreamExt;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(20);

    /// Returns a connection, and the client's end of it.
    async fn connected(limits: Limits) -> (Connection, TcpStream, watch::Sender<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (server, running) = watch::channel(());
        let mut connections = accept(listener, Admission::new(limits), running);
        let client = TcpStream::connect(address).await.unwrap();
        (connections.next().await.unwrap().unwrap(), client, server)
    }

    /// Reads until the connection ends, while the client sends a byte now and then.
    async fn end(mut connection: Connection, mut client: TcpStream) -> (io::ErrorKind, usize) {
        let sending = async {
            while client.write_all(b"P").await.is_ok() {
                sleep(SHORT / 10).await;
            }
        };
        let mut received = 0;
        let reading = async {
            loop {
                match connection.read_u8().await {
                    Ok(_) => received += 1,
                    Err(error) => break error.kind(),
                }
            }
        };
        let kind = tokio::select! {
            kind = reading => kind,
            () = sending => panic!("the client ended"),
            () = sleep(LONG) => panic!("the connection is still open"),
        };
        (kind, received)
    }

    #[tokio::test]
    async fn bytes_without_a_call_do_not_keep_a_connection() {
        let limits = Limits { handshake_timeout: SHORT, ..Limits::default() };
        let (connection, client, _server) = connected(limits).await;
        let (kind, received) = end(connection, client).await;
        assert_eq!(kind, io::ErrorKind::TimedOut);
        assert!(received > 0);
        // After a call has ended, the idle timeout applies instead of the handshake timeout.
        let limits = Limits {
            handshake_timeout: SHORT,
            idle_timeout: 3 * SHORT,
            read_timeout: LONG,
            ..Limits::default()
        };
        let (connection, client, _server) = connected(limits).await;
        drop(connection.permit.activity.begin_call());
        let started = Instant::now();
        assert_eq!(end(connection, client).await.0, io::ErrorKind::TimedOut);
        assert!(started.elapsed() >= 3 * SHORT);
    }

    #[tokio::test]
    async fn a_call_keeps_a_connection_that_receives_bytes() {
        let limits =
            Limits { handshake_timeout: SHORT, idle_timeout: SHORT, read_timeout: LONG, ..Limits::default() };
        let (mut connection, mut client, _server) = connected(limits).await;
        let _call = connection.permit.activity.begin_call();
        sleep(2 * SHORT).await;
        client.write_all(b"x").await.unwrap();
        assert_eq!(connection.read_u8().await.unwrap(), b'x');
        let limits = Limits { read_timeout: SHORT, ..limits };
        let (mut connection, _client, _server) = connected(limits).await;
        let _call = connection.permit.activity.begin_call();
        assert_eq!(connection.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_connection_ends_with_its_server() {
        let (connection, client, server) = connected(Limits::default()).await;
        drop(server);
        assert_eq!(end(connection, client).await.0, io::ErrorKind::ConnectionAborted);
    }
}
