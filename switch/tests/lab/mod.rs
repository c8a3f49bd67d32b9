//! Network namespaces for tests and benches: made, used and removed again, whatever happens.
#![allow(dead_code, clippy::print_stderr)] // Each test uses its part of the lab.

pub mod frames;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Set where a skipped test must fail (CI runs as root).
const NO_SKIP: &str = "WEIR_NO_SKIP";
/// All our namespaces begin so, with the id of their process behind it.
const PREFIX: &str = "weirlab";

static LABS: AtomicU32 = AtomicU32::new(0);

/// Namespaces that live as long as this.
pub struct Lab {
    id: String,
    namespaces: Vec<String>,
}

impl Lab {
    /// A lab with these namespaces, or `None` if this is not root: the test says that it is skipped.
    pub fn new(test: &str, namespaces: &[&str]) -> Option<Lab> {
        if !rustix::process::geteuid().is_root() {
            assert!(std::env::var_os(NO_SKIP).is_none(), "{test} needs root, and {NO_SKIP} is set");
            eprintln!("SKIPPED {test}: needs root (network namespaces, raw sockets)");
            return None;
        }
        sweep();
        let number = LABS.fetch_add(1, Ordering::Relaxed);
        let mut lab = Lab { id: format!("{PREFIX}-{}-{number}", std::process::id()), namespaces: Vec::new() };
        for name in namespaces {
            lab.namespaces.push((*name).to_owned());
            run("ip", &["netns", "add", &lab.namespace(name)]);
        }
        Some(lab)
    }

    /// The system's name of a namespace.
    pub fn namespace(&self, name: &str) -> String {
        assert!(self.namespaces.iter().any(|known| known == name), "no namespace {name} in this lab");
        format!("{}-{name}", self.id)
    }

    /// A cable between two interfaces, `(namespace, interface)`, both up, without IPv6's chatter.
    pub fn cable(&self, a: (&str, &str), b: (&str, &str), mtu: u32) {
        let (at, bt) = (self.namespace(a.0), self.namespace(b.0));
        run("ip", &["link", "add", a.1, "netns", &at, "type", "veth", "peer", "name", b.1, "netns", &bt]);
        for (namespace, interface) in [(&at, a.1), (&bt, b.1)] {
            run("ip", &["-n", namespace, "link", "set", interface, "addrgenmode", "none"]);
            run("ip", &["-n", namespace, "link", "set", interface, "mtu", &mtu.to_string(), "up"]);
        }
    }

    /// `ip -n <namespace> ...`
    pub fn ip(&self, namespace: &str, arguments: &str) {
        let namespace = self.namespace(namespace);
        let mut all = vec!["-n", &namespace];
        all.extend(arguments.split_whitespace());
        run("ip", &all);
    }

    /// `tc` in a namespace.
    pub fn tc(&self, namespace: &str, arguments: &str) {
        let namespace = self.namespace(namespace);
        let mut all = vec!["-n", &namespace];
        all.extend(arguments.split_whitespace());
        run("tc", &all);
    }

    /// Runs `work` on a thread in a namespace. Sockets and threads made there stay there.
    pub fn within<R: Send>(&self, namespace: &str, work: impl FnOnce() -> R + Send) -> R {
        let path = Path::new("/run/netns").join(self.namespace(namespace));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let namespace = File::open(path).expect("the namespace is there");
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("root may enter it");
                work()
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for name in &self.namespaces {
            // Half of it may never have been made.
            let _ = Command::new("ip").args(["netns", "del", &format!("{}-{name}", self.id)]).output();
        }
    }
}

/// Waits until `done` says so; a test that waits in vain fails.
pub fn wait_for(patience: Duration, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !done() {
        assert!(Instant::now() < end, "waited for {patience:?} in vain");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Removes what a killed process left behind.
fn sweep() {
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
