//! A fabric of `weir switch` processes in network namespaces, with controllers and pings.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::sleep;
use std::time::{Duration, Instant};
use weir_controller::topology::{Endpoint, Host, Link, Node, Topology, build};

const WEIR: &str = env!("CARGO_BIN_EXE_weir");
pub(crate) const FABRIC: &str = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1, rate: 10Mbps}\n";
pub(crate) fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build/fncc.json")
}

pub(crate) fn weir(arguments: &[&str]) -> Output {
    Command::new(WEIR).arg("controller").args(arguments).output().expect("weir runs")
}

pub(crate) fn output_text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// A namespace for each host and one for all switches, and the switch processes.
pub(crate) struct Lab {
    id: String,
    dir: tempfile::TempDir,
    topology: Topology,
    pub switches: Vec<Child>,
}

impl Lab {
    /// Two leaves, two spines, a host at each leaf.
    pub(crate) fn new() -> Lab {
        Lab::with_topology(FABRIC)
    }

    /// Starts one process per switch.
    pub(crate) fn with_topology(fabric: &str) -> Lab {
        let mut lab = Lab::build(fabric, |_| true);
        lab.switches = (0..lab.topology.switches.len()).map(|index| lab.start(index)).collect();
        lab
    }

    /// Starts one process for all switches and the links between them.
    pub(crate) fn in_one_process(fabric: &str, options: &[&str]) -> Lab {
        let mut lab = Lab::build(fabric, |link| matches!(link.a.node, Node::Host(_)));
        let mut command = lab.command("s", WEIR);
        command.args(["switch", "--fabric", "fabric.yaml", "--no-p4"]).args(options);
        command.args(["--", "--cpu-port", "255"]);
        let log = File::create(lab.dir.path().join("fabric.log")).expect("a log");
        let switches = command.stdout(log.try_clone().expect("a log")).stderr(log).spawn();
        lab.switches = vec![switches.expect("the switches start")];
        lab
    }

    /// Creates the namespaces, and veth pairs for the links that `is_pair` selects.
    fn build(fabric: &str, is_pair: impl Fn(&Link) -> bool) -> Lab {
        let dir = tempfile::tempdir().expect("a temporary directory");
        fs::write(dir.path().join("fabric.yaml"), fabric).expect("written");
        let spec = serde_yaml::from_str(fabric).expect("a topology");
        let topology = build(&spec).expect("a fabric");
        let lab = Lab { id: format!("wctl{}", std::process::id()), dir, topology, switches: Vec::new() };
        for node in lab.nodes() {
            ip(&["netns", "add", &lab.name(&node)]);
            lab.ip(&node, "link set lo up");
        }
        let interface = |end: Endpoint| match end.node {
            Node::Host(_) => "eth0".to_owned(),
            Node::Switch(switch) => format!("{}-eth{}", lab.topology.switch(switch).name, end.port),
        };
        let node = |end: Endpoint| match end.node {
            Node::Host(host) => lab.topology.host(host).name.clone(),
            Node::Switch(_) => "s".to_owned(),
        };
        for link in lab.topology.links.iter().filter(|link| is_pair(link)) {
            let [(a, netns_a), (b, netns_b)] = [link.a, link.b].map(|end| (interface(end), node(end)));
            lab.ip(&netns_b, &format!("link add {b} type veth peer name {a} netns {}", lab.name(&netns_a)));
            lab.up(&netns_a, &a);
            lab.up(&netns_b, &b);
        }
        for host in &lab.topology.hosts {
            lab.ip(&host.name, &format!("link set eth0 address {}", mac(host)));
            lab.ip(&host.name, &format!("addr add {}/8 dev eth0", host.ip));
            for other in lab.topology.hosts.iter().filter(|other| other.name != host.name) {
                let neighbour = format!("neigh replace {} lladdr {} dev eth0", other.ip, mac(other));
                lab.ip(&host.name, &neighbour);
            }
        }
        lab
    }

    /// Returns the names of the namespaces without their prefix: the hosts, and `s` for the switches.
    fn nodes(&self) -> Vec<String> {
        let hosts = self.topology.hosts.iter().map(|host| host.name.clone());
        hosts.chain(["s".to_owned()]).collect()
    }

    fn name(&self, node: &str) -> String {
        format!("{}-{node}", self.id)
    }

    pub(crate) fn ip(&self, node: &str, arguments: &str) {
        let namespace = self.name(node);
        ip(&["-n", &namespace].into_iter().chain(arguments.split_whitespace()).collect::<Vec<_>>());
    }

    fn up(&self, node: &str, interface: &str) {
        self.ip(node, &format!("link set {interface} addrgenmode none"));
        self.ip(node, &format!("link set {interface} up"));
    }

    pub(crate) fn command(&self, node: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name(node), program]).current_dir(self.dir.path());
        command
    }

    pub(crate) fn start(&self, index: usize) -> Child {
        let mut command = self.command("s", WEIR);
        command.args(["switch", "--no-p4", "--device-id", &index.to_string()]);
        for (port, _) in self.topology.switches[index].ports() {
            command.args(["-i", &format!("{port}@s{}-eth{port}", index + 1)]);
        }
        command.args(["--thrift-port", &format!("{}", 9090 + index)]);
        let address = format!("127.0.0.1:{}", 50_051 + index);
        command.args(["--", "--grpc-server-addr", &address, "--cpu-port", "255"]);
        let log = File::create(self.dir.path().join(format!("s{}.log", index + 1))).expect("a log");
        command.stdout(log.try_clone().expect("a log")).stderr(log).spawn().expect("a switch starts")
    }

    /// Returns the output of a process of switches.
    pub(crate) fn log(&self, name: &str) -> String {
        fs::read_to_string(self.dir.path().join(format!("{name}.log"))).expect("a log")
    }

    pub(crate) fn controller(&self, arguments: &[&str]) -> Command {
        let mut command = self.command("s", WEIR);
        command.arg("controller").args(arguments).args(["-t", "fabric.yaml", "-p"]).arg(program());
        command
    }

    pub(crate) fn thrift(&self, arguments: &[&str]) -> Output {
        let mut command = self.command("s", WEIR);
        command.arg("controller").args(arguments).args(["-t", "fabric.yaml"]).output().expect("weir runs")
    }

    pub(crate) fn watch(&self) -> Lines {
        Lines::spawn(self.controller(&["watch", "--check-interval", "2s"]))
    }

    /// Pings the second host from the first, 100 times a second.
    pub(crate) fn ping(&self) -> Lines {
        self.ping_between("h1", "h2", "0.01")
    }

    /// Pings `to` from `from`, once every `interval` seconds.
    pub(crate) fn ping_between(&self, from: &str, to: &str, interval: &str) -> Lines {
        let to = self.topology.hosts.iter().find(|host| host.name == to).expect("a host");
        let mut command = self.command(from, "ping");
        command.args(["-n", "-i", interval, &to.ip.to_string()]);
        Lines::spawn(command)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for switch in &mut self.switches {
            let _ = switch.kill();
            let _ = switch.wait();
        }
        for node in self.nodes() {
            let _ = Command::new("ip").args(["netns", "del", &self.name(&node)]).output();
        }
    }
}

fn mac(host: &Host) -> String {
    host.mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn ip(arguments: &[&str]) {
    let output = Command::new("ip").args(arguments).output().expect("iproute2 is installed");
    assert!(output.status.success(), "ip {}: {}", arguments.join(" "), output_text(&output));
}

/// A process and the lines that it has printed, each with its time.
pub(crate) struct Lines {
    pub child: Child,
    lines: Arc<Mutex<Vec<(Instant, String)>>>,
}

impl Lines {
    pub(crate) fn spawn(mut command: Command) -> Lines {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the command starts");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (out, into) = (child.stdout.take().expect("piped"), Arc::clone(&lines));
        std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                into.lock().expect("no panic").push((Instant::now(), line));
            }
        });
        Lines { child, lines }
    }

    pub(crate) fn all(&self) -> Vec<(Instant, String)> {
        self.lines.lock().expect("no panic").clone()
    }

    /// Waits for a line with `word` that was printed after `since`; returns the line and the time from `since`.
    pub(crate) fn expect(&self, since: Instant, word: &str, timeout: Duration) -> (String, Duration) {
        loop {
            let found = self.all().into_iter().find(|(at, line)| *at >= since && line.contains(word));
            if let Some((at, line)) = found {
                return (line, at - since);
            }
            assert!(since.elapsed() < timeout, "no \"{word}\" within {timeout:?}: {:#?}", self.all());
            sleep(Duration::from_millis(5));
        }
    }
}

/// Sends a signal to a process.
pub(crate) fn signal(child: &Child, signal: &str) {
    let output = Command::new("kill").args([signal, &child.id().to_string()]).status();
    assert!(output.is_ok_and(|status| status.success()));
}

impl Drop for Lines {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
