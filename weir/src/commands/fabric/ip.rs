//! Runs `ip` of iproute2.

use crate::console::Failure;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

/// Returns a command for `ip` in its own process group, so that Ctrl-C does not stop it halfway: objects that it has
/// created but that are not recorded yet could not be removed.
pub(super) fn ip() -> Command {
    let mut command = Command::new("ip");
    command.process_group(0);
    command
}

/// Runs a batch of `ip` commands in one process. The batch stops at the first error unless `options` has `-force`.
pub(super) fn run_ip(options: &[&str], batch: &str) -> Result<(), Failure> {
    let ip_error = |reason: String| Failure::Work(format!("ip: {}", reason.trim()));
    let mut command = ip();
    command
        .args(options)
        .args(["-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| ip_error(format!("{error}; install iproute2")))?;
    if let Some(mut input) = child.stdin.take() {
        // A broken pipe means that `ip` has exited; its status and stderr are reported below.
        let _ = input.write_all(batch.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| ip_error(error.to_string()))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(ip_error(String::from_utf8_lossy(&output.stderr).into_owned()))
    }
}
