//! Two network namespaces joined by a veth pair.

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

/// Address of the host on side 0 and on side 1.
pub(crate) const ADDRS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];
/// The name of the interface on both sides.
pub(crate) const IFACE: &str = "eth0";

/// Maximum time until a link is up, on a busy machine.
const LINK_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// Two hosts and a link. Dropping the value removes the namespaces.
pub struct Net {
    names: [String; 2],
}

/// Number of networks created so far, for unique names.
static NET_COUNT: AtomicU32 = AtomicU32::new(0);

impl Net {
    /// Creates both namespaces with the link up, addresses, and static neighbour entries as with Mininet's
    /// `autoStaticArp`.
    pub fn new() -> Net {
        let unique = format!("weir-{}-{}", std::process::id(), NET_COUNT.fetch_add(1, Ordering::Relaxed));
        let net = Net { names: [format!("{unique}-a"), format!("{unique}-b")] };
        let [a, b] = &net.names;
        ip(&["netns", "add", a]);
        ip(&["netns", "add", b]);
        ip(&["-n", a, "link", "add", IFACE, "type", "veth", "peer", "name", IFACE, "netns", b]);
        for (side, addr) in ADDRS.iter().enumerate() {
            let mac = format!("02:00:0a:63:00:0{}", side + 1);
            net.ip(side, &["link", "set", IFACE, "address", &mac]);
            net.ip(side, &["addr", "add", &format!("{addr}/24"), "dev", IFACE]);
            net.ip(side, &["link", "set", "lo", "up"]);
            net.ip(side, &["link", "set", IFACE, "up"]);
        }
        for side in 0..2 {
            let mac = format!("02:00:0a:63:00:0{}", 2 - side);
            let peer = ADDRS[1 - side].to_string();
            net.ip(side, &["neigh", "replace", &peer, "lladdr", &mac, "dev", IFACE, "nud", "permanent"]);
        }
        (0..2).for_each(|side| net.wait_for_carrier(side));
        net
    }

    /// Waits until the link has a carrier; the kernel drops frames sent earlier.
    fn wait_for_carrier(&self, side: usize) {
        let end = Instant::now() + LINK_UP_TIMEOUT;
        let link_show = || Command::new("ip").args(["-n", &self.names[side], "link", "show", IFACE]).output();
        while !String::from_utf8_lossy(&link_show().expect("iproute2").stdout).contains("state UP") {
            assert!(Instant::now() < end, "{IFACE} is not up after {LINK_UP_TIMEOUT:?}");
            sleep(Duration::from_millis(5));
        }
    }

    /// Runs `ip` in the namespace of one side.
    pub fn ip(&self, side: usize, args: &[&str]) {
        ip(&[&["-n", &self.names[side]], args].concat());
    }

    /// Runs `tc` in the namespace of one side.
    pub fn tc(&self, side: usize, args: &[&str]) {
        run("tc", &[&["-n", &self.names[side]], args].concat());
    }

    /// Runs `body` on a new thread in the namespace of one side.
    pub fn spawn<T: Send + 'static>(
        &self,
        side: usize,
        body: impl FnOnce() -> T + Send + 'static,
    ) -> JoinHandle<T> {
        let namespace = File::open(format!("/run/netns/{}", self.names[side])).expect("the namespace exists");
        std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
                .expect("setns needs root");
            body()
        })
    }

    /// As [`spawn`](Self::spawn), but waits for the thread and returns its result.
    pub fn on<T: Send + 'static>(&self, side: usize, body: impl FnOnce() -> T + Send + 'static) -> T {
        self.spawn(side, body).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Returns a counter of the kernel's network stack from /proc/net/snmp.
    pub fn snmp(&self, side: usize, protocol: &'static str, counter: &'static str) -> u64 {
        self.on(side, move || {
            let text = std::fs::read_to_string("/proc/thread-self/net/snmp").expect("proc is mounted");
            let prefix = format!("{protocol}:");
            let mut lines = text.lines().filter(|line| line.starts_with(&prefix));
            let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
            let index = names.split(' ').position(|name| name == counter).expect("the counter exists");
            values.split(' ').nth(index).expect("a value for each name").parse().expect("a number")
        })
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).status();
        }
    }
}

fn ip(args: &[&str]) {
    run("ip", args);
}

fn run(program: &str, args: &[&str]) {
    let output = Command::new(program).args(args).output().expect("iproute2 is installed");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {}: {stderr}", args.join(" "));
}
