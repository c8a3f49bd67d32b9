//! Connections, with bounds: only so many at once, and none that says nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::{Instant, Sleep, sleep};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::server::{Connected, TcpConnectInfo};

/// The most connections at once. Others wait in the listener's queue.
pub const MAX_CONNECTIONS: usize = 128;
/// How often a client is asked whether it lives, by a ping of HTTP/2.
pub const PING: Duration = Duration::from_secs(10);
/// A connection that brings nothing for so long, not even the answer to a ping, is closed.
pub const SILENCE: Duration = Duration::from_secs(30);
/// What passes until a connection is accepted after the system refused one (no descriptors left, say).
const RETRY: Duration = Duration::from_millis(100);

/// A connection that counts, and that ends when it is silent or its server has ended.
pub struct Connection {
    stream: TcpStream,
    silence: Pin<Box<Sleep>>,
    /// Until its server has ended.
    server: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    _permit: OwnedSemaphorePermit,
}

/// The connections of a listener. No more come when the receiver is dropped, and all end when what `server` receives
/// from is dropped.
pub fn accept(listener: TcpListener, server: watch::Receiver<()>) -> ReceiverStream<io::Result<Connection>> {
    let (queue, connections) = mpsc::channel(1);
    tokio::spawn(async move {
        let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        while let Ok(permit) = Arc::clone(&room).acquire_owned().await {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        tracing::warn!(%error, "a P4Runtime connection was not accepted");
                        sleep(RETRY).await;
                        continue;
                    }
                },
                () = queue.closed() => return,
            };
            // Small messages go out at once; without it they are late, not lost.
            let _ = stream.set_nodelay(true);
            let mut server = server.clone();
            let running = Box::pin(async move { while server.changed().await.is_ok() {} });
            let connection = Connection {
                stream,
                silence: Box::pin(sleep(SILENCE)),
                server: Some(running),
                _permit: permit,
            };
            if queue.send(Ok(connection)).await.is_err() {
                return;
            }
        }
    });
    ReceiverStream::new(connections)
}

impl Connected for Connection {
    type ConnectInfo = TcpConnectInfo;
    fn connect_info(&self) -> TcpConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.stream).poll_read(context, buffer) {
            self.silence.as_mut().reset(Instant::now() + SILENCE);
            return Poll::Ready(read);
        }
        let ended = match &mut self.server {
            Some(running) => running.as_mut().poll(context).is_ready(),
            None => true,
        };
        if ended {
            self.server = None;
            return Poll::Ready(Err(io::Error::new(
                io::ErrorKind::ConnectionAborted,
                "the server has ended",
            )));
        }
        ready!(self.silence.as_mut().poll(context));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client is silent")))
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
