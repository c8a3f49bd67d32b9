//! Places of agents' sockets: one socket per host in a folder that every process finds.

use crate::console::Failure;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// The folder, unless the variable below names another.
const FOLDER: &str = "/run/weir";
const RUN_DIR_ENV: &str = "WEIR_RUN";
const EXTENSION: &str = "sock";

/// Returns the folder of sockets.
pub fn dir() -> PathBuf {
    std::env::var_os(RUN_DIR_ENV).filter(|it| !it.is_empty()).map_or_else(|| FOLDER.into(), PathBuf::from)
}

/// Returns the socket that a host's name, or a path, means. A name with a slash is a path.
pub fn socket(name: &str) -> PathBuf {
    match name.contains('/') {
        true => PathBuf::from(name),
        false => dir().join(format!("{name}.{EXTENSION}")),
    }
}

/// Returns the host's name, of its socket.
pub fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns all sockets in the folder, h2 before h10.
pub fn all() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir()).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path());
    let mut sockets: Vec<_> =
        sockets.filter(|path| path.extension().is_some_and(|ending| ending == EXTENSION)).collect();
    sockets.sort_by_cached_key(|path| (path.as_os_str().len(), path.clone()));
    sockets
}

/// Reaches an agent.
pub fn connect(path: &Path) -> Result<UnixStream, Failure> {
    UnixStream::connect(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            let known: Vec<String> = all().iter().map(|path| name(path)).collect();
            let known = match known.len() {
                0 => format!("there is none in {}", dir().display()),
                _ => format!("there are {}", known.join(", ")),
            };
            Failure::Input(format!(
                "{}: no agent listens there; {known} (agents listen if they are started with --policy-key)",
                path.display()
            ))
        }
        std::io::ErrorKind::PermissionDenied => Failure::Input(format!(
            "{}: only the user who started the agent, or root, may query it: run this with sudo",
            path.display()
        )),
        _ => Failure::Work(format!("{}: the agent does not answer any more: {error}", path.display())),
    })
}
