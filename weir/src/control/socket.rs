//! The server of a control socket.

use super::socket_path;
use crate::console::Failure;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_experiment::backend::Error;
use weir_testbed::control;

/// Maximum number of connections that have not been accepted yet.
const BACKLOG: i32 = 128;
/// Pause after a connection could not be accepted.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// A bound control socket that is not served yet.
pub(crate) struct Socket {
    listener: UnixListener,
    address: SocketAddress,
}

/// The address of a control socket.
#[derive(Clone)]
enum SocketAddress {
    /// A path, accessible to its owner only; the file is removed when the server is dropped.
    File(PathBuf),
    /// An abstract name in this network namespace, released when the process exits.
    Name(SocketAddr),
}

impl Socket {
    /// Binds a socket to a path. A socket file without a listener, left by a killed process, is replaced.
    ///
    /// # Errors
    ///
    /// If another process listens at the path, or the file cannot be created.
    pub(crate) fn bind(path: &Path) -> Result<Socket, Failure> {
        let invalid =
            |error: std::io::Error| Failure::Input(format!("--control {}: {error}", path.display()));
        // Only the default directory is created; that of an explicit path must exist.
        if let Some(dir) = path.parent().filter(|dir| *dir == socket_path::dir()) {
            fs::create_dir_all(dir).map_err(invalid)?;
        }
        if let Ok(metadata) = fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt;
            if !metadata.file_type().is_socket() {
                return Err(Failure::Input(format!(
                    "--control {}: exists and is not a socket",
                    path.display()
                )));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(Failure::Input(format!(
                    "--control {}: in use by another agent; choose another name",
                    path.display()
                )));
            }
            // Left by a process that was killed.
            fs::remove_file(path).map_err(invalid)?;
        }
        let listener = bind_private(path).map_err(invalid)?;
        Ok(Socket { listener, address: SocketAddress::File(path.to_owned()) })
    }

    /// Binds a socket to an abstract name in this network namespace (unix(7)).
    ///
    /// # Errors
    ///
    /// If the name is in use.
    pub(crate) fn bind_name(name: &str) -> Result<Socket, Failure> {
        let invalid = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                Failure::Input(format!("--control {name}: in use by another process; choose another name"))
            }
            _ => Failure::Input(format!("--control {name}: {error}")),
        };
        let address = SocketAddr::from_abstract_name(name).map_err(invalid)?;
        let listener = UnixListener::bind_addr(&address).map_err(invalid)?;
        Ok(Socket { listener, address: SocketAddress::Name(address) })
    }

    /// Returns the path; `None` for an abstract name.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.address {
            SocketAddress::File(path) => Some(path),
            SocketAddress::Name(_) => None,
        }
    }

    /// Starts a thread that calls `respond` for each request, one at a time, and sends the reply.
    ///
    /// # Errors
    ///
    /// If the thread cannot be started.
    pub(crate) fn serve<Q: DeserializeOwned, R: Serialize>(
        self,
        mut respond: impl FnMut(Q) -> Result<R, String> + Send + 'static,
    ) -> Result<SocketServer, Failure> {
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (address, thread_is_stopped) = (self.address.clone(), Arc::clone(&is_stopped));
        let serve = move || {
            for stream in self.listener.incoming() {
                // Relaxed suffices: no other memory depends on the flag.
                if thread_is_stopped.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else {
                    // For example out of file descriptors; the pause avoids a busy loop.
                    std::thread::sleep(ACCEPT_RETRY_DELAY);
                    continue;
                };
                if !is_allowed(&stream) {
                    continue;
                }
                // The client may have closed the connection before the reply.
                let _ = control::respond(&stream, &mut respond);
            }
        };
        let thread = std::thread::Builder::new().name("control".into()).spawn(serve);
        let thread = thread.map_err(|error| Error::thread(&error))?;
        Ok(SocketServer { address, is_stopped, thread: Some(thread) })
    }
}

/// Returns true if the peer has this process's user, or is root. Needed for abstract names, which have no
/// file permissions.
fn is_allowed(stream: &UnixStream) -> bool {
    let user = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == user || peer.uid.is_root())
}

/// Creates a listening socket at a path that only the owner can open, because every client may also change
/// state. The mode is set before bind: Linux creates the file with the mode of the socket's inode, so that
/// there is no window in which others can connect, as there would be with chmod after bind.
fn bind_private(path: &Path) -> std::io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A running server. Dropping it stops the thread and removes the socket.
pub(crate) struct SocketServer {
    address: SocketAddress,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        // The thread blocks in accept; a connection wakes it.
        let is_woken = match &self.address {
            SocketAddress::File(path) => {
                let is_woken = UnixStream::connect(path).is_ok();
                let _ = fs::remove_file(path);
                is_woken
            }
            SocketAddress::Name(address) => UnixStream::connect_addr(address).is_ok(),
        };
        // A thread that was not woken would block the join forever.
        if let Some(thread) = self.thread.take().filter(|_| is_woken) {
            let _ = thread.join();
        }
    }
}
