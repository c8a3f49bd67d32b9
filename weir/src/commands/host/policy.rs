//! The parts of an agent's policy support that need files and sockets: key, saved state and control socket.

use crate::commands::files::open_output;
use crate::console::Failure;
use crate::control::{Socket, SocketServer, socket_path};
use crate::privilege;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::SystemTime;
use weir_agent::policy::{PolicyCall, PolicyChannel, PolicyRequest, SavedPolicyState};
use weir_experiment::backend::Error;
use weir_host::policy::{DEFAULT_DOUBLINGS, DEFAULT_REDUNDANCY, PolicyConfig, PolicyKey};
use weir_host::trickle::TrickleConfig;
use weir_report::files::MODE_PRIVATE;
use weir_report::output::OutputFile;
use weir_testbed::control;
use weir_units::Time;

#[derive(Debug, clap::Args)]
pub(crate) struct PolicyOptions {
    /// Enable policies, with the key that all hosts share: a file of at least 16 bytes, readable by its owner
    /// only
    ///
    /// Without a key the host ignores policies, and none can be set at it. See `weir policy --help`.
    #[arg(long, value_name = "FILE")]
    policy_key: Option<PathBuf>,

    /// Save the policy in this file and restore it after a restart
    #[arg(long, value_name = "FILE", requires = "policy_key")]
    policy_state: Option<PathBuf>,

    /// Name or path of the control socket for `weir policy` [default: the host's address]
    #[arg(long, value_name = "NAME", requires = "policy_key")]
    control: Option<String>,

    /// Minimum interval of the Trickle timer (Imin) [default: 16 times --base-rtt]
    #[arg(long, value_name = "TIME", requires = "policy_key")]
    policy_imin: Option<Time>,

    /// Maximum interval of the Trickle timer, in doublings of Imin
    #[arg(long, value_name = "N", requires = "policy_key", default_value_t = DEFAULT_DOUBLINGS)]
    policy_imax: u32,

    /// Redundancy constant of Trickle (k): this many consistent messages suppress a transmission; 0 disables
    /// suppression
    #[arg(long, value_name = "K", requires = "policy_key", default_value_t = DEFAULT_REDUNDANCY)]
    policy_k: u32,
}

/// Maximum length of a key in bytes.
const MAX_KEY_LEN: u64 = 4096;
/// Maximum number of bytes read of a saved state, which has the timestamps of at most 16,384 senders.
const MAX_STATE_LEN: u64 = 1 << 19;

impl PolicyOptions {
    /// Returns the policy configuration; `None` without `--policy-key`.
    pub(crate) fn config(&self, base_rtt: Time) -> Result<Option<PolicyConfig>, Failure> {
        let Some(path) = &self.policy_key else { return Ok(None) };
        let invalid = |reason: &dyn std::fmt::Display| {
            Failure::Input(format!("--policy-key {}: {reason}", path.display()))
        };
        let key = PolicyKey::new(&read_key(path).map_err(|reason| invalid(&reason))?)
            .map_err(|error| invalid(&error))?;
        let mut config = PolicyConfig::new(key, seed(), base_rtt);
        let imin = self.policy_imin.unwrap_or(config.trickle.imin);
        config.trickle = TrickleConfig::new(imin, self.policy_imax, self.policy_k)
            .map_err(|error| Failure::Input(format!("--policy-{error}")))?;
        Ok(Some(config))
    }

    /// Opens the control socket and reads the saved state; `None` without `--policy-key`.
    pub(crate) fn open(&self, addr: Ipv4Addr) -> Result<Option<PolicyEndpoints>, Failure> {
        if self.policy_key.is_none() {
            return Ok(None);
        }
        let open = |path: &PathBuf| open_output("--policy-state", path).map(|file| (path.clone(), file));
        let state_file = self.policy_state.as_ref().map(open).transpose()?;
        let saved_state = self.policy_state.as_deref().map(read_state).transpose()?.flatten();
        let name = self.control.clone().unwrap_or_else(|| addr.to_string());
        let socket = Socket::bind(&socket_path::socket(&name))?;
        Ok(Some(PolicyEndpoints { socket, state_file, saved_state }))
    }
}

/// The control socket and the saved state of a host, opened before the sandbox.
pub(crate) struct PolicyEndpoints {
    socket: Socket,
    /// Path of `--policy-state` as given, and the file.
    state_file: Option<(PathBuf, OutputFile)>,
    saved_state: Option<SavedPolicyState>,
}

impl PolicyEndpoints {
    /// Returns the directories in which files are created and removed, for the sandbox.
    pub(crate) fn dirs(&self) -> impl Iterator<Item = &Path> {
        let state_dir = self.state_file.as_ref().and_then(|(_, file)| file.dir());
        self.socket.file().map(privilege::parent_dir).into_iter().chain(state_dir)
    }

    /// Starts the threads for the control socket and the state file.
    pub(crate) fn serve(self) -> Result<(PolicyService, PolicyChannel), Failure> {
        let (call_tx, requests) = channel();
        let (state_tx, writer) = match self.state_file {
            None => (None, None),
            Some((path, file)) => {
                let (state_tx, states) = channel();
                let writer = std::thread::Builder::new().spawn(move || persist_states(&path, &file, &states));
                (Some(state_tx), Some(writer.map_err(|error| Error::thread(&error))?))
            }
        };
        let service = PolicyService { socket: Some(serve(self.socket, call_tx)?), writer };
        Ok((service, PolicyChannel { requests, state_tx, saved_state: self.saved_state }))
    }
}

/// Checks that agents can use this key, and returns its absolute path.
pub(crate) fn check_key(path: &Path) -> Result<PathBuf, Failure> {
    let invalid =
        |reason: &dyn std::fmt::Display| Failure::Input(format!("--policy-key {}: {reason}", path.display()));
    PolicyKey::new(&read_key(path).map_err(|reason| invalid(&reason))?).map_err(|error| invalid(&error))?;
    path.canonicalize().map_err(|error| invalid(&error))
}

/// Reads a key. Fails if others than the owner can read the file: whoever has the key can set policies.
fn read_key(path: &Path) -> Result<Vec<u8>, String> {
    let mut file = fs::File::open(path).map_err(|error| error.to_string())?;
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    if !metadata.is_file() {
        return Err("not a regular file".to_owned());
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("readable by others than its owner; run `chmod 600 {}`", path.display()));
    }
    let mut key = Vec::new();
    (&mut file).take(MAX_KEY_LEN + 1).read_to_end(&mut key).map_err(|error| error.to_string())?;
    if key.len() as u64 > MAX_KEY_LEN {
        return Err(format!("key exceeds {MAX_KEY_LEN} bytes"));
    }
    Ok(key)
}

/// Returns a seed for the Trickle timer, different on every host so that hosts do not send at the same times.
fn seed() -> u64 {
    u64::from(super::options::fresh_message_id()) << 32 | u64::from(super::options::fresh_message_id())
}

/// Reads the saved state; `None` if the file does not exist, as in the first run.
fn read_state(path: &Path) -> Result<Option<SavedPolicyState>, Failure> {
    let invalid = |reason: &dyn std::fmt::Display| {
        Failure::Input(format!("--policy-state {}: {reason}", path.display()))
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(invalid(&error)),
    };
    let modified =
        file.metadata().and_then(|metadata| metadata.modified()).map_err(|error| invalid(&error))?;
    // Zero if the clock was set back meanwhile.
    let downtime = SystemTime::now().duration_since(modified).unwrap_or_default();
    // A longer file is not a state; its truncated content fails the check of the signature.
    let mut state = Vec::new();
    file.take(MAX_STATE_LEN).read_to_end(&mut state).map_err(|error| invalid(&error))?;
    let downtime = Time::from_ns(u64::try_from(downtime.as_nanos()).unwrap_or(u64::MAX));
    Ok(Some(SavedPolicyState { state, downtime }))
}

/// Writes the states that arrive, each atomically. If several are queued, only the last is written. Only the first
/// error is printed.
fn persist_states(path: &Path, file: &OutputFile, states: &Receiver<Vec<u8>>) {
    let mut has_warned = false;
    while let Ok(mut state) = states.recv() {
        while let Ok(newer) = states.try_recv() {
            state = newer;
        }
        if let Err(error) = file.write(&state, MODE_PRIVATE)
            && !std::mem::replace(&mut has_warned, true)
        {
            let _ = writeln!(std::io::stderr(), "warning: --policy-state {}: {error}", path.display());
        }
    }
}

/// Background threads of an agent: control socket and state file.
pub(crate) struct PolicyService {
    socket: Option<SocketServer>,
    /// The thread that writes the state file; `None` without `--policy-state`.
    writer: Option<JoinHandle<()>>,
}

impl PolicyService {
    /// Removes the socket and waits until the last state is written. The agent must have been dropped,
    /// because the thread of the state file ends when the agent's end of the channel is closed.
    pub(crate) fn close(mut self) {
        self.socket = None;
        if let Some(writer) = self.writer.take() {
            // The thread does not panic.
            let _ = writer.join();
        }
    }
}

/// Serves the control socket by forwarding requests to the agent.
fn serve(socket: Socket, call_tx: Sender<PolicyCall>) -> Result<SocketServer, Failure> {
    socket.serve(move |request: PolicyRequest| {
        let (reply_tx, reply_rx) = channel();
        let stopped = || "the agent has stopped".to_owned();
        call_tx.send(PolicyCall { request, reply_tx }).map_err(|_| stopped())?;
        reply_rx.recv_timeout(control::REPLY_TIMEOUT).map_err(|_| stopped())?
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;

    fn key_error(name: &str, bytes: &[u8], mode: u32) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let options = options(&path);
        match options.config(Time::from_ms(1)) {
            Err(Failure::Input(reason)) => reason.replace(dir.path().to_str().unwrap(), ""),
            other => panic!("{other:?}"),
        }
    }

    fn options(key: &Path) -> PolicyOptions {
        PolicyOptions {
            policy_key: Some(key.to_owned()),
            policy_state: None,
            control: None,
            policy_imin: None,
            policy_imax: DEFAULT_DOUBLINGS,
            policy_k: DEFAULT_REDUNDANCY,
        }
    }

    #[test]
    fn invalid_keys_are_rejected() {
        assert_eq!(
            key_error("key", &[7; 15], 0o600),
            "--policy-key /key: policy key of 15 bytes is too short, use at least 16"
        );
        assert!(key_error("key", &[7; 32], 0o640).contains("chmod 600 /key"));
        assert!(key_error("key", &[7; 5000], 0o600).contains("exceeds 4096 bytes"));
        let missing = options(Path::new("/nowhere/key")).config(Time::from_ms(1));
        assert!(
            matches!(missing, Err(Failure::Input(reason)) if reason.starts_with("--policy-key /nowhere/key: No such file"))
        );
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(options(dir.path()).config(Time::from_ms(1)), Err(Failure::Input(_))));
    }

    #[test]
    fn a_state_is_replaced_atomically_and_the_first_run_has_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("state");
        assert!(read_state(&path).unwrap().is_none());
        for state in [&b"one"[..], b"another"] {
            OutputFile::open(&path).unwrap().write(state, MODE_PRIVATE).unwrap();
            let saved = read_state(&path).unwrap().unwrap();
            assert_eq!(saved.state, state);
            assert!(saved.downtime < Time::from_secs(60));
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no temporary file remains");
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o077, 0);
    }

    #[test]
    fn the_socket_is_created_with_its_mode() {
        use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
        let dir = tempfile::tempdir().unwrap();
        let events = inotify::init(CreateFlags::NONBLOCK).unwrap();
        inotify::add_watch(&events, dir.path(), WatchFlags::CREATE | WatchFlags::ATTRIB).unwrap();
        let path = dir.path().join("h1.sock");
        let _socket = Socket::bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let mut buffer = [std::mem::MaybeUninit::uninit(); 1024];
        let mut reader = inotify::Reader::new(&events, &mut buffer);
        let first = reader.next().unwrap().events();
        assert!(first.contains(ReadFlags::CREATE), "{first:?}");
        assert!(reader.next().is_err(), "the mode was changed after the creation");
    }

    /// Any input is answered or its connection closed, and the next connection is served.
    #[test]
    fn the_socket_survives_any_input_and_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.sock");
        let (call_tx, requests) = channel::<PolicyCall>();
        let server = serve(Socket::bind(&path).unwrap(), call_tx).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let exchange = |bytes: &[u8]| {
            let mut stream = UnixStream::connect(&path).unwrap();
            stream.write_all(bytes).unwrap();
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = String::new();
            let _ = stream.read_to_string(&mut answer);
            answer
        };
        // Nested deeply enough to overflow the stack of a recursive parser without a limit.
        let deep_json = "[".repeat(100_000) + "\n";
        for (bytes, text) in [
            (&b""[..], "in the middle of a line"),
            (b"{", "in the middle of a line"),
            (b"\n", "invalid request"),
            (b"\xff\xfe\n", "invalid request"),
            (b"{\"do\":\"sing\"}\n", "unknown variant"),
            (b"{\"do\":\"set\"}\n", "missing field"),
            (b"{\"do\":\"set\",\"edits\":[[\"a\"]]}\n", "invalid request"),
            (b"{\"do\":\"show\",\"more\":1}\n", "invalid request"),
            (deep_json.as_bytes(), "invalid request"),
        ] {
            let answer = exchange(bytes);
            assert!(answer.starts_with("{\"error\":") && answer.contains(text), "{answer}");
        }
        // A request longer than the maximum line is not read to the end, so the write may fail.
        let mut stream = UnixStream::connect(&path).unwrap();
        let _ = stream.write_all(&vec![b'x'; 1 << 20]);
        drop(stream);
        let agent = std::thread::spawn(move || {
            let call = requests.recv().unwrap();
            assert_eq!(call.request, PolicyRequest::Show {});
            call.reply_tx.send(Err("no".to_owned())).unwrap();
        });
        assert_eq!(exchange(b"{\"do\":\"show\"}\n"), "{\"error\":\"no\"}\n");
        agent.join().unwrap();
        // The agent is gone.
        assert_eq!(exchange(b"{\"do\":\"show\"}\n"), "{\"error\":\"the agent has stopped\"}\n");
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_in_use_is_rejected_and_a_stale_one_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("h1.sock");
        let socket = Socket::bind(&path).unwrap();
        let reason = |result: Result<Socket, Failure>| match result {
            Err(Failure::Input(reason)) => reason,
            _ => panic!("an input error is expected"),
        };
        assert!(reason(Socket::bind(&path)).contains("in use by another agent"));
        drop(socket); // As if the process was killed: the file remains.
        assert!(path.exists());
        let again = Socket::bind(&path).unwrap();
        drop(again);
        fs::remove_file(&path).unwrap();
        fs::write(&path, "mine").unwrap();
        assert!(reason(Socket::bind(&path)).contains("not a socket"));
        assert_eq!(fs::read(&path).unwrap(), b"mine");
        assert!(reason(Socket::bind(Path::new("/nowhere/x.sock"))).contains("/nowhere/x.sock"));
    }
}
