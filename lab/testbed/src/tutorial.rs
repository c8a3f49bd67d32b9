//! Networks from a `topology.json` of the p4 tutorials, or from a file of p4-utils as far as the controller supports it.
//!
//! The tutorials set rate and delay with `tc`. Here the rate limits of the switches and `weir link` do so, so that packets
//! queue in the switch, where the P4 program sees the queue.

use super::mininet_process::MininetProcess;
use super::plan::{self, Plan, PlannedHost, PlannedLink, PlannedSwitch, SwitchKind, TestbedConfig};
use crate::Signals;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use weir_client::{ThriftClient, ThriftError, packets_per_second};
use weir_controller::import::{Imported, import};
use weir_controller::runtime_json::RuntimeJson;
use weir_controller::topology::{Endpoint, Link, SwitchIx, build_parts};
use weir_experiment::backend::Error;
use weir_experiment::input::read_text;
use weir_experiment::yaml::with_file_position;
use weir_units::{Bandwidth, Bytes, Time};

/// MTU of the tutorials' interfaces.
const MTU: u64 = 1500;
/// Length of a full frame, including the Ethernet header.
const FULL_FRAME: u64 = MTU + 14;

#[derive(Deserialize)]
struct File {
    hosts: BTreeMap<String, HostSpec>,
    switches: BTreeMap<String, SwitchSpec>,
    links: Vec<Vec<Value>>,
}

#[derive(Deserialize)]
struct HostSpec {
    /// `null` for a host that uses DHCP or has no address.
    #[serde(deserialize_with = "Option::deserialize")]
    ip: Option<String>,
    mac: String,
    #[serde(default)]
    commands: Vec<String>,
}

#[derive(Deserialize)]
struct SwitchSpec {
    program: Option<PathBuf>,
    runtime_json: Option<PathBuf>,
    /// A number, or a string with a number (as in the exercise flowcache).
    cpu_port: Option<Value>,
    priority_queues: Option<u8>,
}

/// A topology of the tutorials with its plan.
struct Loaded {
    plan: Plan,
    /// True if a switch has a `runtime_json`.
    has_runtime: bool,
    rates: Vec<((String, u16), Bandwidth)>,
    /// Warnings about parts of the file that are not supported, or only approximately.
    warnings: Vec<String>,
}

/// The switches of a network of the tutorials.
#[derive(Clone, Debug, Default)]
pub struct TutorialSwitches {
    /// Kind of switch; `None`: BMv2 if it is installed.
    pub kind: Option<SwitchKind>,
    /// Run each embedded switch in its own process. BMv2 always has one process per switch.
    pub process_per_switch: bool,
    /// Program of switches for which the topology has none.
    pub program: Option<PathBuf>,
    /// Directory for captures of all ports; `None`: no captures.
    pub pcaps: Option<PathBuf>,
    /// Directory for logs; `None`: no logs. With logs, each switch has its own process.
    pub logs: Option<PathBuf>,
}

/// A running network of the tutorials. Dropping it tears the network down.
pub struct Tutorial {
    topology: PathBuf,
    bridge: MininetProcess,
    has_runtime: bool,
    warnings: Vec<String>,
}

impl Tutorial {
    /// Starts the fabric of a tutorial's topology.
    ///
    /// # Errors
    ///
    /// If the topology or a program is invalid, the switch is not installed, or Mininet fails.
    pub fn start(topology: &Path, switches: TutorialSwitches, signals: Signals) -> Result<Tutorial, Error> {
        let TutorialSwitches { kind, process_per_switch, program, pcaps, logs } = switches;
        let (switch, program) = (kind.unwrap_or_else(SwitchKind::installed), program.as_deref());
        let exe = switch.program().map_err(Error::input)?;
        let mut maker =
            Maker { places: TestbedConfig { switch, process_per_switch, exe, pcaps }, logs: None };
        let place = |reason| Error::Input(format!("{}: {reason}", topology.display()));
        // Checks the file before anything is created.
        load(topology, program, &maker, Path::new("")).map_err(place)?;
        let mut bridge = MininetProcess::start(signals)?;
        maker.logs = logs;
        let loaded = load(topology, program, &maker, bridge.work()).map_err(place)?;
        bridge.up(&loaded.plan)?;
        if switch == SwitchKind::Bmv2 {
            keep_to_rates(&loaded.plan, &loaded.rates)?;
        }
        // The Python process has another working directory.
        let topology = std::path::absolute(topology)?;
        let Loaded { has_runtime, warnings, .. } = loaded;
        Ok(Tutorial { topology, bridge, has_runtime, warnings })
    }

    /// Returns warnings about parts of the file that are not supported, or only approximately.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Returns whether a switch has a `runtime_json`, so that a controller must install entries.
    pub fn has_runtime(&self) -> bool {
        self.has_runtime
    }

    /// Pings every host from every other host. Returns the number of pairs with a reply, and of all pairs.
    ///
    /// # Errors
    ///
    /// If Mininet fails or the run is interrupted.
    pub fn ping(&mut self) -> Result<(usize, usize), Error> {
        const PAYLOAD: u64 = 56; // ping's own
        let matrix = self.bridge.ping(PAYLOAD, 1, 1)?;
        let answers = || matrix.values().flat_map(|row| row.values());
        Ok((answers().filter(|rtt| rtt.is_some()).count(), answers().count()))
    }

    /// Runs Mininet's command line until the user exits it.
    ///
    /// # Errors
    ///
    /// If Mininet fails or the run is interrupted.
    pub fn cli(&mut self) -> Result<(), Error> {
        self.bridge.cli(&self.topology)
    }
}

/// Reads a topology. `program` is for switches for which the topology has none.
fn load(path: &Path, program: Option<&Path>, maker: &Maker, work: &Path) -> Result<Loaded, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let program = program.map(|named| find(named, path).map_err(|reason| format!("--program: {reason}")));
    let program = program.transpose()?;
    let file: File = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => return p4_utils(&text, &error, program, maker, work),
    };
    if let Some(program) = &program {
        is_used(program, &file, path)?;
    }
    let links = file
        .links
        .iter()
        .enumerate()
        .map(|(i, link)| self::link(link, &file).map_err(|reason| format!("links[{i}]: {reason}")));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let mut switches = Vec::new();
    for (i, name) in in_order(file.switches.keys()).into_iter().enumerate() {
        let spec = &file.switches[name];
        let place = |reason: String| format!("switches.{name}: {reason}");
        // The controller that installs the entries also loads the program.
        let program = match (&spec.program, &program, &spec.runtime_json) {
            (_, _, Some(_)) => None,
            (Some(named), _, None) => Some(find(named, path).map_err(place)?),
            (None, Some(program), None) => Some(program.clone()),
            (None, None, None) => {
                return Err(place("has neither program nor runtime_json; specify a program".to_owned()));
            }
        };
        let ix = SwitchIx(i as u32);
        switches.push(PlannedSwitch {
            name: name.clone(),
            device_id: plan::device_id(ix),
            grpc_port: plan::grpc_port(ix),
            thrift_port: plan::thrift_port(ix),
            cpu_port: spec.cpu_port.as_ref().map(port).transpose().map_err(place)?,
            priorities: spec.priority_queues.unwrap_or(1),
            program,
            options: links.iter().flat_map(|link| link.switch_options(name)).collect(),
        });
    }
    let hosts = in_order(file.hosts.keys()).into_iter().map(|name| {
        let spec = &file.hosts[name];
        PlannedHost {
            name: name.clone(),
            ip: spec.ip.clone(),
            mac: spec.mac.clone(),
            commands: spec.commands.clone(),
        }
    });
    // ARP entries are set by the commands in the file.
    let loaded = maker.make(hosts.collect(), switches, links, false, work)?;
    let has_runtime = file.switches.values().any(|switch| switch.runtime_json.is_some());
    Ok(Loaded { has_runtime, ..loaded })
}

/// Rejects a program that no switch would run, because each has a `runtime_json` with its own program.
fn is_used(program: &Path, file: &File, topology: &Path) -> Result<(), String> {
    let mut other = None;
    for (name, switch) in &file.switches {
        let Some(runtime) = &switch.runtime_json else { return Ok(()) };
        let place = |reason: String| format!("switches.{name}: {reason}");
        let path = find(runtime, topology).map_err(place)?;
        let text = read_text(&path).map_err(|error| place(format!("{}: {error}", path.display())))?;
        let read = RuntimeJson::parse(&text);
        let read =
            read.map_err(|error| with_file_position(&path.display().to_string(), &text, &error.to_string()))?;
        let own = find(Path::new(&read.bmv2_json), topology).map_err(place)?;
        if own == program {
            return Ok(());
        }
        other.get_or_insert((name, own));
    }
    match other {
        None => Ok(()),
        Some((name, own)) => Err(format!(
            "--program: no switch would run {}: each gets the program of its runtime_json, {name} {}; leave --program out",
            program.display(),
            own.display()
        )),
    }
}

/// Reads a file of p4-utils. `error` is the reason why it is not a file of the tutorials.
fn p4_utils(
    text: &str,
    error: &serde_json::Error,
    program: Option<PathBuf>,
    maker: &Maker,
    work: &Path,
) -> Result<Loaded, String> {
    let imported = import(text).map_err(|error| error.to_string())?;
    let Some(Imported { topology, switch_addresses, warnings, .. }) =
        imported.filter(|it| !it.switch_addresses.is_empty())
    else {
        return Err(format!("not a topology.json of the p4 tutorials or a file of p4-utils: {error}"));
    };
    let topology = build_parts(&topology).map_err(|error| format!("topology: {error}"))?;
    let program =
        program.ok_or("p4-utils compiles programs itself; specify the compiled one with --program")?;
    let end = |end: Endpoint| (topology.node_name(end.node).to_owned(), end.port);
    let cable = |link: &Link| TutorialLink {
        a: end(link.a),
        b: end(link.b),
        delay: link.delay,
        rate: Some(link.rate),
    };
    let links: Vec<TutorialLink> = topology.links.iter().map(cable).collect();
    let switches = topology.switch_ixs().map(|ix| {
        let name = &topology.switch(ix).name;
        let place = switch_addresses.get(name);
        PlannedSwitch {
            name: name.clone(),
            device_id: place.map_or(plan::device_id(ix), |place| place.device_id),
            grpc_port: place.map_or(plan::grpc_port(ix), |place| place.grpc_port),
            thrift_port: plan::thrift_port(ix),
            cpu_port: None,
            priorities: 1,
            program: Some(program.clone()),
            options: links.iter().flat_map(|link| link.switch_options(name)).collect(),
        }
    });
    let switches = switches.collect();
    let loaded = maker.make(plan::hosts(&topology), switches, links, true, work)?;
    Ok(Loaded { warnings, ..loaded })
}

/// Creates plans of networks.
struct Maker {
    places: TestbedConfig,
    /// Directory for logs; `None`: no logs.
    logs: Option<PathBuf>,
}

impl Maker {
    /// Creates a plan with the working directory `work`.
    fn make(
        &self,
        hosts: Vec<PlannedHost>,
        switches: Vec<PlannedSwitch>,
        links: Vec<TutorialLink>,
        static_arp: bool,
        work: &Path,
    ) -> Result<Loaded, String> {
        let Maker { places, logs } = self;
        let rates = links.iter().filter_map(|link| Some((link, link.rate?)));
        let rates = rates.flat_map(|(link, rate)| [(link.a.clone(), rate), (link.b.clone(), rate)]).collect();
        let has_switch = |link: &TutorialLink| {
            [&link.a, &link.b].iter().any(|(node, _)| switches.iter().any(|switch| switch.name == *node))
        };
        Ok(Loaded {
            rates,
            has_runtime: false,
            warnings: Vec::new(),
            plan: Plan {
                work: work.to_owned(),
                switch: places.switch,
                // Logs require a process per switch. So does a link between two hosts, which bypasses the switches.
                one_process: places.one_process() && logs.is_none() && links.iter().all(has_switch),
                exe: places.exe.clone(),
                weir: plan::own_program()?,
                seed: 1,
                frame: FULL_FRAME,
                mtu: MTU,
                hosts,
                switches,
                links: links.into_iter().zip(1..).map(|(link, number)| link.plan(number)).collect(),
                static_arp,
                pcaps: places.pcaps.clone(),
                logs: logs.clone(),
            },
        })
    }
}

/// A link of the topology file.
struct TutorialLink {
    a: (String, u16),
    b: (String, u16),
    delay: Time,
    rate: Option<Bandwidth>,
}

impl TutorialLink {
    /// Returns the options of the embedded switch for its end of the link.
    fn switch_options(&self, switch: &str) -> Vec<String> {
        let own = [&self.a, &self.b].into_iter().filter(|end| end.0 == switch);
        let rated = own.filter_map(|(_, port)| Some((port, self.rate?.as_bps())));
        rated.flat_map(|(port, bps)| ["--port-rate".to_owned(), format!("{port}={bps}bps")]).collect()
    }

    fn plan(self, number: usize) -> PlannedLink {
        PlannedLink {
            name: format!("{}-{}#{number}", self.a.0, self.b.0),
            properties: plan::properties(self.rate, self.delay),
            a: self.a,
            b: self.b,
        }
    }
}

/// Sets the rate limits of BMv2 ports. BMv2 limits packets per second; this is the number at which full frames fill the link,
/// and the link emulator later adapts it to the sizes of the queued packets.
fn keep_to_rates(plan: &Plan, rates: &[((String, u16), Bandwidth)]) -> Result<(), Error> {
    for switch in &plan.switches {
        let refused = |error: ThriftError| Error::Work(format!("{}: {error}", switch.name));
        for ((_, port), rate) in rates.iter().filter(|((node, _), _)| *node == switch.name) {
            let address = format!("127.0.0.1:{}", switch.thrift_port);
            let mut client = ThriftClient::connect(&address).map_err(refused)?;
            let packets = packets_per_second(*rate, Bytes::new(FULL_FRAME));
            client.set_queue_rate(*port, packets).map_err(refused)?;
        }
    }
    Ok(())
}

fn link(parts: &[Value], file: &File) -> Result<TutorialLink, String> {
    let [a, b, more @ ..] = parts else {
        return Err("expected [end, end, latency, bandwidth]".to_owned());
    };
    let delay = match more.first() {
        None | Some(Value::Null) => Time::ZERO,
        // Numbers without a unit are milliseconds.
        Some(Value::Number(ms)) => Time::from_secs_f64(ms.as_f64().unwrap_or(0.0) * 1e-3),
        Some(Value::String(text)) if text == "0" => Time::ZERO,
        Some(Value::String(text)) => text.parse().map_err(|error| format!("latency: {error}"))?,
        Some(other) => {
            return Err(format!("latency: expected a number or a text with a unit, found {other}"));
        }
    };
    let rate = match more.get(1) {
        None | Some(Value::Null) => None,
        Some(mbps) => {
            let mbps = mbps.as_f64().filter(|&mbps| mbps > 0.0);
            Some(Bandwidth::from_bps_f64(mbps.ok_or("bandwidth: expected a number of Mbit/s")? * 1e6))
        }
    };
    Ok(TutorialLink { a: end(a, file)?, b: end(b, file)?, delay, rate })
}

/// Parses an end of a link: `h1` or `s1-p3`.
fn end(json: &Value, file: &File) -> Result<(String, u16), String> {
    let name = json.as_str().unwrap_or_default();
    if file.hosts.contains_key(name) {
        return Ok((name.to_owned(), 0));
    }
    let split = name.rsplit_once("-p").and_then(|(switch, port)| Some((switch, port.parse().ok()?)));
    match split {
        Some((switch, port)) if port > 0 && file.switches.contains_key(switch) => {
            Ok((switch.to_owned(), port))
        }
        _ => Err(format!("{json} is neither a host nor a port of a switch such as s1-p1")),
    }
}

fn port(json: &Value) -> Result<u16, String> {
    let number = json.as_u64().or_else(|| json.as_str()?.trim().parse().ok());
    number
        .and_then(|number| u16::try_from(number).ok())
        .ok_or_else(|| format!("cpu_port: invalid port {json}"))
}

/// Resolves a path of the topology file. The tutorials write paths relative to the directory in which `make` runs: that of the
/// exercise, usually the parent of the directory of the topology.
fn find(named: &Path, topology: &Path) -> Result<PathBuf, String> {
    let folders = topology.ancestors().skip(1).take(3);
    let places = std::iter::once(PathBuf::from(".")).chain(folders.map(Path::to_owned));
    places.map(|dir| dir.join(named)).find_map(|path| path.canonicalize().ok()).ok_or_else(|| {
        format!(
            "{} not found in the current directory or next to the topology; compile it first",
            named.display()
        )
    })
}

/// Sorts names naturally: s2 before s10.
fn in_order<'n>(names: impl Iterator<Item = &'n String>) -> Vec<&'n String> {
    let mut names: Vec<&String> = names.collect();
    names.sort_by_key(|name| {
        let letters = name.trim_end_matches(|c: char| c.is_ascii_digit());
        (letters.to_owned(), name[letters.len()..].parse::<u64>().unwrap_or(0))
    });
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a file in a dir with the programs `p.json` and `q.json`, and `p-runtime.json` with the former.
    fn read_file(text: &str, program: Option<&str>) -> Result<Loaded, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        ["p.json", "q.json"].iter().for_each(|name| file(name, "{}"));
        let runtime =
            r#"{"target": "bmv2", "p4info": "p.txtpb", "bmv2_json": "p.json", "table_entries": []}"#;
        file("p-runtime.json", runtime);
        file("topology.json", text);
        let places = TestbedConfig {
            switch: SwitchKind::Weir,
            process_per_switch: false,
            exe: "weir".into(),
            pcaps: None,
        };
        let maker = Maker { places, logs: None };
        load(&dir.path().join("topology.json"), program.map(Path::new), &maker, dir.path())
    }

    fn read(links: &str) -> Result<Loaded, String> {
        let hosts = r#"{"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["true"]},
                        "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"}}"#;
        let switches = r#"{"s10": {"cpu_port": "510"}, "s2": {}}"#;
        let text = format!(r#"{{"hosts": {hosts}, "switches": {switches}, "links": {links}}}"#);
        read_file(&text, Some("p.json"))
    }

    #[test]
    fn a_tutorials_topology_becomes_a_plan() {
        let it = read(r#"[["h1", "s2-p1"], ["s2-p2", "s10-p1", "5ms", 0.5], ["s10-p2", "h2", 1]]"#).unwrap();
        let names: Vec<_> =
            it.plan.switches.iter().map(|s| (s.name.as_str(), s.grpc_port, s.cpu_port)).collect();
        assert_eq!(names, [("s2", 50_051, None), ("s10", 50_052, Some(510))]);
        assert_eq!(it.plan.switches[0].options, ["--port-rate", "2=500000bps"]);
        assert_eq!(it.plan.switches[1].options, ["--port-rate", "1=500000bps"]);
        let links: Vec<_> =
            it.plan.links.iter().map(|it| (it.name.as_str(), it.properties.as_str())).collect();
        assert!(links[0].1.starts_with("rate=unlimited,delay=0ps,"), "{links:?}");
        assert_eq!(links[1].0, "s2-s10#2");
        assert!(links[1].1.starts_with("rate=500000bps,delay=5000000000ps,"), "{links:?}");
        assert!(
            links[2].1.starts_with("rate=unlimited,delay=1000000000ps,"),
            "a number is milliseconds: {links:?}"
        );
        assert_eq!(it.plan.hosts[0].commands, ["true"]);
        assert!(!it.has_runtime);
    }

    #[test]
    fn mistakes_are_named() {
        let wrong = |links: &str| read(links).err().unwrap();
        assert!(wrong(r#"[["h1", "s3-p1"]]"#).starts_with("links[0]: \"s3-p1\" is neither a host"));
        assert!(wrong(r#"[["h1"]]"#).contains("[end, end, latency, bandwidth]"));
        assert!(wrong(r#"[["h1", "s2-p1", "5"]]"#).contains("latency"));
        assert!(wrong(r#"[["h1", "s2-p1", 0, 0]]"#).contains("Mbit/s"));
    }

    #[test]
    fn a_host_may_have_no_address() {
        let it = read_file(
            r#"{"hosts": {"h1": {"ip": null, "mac": "08:00:00:00:01:11"},
                          "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:02:22"}},
                "switches": {"s1": {}}, "links": [["h1", "s1-p1"], ["h2", "s1-p2"]]}"#,
            Some("p.json"),
        );
        let it = it.unwrap();
        let addresses: Vec<_> = it.plan.hosts.iter().map(|host| host.ip.as_deref()).collect();
        assert_eq!((addresses, it.plan.links.len()), (vec![None, Some("10.0.1.2/24")], 2));
    }

    #[test]
    fn a_program_that_no_switch_would_run_is_refused() {
        let with = |switches: &str, program: &str| {
            let text = format!(r#"{{"hosts": {{}}, "switches": {switches}, "links": []}}"#);
            read_file(&text, Some(program)).map(|it| it.plan.switches[0].program.is_some())
        };
        let runtime =
            r#"{"s1": {"runtime_json": "p-runtime.json"}, "s2": {"runtime_json": "p-runtime.json"}}"#;
        assert_eq!(with(runtime, "p.json"), Ok(false), "the controller brings it");
        let reason = with(runtime, "q.json").unwrap_err();
        assert!(
            reason.starts_with("--program: no switch would run ") && reason.contains(", s1 "),
            "{reason}"
        );
        assert!(with(runtime, "nope.json").unwrap_err().contains("nope.json"));
        assert_eq!(with(r#"{"s1": {}, "s2": {"runtime_json": "p-runtime.json"}}"#, "q.json"), Ok(true));
    }

    #[test]
    fn p4_utils_files_become_plans_with_their_ports_and_ids() {
        let app = r#"{"p4_src": "x.p4", "cli": true, "exec_scripts": [],
          "topology": {"assignment_strategy": "l3", "default": {"bw": 10, "delay": 1},
            "links": [["h1", "s1"], ["h2", "s2"], ["s1", "s2"]],
            "hosts": {"h1": {}, "h2": {}}, "switches": {"s1": {}, "s2": {}}}}"#;
        let it = read_file(app, Some("p.json")).unwrap();
        let places: Vec<_> = it.plan.switches.iter().map(|s| (s.device_id, s.grpc_port)).collect();
        assert_eq!(places, [(1, 9559), (2, 9560)]);
        assert_eq!(it.plan.hosts[1].ip.as_deref(), Some("10.2.2.2/14"));
        assert!(it.plan.static_arp && it.plan.one_process && !it.has_runtime);
        assert_eq!(it.plan.links[2].a, ("s1".to_owned(), 2));
        assert_eq!(it.warnings, ["exec_scripts is Python's and not taken over"]);
        assert!(read_file(app, None).err().unwrap().contains("--program"));
        let reason = read_file(r#"{"program": "x.p4", "targets": {"mininet": {}}}"#, None).err().unwrap();
        assert!(reason.contains("p4lang/p4app"), "{reason}");
        assert!(read_file("{}", None).err().unwrap().starts_with("not a topology.json of the p4 tutorials"));
    }
}
