//! A control socket's server.

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
use weir_testbed::control;

/// Connections that wait until they are accepted.
const BACKLOG: i32 = 128;

/// A socket that has a name.
pub struct Socket {
    listener: UnixListener,
    place: SocketAddress,
}

/// The location of a socket.
#[derive(Clone)]
enum SocketAddress {
    /// A file that only its owner can open, removed at the end.
    File(PathBuf),
    /// A name of this network namespace, which goes with the process.
    Name(SocketAddr),
}

impl Socket {
    /// Takes the name, unless somebody listens there that is alive.
    ///
    /// # Errors
    ///
    /// If the name is taken, or the file cannot be made.
    pub fn bind(path: &Path) -> Result<Socket, Failure> {
        let place = |error: std::io::Error| Failure::Input(format!("--control {}: {error}", path.display()));
        if let Some(dir) = path.parent().filter(|it| *it == socket_path::dir()) {
            fs::create_dir_all(dir).map_err(place)?;
        }
        if let Ok(about) = fs::symlink_metadata(path) {
            use std::os::unix::fs::FileTypeExt;
            if !about.file_type().is_socket() {
                return Err(Failure::Input(format!(
                    "--control {}: this is there, and no socket",
                    path.display()
                )));
            }
            if UnixStream::connect(path).is_ok() {
                return Err(Failure::Input(format!(
                    "--control {}: another agent listens there; choose another name",
                    path.display()
                )));
            }
            // Its owner was killed.
            fs::remove_file(path).map_err(place)?;
        }
        let listener = bind_private(path).map_err(place)?;
        Ok(Socket { listener, place: SocketAddress::File(path.to_owned()) })
    }

    /// Takes a name of this network namespace (unix(7), abstract sockets).
    ///
    /// # Errors
    ///
    /// If the name is taken.
    pub fn bind_name(name: &str) -> Result<Socket, Failure> {
        let wrong = |error: std::io::Error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::Input(format!(
                "--control {name}: another process listens there; choose another name"
            )),
            _ => Failure::Input(format!("--control {name}: {error}")),
        };
        let address = SocketAddr::from_abstract_name(name).map_err(wrong)?;
        let listener = UnixListener::bind_addr(&address).map_err(wrong)?;
        Ok(Socket { listener, place: SocketAddress::Name(address) })
    }

    /// Returns the file, if it has one.
    pub fn file(&self) -> Option<&Path> {
        match &self.place {
            SocketAddress::File(path) => Some(path),
            SocketAddress::Name(_) => None,
        }
    }

    /// Answers with `ask`, one request after the other, in a thread.
    pub fn serve<Q: DeserializeOwned, R: Serialize>(
        self,
        mut ask: impl FnMut(Q) -> Result<R, String> + Send + 'static,
    ) -> SocketServer {
        let stop = Arc::new(AtomicBool::new(false));
        let (place, stopped) = (self.place.clone(), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in self.listener.incoming() {
                if stopped.load(Ordering::Relaxed) {
                    break;
                }
                let Ok(stream) = stream else {
                    // Out of files, say: not again at once.
                    std::thread::sleep(Duration::from_millis(50));
                    continue;
                };
                if !is_allowed(&stream) {
                    continue;
                }
                // A client that goes away without hearing the answer does not want it.
                let _ = control::answer(&stream, &mut ask);
            }
        });
        SocketServer { place, stop, thread: Some(thread) }
    }
}

/// Returns whether the peer's process has the same user, or is root's: an abstract name, unlike a file, has no owner.
fn is_allowed(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid();
    rustix::net::sockopt::socket_peercred(stream).is_ok_and(|peer| peer.uid == own || peer.uid.is_root())
}

/// Listens at a path that only the owner can open: a process that may ask may also set. The file takes the mode of the
/// socket when it is created (Linux), so that no other mode is ever seen.
fn bind_private(path: &Path) -> std::io::Result<UnixListener> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
    let socket =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    rustix::fs::fchmod(&socket, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)?;
    rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A socket that is listened at; its name goes with it.
pub struct SocketServer {
    place: SocketAddress,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SocketServer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes it.
        let woken = match &self.place {
            SocketAddress::File(path) => {
                let woken = UnixStream::connect(path).is_ok();
                let _ = fs::remove_file(path);
                woken
            }
            SocketAddress::Name(address) => UnixStream::connect_addr(address).is_ok(),
        };
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}
