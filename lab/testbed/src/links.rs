//! The process that carries the links of a fabric, asked on its control socket (`weir link`).

use super::control;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use weir_experiment::backend::Error;

/// The name of a process that carries links, unless another one is said (`--control`).
pub const LINKS: &str = "fabric";
/// Prefix of the names of all such processes' sockets, in the network namespace.
const PREFIX: &str = "weir-link/";

/// A request to a process that carries links.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do", deny_unknown_fields)]
pub enum LinkRequest {
    /// Properties and counters.
    Show {},
    /// A [`FabricSample`] of a fabric in one process.
    Sample {
        /// The register to read at all switches.
        register: String,
    },
    /// A change.
    Set {
        /// Links by name, a node for all its links, or `all`.
        links: Vec<String>,
        /// The change, as `key=value,key=value`.
        change: String,
    },
}

/// A look at a fabric in one process, for a run that looks often.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FabricSample {
    /// For each link, bytes that have entered it at its first end, and at its second.
    pub bytes: Vec<[u64; 2]>,
    /// For each switch, its ports and their cells of the register.
    pub cells: Vec<Vec<(u16, u64)>>,
}

impl LinkRequest {
    /// Asks the process with this name.
    ///
    /// # Errors
    ///
    /// If there is none, it refuses, or it does not answer.
    pub fn ask<R: DeserializeOwned>(&self, name: &str) -> Result<R, Error> {
        let address = SocketAddr::from_abstract_name(socket(name))?;
        let stream = UnixStream::connect_addr(&address).map_err(|error| {
            Error::Input(format!(
                "no link emulator is called {name} in this network namespace ({error}); `weir link run` and \
                 `weir run --on mininet` start one"
            ))
        })?;
        control::ask(stream, &format_args!("links {name}"), self)
    }

    /// Asks the process that carries the links of a running experiment.
    ///
    /// # Errors
    ///
    /// As [`ask`](Self::ask), but always [`Error::Work`]: Weir started that process, and made the request.
    pub(crate) fn ask_own<R: DeserializeOwned>(&self, name: &str) -> Result<R, Error> {
        self.ask(name).map_err(Error::work)
    }
}

/// Returns the name of a process's socket.
pub fn socket(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;
    use std::os::unix::net::UnixListener;

    #[test]
    fn what_fails_in_a_run_is_no_wrong_input() {
        let name = format!("test-{}", std::process::id());
        let show = LinkRequest::Show {};
        let asked = || (show.ask::<IgnoredAny>(&name), show.ask_own::<IgnoredAny>(&name));
        assert!(matches!(asked(), (Err(Error::Input(_)), Err(Error::Work(_)))), "there is no such process");
        let address = SocketAddr::from_abstract_name(socket(&name)).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                control::answer(&stream.unwrap(), |_: LinkRequest| Err::<(), _>("no".to_owned())).unwrap();
            }
        });
        assert!(matches!(asked(), (Err(Error::Input(_)), Err(Error::Work(_)))), "it refuses");
    }
}
