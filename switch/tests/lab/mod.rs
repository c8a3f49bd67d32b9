//! Network namespaces for tests and benches, removed again even if a test fails.
#![allow(dead_code, clippy::print_stderr)] // Each test uses only a part of this module.

pub(crate) mod frames;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// If this variable is set, a test fails instead of being skipped (CI runs as root).
const NO_SKIP: &str = "WEIR_NO_SKIP";
/// Prefix of all namespaces of these tests; the process id follows.
const PREFIX: &str = "weirlab";

static NEXT_LAB: AtomicU32 = AtomicU32::new(0);

/// Network namespaces, removed on drop.
pub(crate) struct Lab {
    id: String,
    namespaces: Vec<String>,
}

impl Lab {
    /// Creates the namespaces. Without root privileges, prints that the test is skipped and returns `None`.
    pub(crate) fn new(test: &str, namespaces: &[&str]) -> Option<Lab> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os(NO_SKIP).is_none(), "{test} needs root, and {NO_SKIP} is set");
            eprintln!("SKIPPED {test}: needs root (network namespaces, raw sockets)");
            return None;
        }
        remove_stale_namespaces();
        let number = NEXT_LAB.fetch_add(1, Ordering::Relaxed);
        let mut lab = Lab { id: format!("{PREFIX}-{}-{number}", std::process::id()), namespaces: Vec::new() };
        for name in namespaces {
            lab.namespaces.push((*name).to_owned());
            run("ip", &["netns", "add", &lab.namespace(name)]);
        }
        Some(lab)
    }

    /// Returns the name of a namespace on the system.
    pub(crate) fn namespace(&self, name: &str) -> String {
        assert!(self.namespaces.iter().any(|known| known == name), "no namespace {name} in this lab");
        format!("{}-{name}", self.id)
    }

    /// Creates a veth pair between `(namespace, interface)` and another, both up, without IPv6 link-local addresses.
    pub(crate) fn cable(&self, a: (&str, &str), b: (&str, &str), mtu: u32) {
        let (a_namespace, b_namespace) = (self.namespace(a.0), self.namespace(b.0));
        #[rustfmt::skip]
        run("ip", &[
            "link", "add", a.1, "netns", &a_namespace,
            "type", "veth", "peer", "name", b.1, "netns", &b_namespace,
        ]);
        for (namespace, interface) in [(&a_namespace, a.1), (&b_namespace, b.1)] {
            run("ip", &["-n", namespace, "link", "set", interface, "addrgenmode", "none"]);
            run("ip", &["-n", namespace, "link", "set", interface, "mtu", &mtu.to_string(), "up"]);
        }
    }

    /// Runs `ip -n <namespace> ...`.
    pub(crate) fn ip(&self, namespace: &str, arguments: &str) {
        let namespace = self.namespace(namespace);
        let mut all = vec!["-n", &namespace];
        all.extend(arguments.split_whitespace());
        run("ip", &all);
    }

    /// Runs `tc -n <namespace> ...`.
    pub(crate) fn tc(&self, namespace: &str, arguments: &str) {
        let namespace = self.namespace(namespace);
        let mut all = vec!["-n", &namespace];
        all.extend(arguments.split_whitespace());
        run("tc", &all);
    }

    /// Runs `work` on a thread in a namespace. Sockets and threads created there belong to the namespace.
    pub(crate) fn within<R: Send>(&self, namespace: &str, work: impl FnOnce() -> R + Send) -> R {
        let path = Path::new("/run/netns").join(self.namespace(namespace));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let namespace = File::open(path).expect("the namespace exists");
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter a namespace");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in &self.namespaces {
            // The namespace may not have been created.
            let _ = Command::new("ip").args(["netns", "del", &format!("{}-{name}", self.id)]).output();
        }
    }
}

/// Waits until `condition` holds.
///
/// # Panics
///
/// If the condition does not hold within `timeout`.
pub(crate) fn wait_for(timeout: Duration, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + timeout;
    while !condition() {
        assert!(Instant::now() < deadline, "timeout after {timeout:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes the namespaces of processes that were killed.
fn remove_stale_namespaces() {
    for entry in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').nth(1));
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = Command::new("ip").args(["netns", "del", &name]).output();
        }
    }
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect("iproute2 is installed");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {error}", arguments.join(" "));
}
