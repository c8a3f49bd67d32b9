//! Requests to the process that emulates the links of a fabric (`weir link`), on its control socket.

use super::control;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use weir_experiment::backend::Error;

/// Default name of a link emulator (`--control`).
pub const LINKS: &str = "fabric";
/// Prefix of the abstract socket names of link emulators. Abstract names are local to the network namespace.
const PREFIX: &str = "weir-link/";

/// A request to a link emulator.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do", deny_unknown_fields)]
pub enum LinkRequest {
    Show {},
    /// Returns a [`FabricSample`]; only if the process also runs the switches.
    Sample {
        /// Name of the register to read at all switches.
        register: String,
    },
    Set {
        /// Link names, node names for all of their links, or `all`.
        links: Vec<String>,
        /// Properties to change, as `key=value,key=value`.
        change: String,
    },
}

/// A sample of a fabric that runs in one process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct FabricSample {
    /// Bytes that have entered each link at its two ends.
    pub bytes: Vec<[u64; 2]>,
    /// Ports of each switch with their cells of the register.
    pub cells: Vec<Vec<(u16, u64)>>,
    /// Ports of each switch with the largest queue since the last sample, in bytes.
    pub peaks: Vec<Vec<(u16, u64)>>,
}

impl LinkRequest {
    /// Sends the request to the link emulator with this name and waits for the reply.
    ///
    /// # Errors
    ///
    /// If no such process exists, or it rejects the request or does not respond.
    pub fn send<R: DeserializeOwned>(&self, name: &str) -> Result<R, Error> {
        let address = SocketAddr::from_abstract_name(socket(name))?;
        let stream = UnixStream::connect_addr(&address).map_err(|error| {
            Error::Input(format!(
                "no link emulator is called {name} in this network namespace ({error}); `weir link run` and \
                 `weir run --backend mininet` start one"
            ))
        })?;
        control::request(stream, &format_args!("links {name}"), self)
    }

    /// Sends the request to the link emulator of a running experiment.
    ///
    /// # Errors
    ///
    /// Like [`send`](Self::send), but all errors are [`Error::Work`], because Weir started the process and made the
    /// request.
    pub(crate) fn send_in_run<R: DeserializeOwned>(&self, name: &str) -> Result<R, Error> {
        self.send(name).map_err(Error::work)
    }
}

/// Returns the abstract socket name of the link emulator `name`.
pub fn socket(name: &str) -> String {
    format!("{PREFIX}{name}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;
    use std::os::unix::net::UnixListener;

    #[test]
    fn errors_during_a_run_are_not_input_errors() {
        let name = format!("test-{}", std::process::id());
        let show = LinkRequest::Show {};
        let results = || (show.send::<IgnoredAny>(&name), show.send_in_run::<IgnoredAny>(&name));
        assert!(matches!(results(), (Err(Error::Input(_)), Err(Error::Work(_)))), "there is no such process");
        let address = SocketAddr::from_abstract_name(socket(&name)).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                control::respond(&stream.unwrap(), |_: LinkRequest| Err::<(), _>("no".to_owned())).unwrap();
            }
        });
        assert!(
            matches!(results(), (Err(Error::Input(_)), Err(Error::Work(_)))),
            "the server rejects the request"
        );
    }
}
