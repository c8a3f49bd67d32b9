//! Paths of the agents' control sockets: one socket per host, in a directory known to all processes.

use crate::console::Failure;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Default directory; overridden by the variable [`RUN_DIR_ENV`].
const DEFAULT_DIR: &str = "/run/weir";
const RUN_DIR_ENV: &str = "WEIR_RUN";
const EXTENSION: &str = "sock";

/// Returns the directory of the sockets.
pub(crate) fn dir() -> PathBuf {
    std::env::var_os(RUN_DIR_ENV)
        .filter(|dir| !dir.is_empty())
        .map_or_else(|| DEFAULT_DIR.into(), PathBuf::from)
}

/// Returns the socket of a host, given by name, or by path if `name` contains a slash.
pub(crate) fn socket(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => dir().join(format!("{name}.{EXTENSION}")),
    }
}

/// Returns the name of the host to which a socket belongs.
pub(crate) fn host_name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns all sockets in the directory, in natural order: h2 before h10.
pub(crate) fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir()).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path());
    let mut sockets: Vec<_> =
        sockets.filter(|path| path.extension().is_some_and(|extension| extension == EXTENSION)).collect();
    // Shorter paths first.
    sockets.sort_by_cached_key(|path| (path.as_os_str().len(), path.clone()));
    sockets
}

/// Connects to an agent.
pub(crate) fn connect(path: &Path) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let agents: Vec<String> = all().iter().map(|path| host_name(path)).collect();
            let agents = match agents.len() {
                0 => format!("no sockets in {}", dir().display()),
                _ => format!("agents are {}", agents.join(", ")),
            };
            Failure::Input(format!(
                "{}: no agent listens; {agents} (agents listen if started with --policy-key)",
                path.display()
            ))
        }
        std::io::ErrorKind::PermissionDenied => Failure::Input(format!(
            "{}: permission denied: only the agent's user and root may connect; use sudo",
            path.display()
        )),
        _ => Failure::Work(format!("{}: agent stopped responding: {error}", path.display())),
    })
}
