//! Networks from a `topology.json` of the p4 tutorials, or from a file of p4-utils as far as the controller supports
//! it.
//!
//! The tutorials set rate and delay with `tc`. Here the rate limits of the switches and `weir link` do so, so that
//! packets queue in the switch, where the P4 program sees the queue.

use super::mininet_process::{MininetProcess, Signals};
use super::plan::{self, Plan, PlannedHost, PlannedLink, PlannedSwitch, SwitchKind, TestbedConfig};
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

/// The plan of a topology file, and what else the caller needs to know about the file.
struct TutorialPlan {
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
    mininet: MininetProcess,
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
        let mut builder =
            PlanBuilder { config: TestbedConfig { switch, process_per_switch, exe, pcaps }, logs: None };
        let at_file = |reason| Error::Input(format!("{}: {reason}", topology.display()));
        // Checks the file before anything is created.
        load(topology, program, &builder, Path::new("")).map_err(at_file)?;
        let mut mininet = MininetProcess::start(signals)?;
        builder.logs = logs;
        let tutorial_plan = load(topology, program, &builder, mininet.work_dir()).map_err(at_file)?;
        mininet.up(&tutorial_plan.plan)?;
        if switch == SwitchKind::Bmv2 {
            set_rate_limits(&tutorial_plan.plan, &tutorial_plan.rates)?;
        }
        // The Python process has another working directory.
        let topology = std::path::absolute(topology)?;
        let TutorialPlan { has_runtime, warnings, .. } = tutorial_plan;
        Ok(Tutorial { topology, mininet, has_runtime, warnings })
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
        let matrix = self.mininet.ping(PAYLOAD, 1, 1)?;
        let rtts = || matrix.values().flat_map(|row| row.values());
        Ok((rtts().filter(|rtt| rtt.is_some()).count(), rtts().count()))
    }

    /// Runs Mininet's command line until the user exits it.
    ///
    /// # Errors
    ///
    /// If Mininet fails or the run is interrupted.
    pub fn cli(&mut self) -> Result<(), Error> {
        self.mininet.cli(&self.topology)
    }
}

/// Reads a topology. `program` is for switches for which the topology has none.
fn load(
    path: &Path,
    program: Option<&Path>,
    builder: &PlanBuilder,
    work_dir: &Path,
) -> Result<TutorialPlan, String> {
    let text = read_text(path).map_err(|error| error.to_string())?;
    let program = program.map(|given| resolve(given, path).map_err(|reason| format!("--program: {reason}")));
    let program = program.transpose()?;
    let file: File = match serde_json::from_str(&text) {
        Ok(file) => file,
        Err(error) => return p4_utils(&text, &error, program, builder, work_dir),
    };
    if let Some(program) = &program {
        check_program_is_used(program, &file, path)?;
    }
    let links = file
        .links
        .iter()
        .enumerate()
        .map(|(i, link)| self::link(link, &file).map_err(|reason| format!("links[{i}]: {reason}")));
    let links = links.collect::<Result<Vec<_>, _>>()?;
    let mut switches = Vec::new();
    for (i, name) in natural_sort(file.switches.keys()).into_iter().enumerate() {
        let spec = &file.switches[name];
        let at_switch = |reason: String| format!("switches.{name}: {reason}");
        // The controller that installs the entries also loads the program.
        let program = match (&spec.program, &program, &spec.runtime_json) {
            (_, _, Some(_)) => None,
            (Some(path_in_file), _, None) => Some(resolve(path_in_file, path).map_err(at_switch)?),
            (None, Some(program), None) => Some(program.clone()),
            (None, None, None) => {
                return Err(at_switch("has neither program nor runtime_json; specify a program".to_owned()));
            }
        };
        let ix = SwitchIx(i as u32);
        switches.push(PlannedSwitch {
            name: name.clone(),
            device_id: plan::device_id(ix),
            grpc_port: plan::grpc_port(ix),
            thrift_port: plan::thrift_port(ix),
            cpu_port: spec.cpu_port.as_ref().map(port).transpose().map_err(at_switch)?,
            priorities: spec.priority_queues.unwrap_or(1),
            program,
            options: links.iter().flat_map(|link| link.switch_options(name)).collect(),
        });
    }
    let hosts = natural_sort(file.hosts.keys()).into_iter().map(|name| {
        let spec = &file.hosts[name];
        PlannedHost {
            name: name.clone(),
            ip: spec.ip.clone(),
            mac: spec.mac.clone(),
            commands: spec.commands.clone(),
        }
    });
    // ARP entries are set by the commands in the file.
    let tutorial_plan = builder.build(hosts.collect(), switches, links, false, work_dir)?;
    let has_runtime = file.switches.values().any(|switch| switch.runtime_json.is_some());
    Ok(TutorialPlan { has_runtime, ..tutorial_plan })
}

/// Rejects a program that no switch would run, because each has a `runtime_json` with its own program.
fn check_program_is_used(program: &Path, file: &File, topology: &Path) -> Result<(), String> {
    let mut other = None;
    for (name, switch) in &file.switches {
        let Some(runtime) = &switch.runtime_json else { return Ok(()) };
        let at_switch = |reason: String| format!("switches.{name}: {reason}");
        let path = resolve(runtime, topology).map_err(at_switch)?;
        let text = read_text(&path).map_err(|error| at_switch(format!("{}: {error}", path.display())))?;
        let read = RuntimeJson::parse(&text);
        let read =
            read.map_err(|error| with_file_position(&path.display().to_string(), &text, &error.to_string()))?;
        let own = resolve(Path::new(&read.bmv2_json), topology).map_err(at_switch)?;
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
    builder: &PlanBuilder,
    work_dir: &Path,
) -> Result<TutorialPlan, String> {
    let imported = import(text).map_err(|error| error.to_string())?;
    let Some(Imported { topology, switch_addresses, warnings, .. }) =
        imported.filter(|imported| !imported.switch_addresses.is_empty())
    else {
        return Err(format!(
            "not a topology.json of the p4 tutorials, nor p4app.json or topology.json of p4-utils: {error}; \
             `weir fabric up` also reads other formats"
        ));
    };
    let topology = build_parts(&topology).map_err(|error| format!("topology: {error}"))?;
    let program =
        program.ok_or("p4-utils compiles programs itself; specify the compiled one with --program")?;
    let end = |end: Endpoint| (topology.node_name(end.node).to_owned(), end.port);
    let link = |link: &Link| TutorialLink {
        a: end(link.a),
        b: end(link.b),
        delay: link.delay,
        rate: Some(link.rate),
    };
    let links: Vec<TutorialLink> = topology.links.iter().map(link).collect();
    let switches = topology.switch_ixs().map(|ix| {
        let name = &topology.switch(ix).name;
        let address = switch_addresses.get(name);
        PlannedSwitch {
            name: name.clone(),
            device_id: address.map_or(plan::device_id(ix), |address| address.device_id),
            grpc_port: address.map_or(plan::grpc_port(ix), |address| address.grpc_port),
            thrift_port: plan::thrift_port(ix),
            cpu_port: None,
            priorities: 1,
            program: Some(program.clone()),
            options: links.iter().flat_map(|link| link.switch_options(name)).collect(),
        }
    });
    let switches = switches.collect();
    let tutorial_plan = builder.build(plan::hosts(&topology), switches, links, true, work_dir)?;
    Ok(TutorialPlan { warnings, ..tutorial_plan })
}

/// Creates plans of networks from their hosts, switches and links.
struct PlanBuilder {
    config: TestbedConfig,
    /// Directory for logs; `None`: no logs.
    logs: Option<PathBuf>,
}

impl PlanBuilder {
    /// Creates a plan with the working directory `work_dir`.
    fn build(
        &self,
        hosts: Vec<PlannedHost>,
        switches: Vec<PlannedSwitch>,
        links: Vec<TutorialLink>,
        static_arp: bool,
        work_dir: &Path,
    ) -> Result<TutorialPlan, String> {
        let PlanBuilder { config, logs } = self;
        let rates = links.iter().filter_map(|link| Some((link, link.rate?)));
        let rates = rates.flat_map(|(link, rate)| [(link.a.clone(), rate), (link.b.clone(), rate)]).collect();
        let has_switch = |link: &TutorialLink| {
            [&link.a, &link.b].iter().any(|(node, _)| switches.iter().any(|switch| switch.name == *node))
        };
        Ok(TutorialPlan {
            rates,
            has_runtime: false,
            warnings: Vec::new(),
            plan: Plan {
                work: work_dir.to_owned(),
                switch: config.switch,
                // Logs require a process per switch. So does a link between two hosts, which bypasses the switches.
                one_process: config.one_process() && logs.is_none() && links.iter().all(has_switch),
                exe: config.exe.clone(),
                weir: plan::own_program()?,
                seed: 1,
                frame: FULL_FRAME,
                mtu: MTU,
                hosts,
                switches,
                links: links.into_iter().zip(1..).map(|(link, number)| link.plan(number)).collect(),
                static_arp,
                pcaps: config.pcaps.clone(),
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

/// Sets the rate limits of BMv2 ports. BMv2 limits packets per second; this is the number at which full frames fill the
/// link, and the link emulator later adapts it to the sizes of the queued packets.
fn set_rate_limits(plan: &Plan, rates: &[((String, u16), Bandwidth)]) -> Result<(), Error> {
    for switch in &plan.switches {
        let failed = |error: ThriftError| Error::Work(format!("{}: {error}", switch.name));
        for ((_, port), rate) in rates.iter().filter(|((node, _), _)| *node == switch.name) {
            let address = format!("127.0.0.1:{}", switch.thrift_port);
            let mut client = ThriftClient::connect(&address).map_err(failed)?;
            let packets = packets_per_second(*rate, Bytes::new(FULL_FRAME));
            client.set_queue_rate(*port, packets).map_err(failed)?;
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

/// Resolves a path of the topology file. The tutorials write paths relative to the directory in which `make` runs: that
/// of the exercise, usually the parent of the directory of the topology.
fn resolve(path_in_file: &Path, topology: &Path) -> Result<PathBuf, String> {
    let dirs = topology.ancestors().skip(1).take(3);
    let candidates = std::iter::once(PathBuf::from(".")).chain(dirs.map(Path::to_owned));
    candidates.map(|dir| dir.join(path_in_file)).find_map(|path| path.canonicalize().ok()).ok_or_else(|| {
        format!(
            "{} not found in the current directory or next to the topology; compile it first",
            path_in_file.display()
        )
    })
}

/// Sorts names naturally: s2 before s10.
fn natural_sort<'n>(names: impl Iterator<Item = &'n String>) -> Vec<&'n String> {
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

    /// Loads a topology file from a directory with the programs `p.json` and `q.json`, and with `p-runtime.json`, which
    /// refers to `p.json`.
    fn read_file(text: &str, program: Option<&str>) -> Result<TutorialPlan, String> {
        let dir = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        ["p.json", "q.json"].iter().for_each(|name| file(name, "{}"));
        let runtime =
            r#"{"target": "bmv2", "p4info": "p.txtpb", "bmv2_json": "p.json", "table_entries": []}"#;
        file("p-runtime.json", runtime);
        file("topology.json", text);
        let config = TestbedConfig {
            switch: SwitchKind::Weir,
            process_per_switch: false,
            exe: "weir".into(),
            pcaps: None,
        };
        let builder = PlanBuilder { config, logs: None };
        load(&dir.path().join("topology.json"), program.map(Path::new), &builder, dir.path())
    }

    fn read(links: &str) -> Result<TutorialPlan, String> {
        let hosts = r#"{"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11", "commands": ["true"]},
                        "h2": {"ip": "10.0.2.2/24", "mac": "08:00:00:00:02:22"}}"#;
        let switches = r#"{"s10": {"cpu_port": "510"}, "s2": {}}"#;
        let text = format!(r#"{{"hosts": {hosts}, "switches": {switches}, "links": {links}}}"#);
        read_file(&text, Some("p.json"))
    }

    #[test]
    fn a_tutorials_topology_becomes_a_plan() {
        let tutorial =
            read(r#"[["h1", "s2-p1"], ["s2-p2", "s10-p1", "5ms", 0.5], ["s10-p2", "h2", 1]]"#).unwrap();
        let names: Vec<_> =
            tutorial.plan.switches.iter().map(|s| (s.name.as_str(), s.grpc_port, s.cpu_port)).collect();
        assert_eq!(names, [("s2", 50_051, None), ("s10", 50_052, Some(510))]);
        assert_eq!(tutorial.plan.switches[0].options, ["--port-rate", "2=500000bps"]);
        assert_eq!(tutorial.plan.switches[1].options, ["--port-rate", "1=500000bps"]);
        let links: Vec<_> =
            tutorial.plan.links.iter().map(|link| (link.name.as_str(), link.properties.as_str())).collect();
        assert!(links[0].1.starts_with("rate=unlimited,delay=0ps,"), "{links:?}");
        assert_eq!(links[1].0, "s2-s10#2");
        assert!(links[1].1.starts_with("rate=500000bps,delay=5000000000ps,"), "{links:?}");
        assert!(
            links[2].1.starts_with("rate=unlimited,delay=1000000000ps,"),
            "a number is milliseconds: {links:?}"
        );
        assert_eq!(tutorial.plan.hosts[0].commands, ["true"]);
        assert!(!tutorial.has_runtime);
    }

    #[test]
    fn invalid_files_are_reported() {
        let error = |links: &str| read(links).err().unwrap();
        assert!(error(r#"[["h1", "s3-p1"]]"#).starts_with("links[0]: \"s3-p1\" is neither a host"));
        assert!(error(r#"[["h1"]]"#).contains("[end, end, latency, bandwidth]"));
        assert!(error(r#"[["h1", "s2-p1", "5"]]"#).contains("latency"));
        assert!(error(r#"[["h1", "s2-p1", 0, 0]]"#).contains("Mbit/s"));
    }

    #[test]
    fn networks_without_a_link_between_them_are_one_plan() {
        let tutorial = read_file(
            r#"{"hosts": {"h1": {"ip": "10.0.1.1/24", "mac": "08:00:00:00:01:11"},
                          "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:02:22"},
                          "h3": {"ip": "10.0.3.3/24", "mac": "08:00:00:00:03:33"},
                          "h4": {"ip": "10.0.3.4/24", "mac": "08:00:00:00:04:44"}},
                "switches": {"s1": {"runtime_json": "p-runtime.json"}, "s2": {"runtime_json": "p-runtime.json"}},
                "links": [["h1", "s1-p1"], ["h2", "s1-p2"], ["h3", "s2-p1"], ["h4", "s2-p2"]]}"#,
            None,
        );
        let TutorialPlan { plan, has_runtime, .. } = tutorial.unwrap();
        assert_eq!((plan.hosts.len(), plan.switches.len(), plan.links.len(), has_runtime), (4, 2, 4, true));
    }

    #[test]
    fn a_host_may_have_no_address() {
        let tutorial = read_file(
            r#"{"hosts": {"h1": {"ip": null, "mac": "08:00:00:00:01:11"},
                          "h2": {"ip": "10.0.1.2/24", "mac": "08:00:00:00:02:22"}},
                "switches": {"s1": {}}, "links": [["h1", "s1-p1"], ["h2", "s1-p2"]]}"#,
            Some("p.json"),
        );
        let tutorial = tutorial.unwrap();
        let addresses: Vec<_> = tutorial.plan.hosts.iter().map(|host| host.ip.as_deref()).collect();
        assert_eq!((addresses, tutorial.plan.links.len()), (vec![None, Some("10.0.1.2/24")], 2));
    }

    #[test]
    fn a_program_that_no_switch_would_run_is_rejected() {
        let with = |switches: &str, program: &str| {
            let text = format!(r#"{{"hosts": {{}}, "switches": {switches}, "links": []}}"#);
            read_file(&text, Some(program)).map(|tutorial| tutorial.plan.switches[0].program.is_some())
        };
        let runtime =
            r#"{"s1": {"runtime_json": "p-runtime.json"}, "s2": {"runtime_json": "p-runtime.json"}}"#;
        assert_eq!(with(runtime, "p.json"), Ok(false), "the controller loads it");
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
        let tutorial = read_file(app, Some("p.json")).unwrap();
        let ids_and_ports: Vec<_> =
            tutorial.plan.switches.iter().map(|s| (s.device_id, s.grpc_port)).collect();
        assert_eq!(ids_and_ports, [(1, 9559), (2, 9560)]);
        assert_eq!(tutorial.plan.hosts[1].ip.as_deref(), Some("10.2.2.2/14"));
        assert!(tutorial.plan.static_arp && tutorial.plan.one_process && !tutorial.has_runtime);
        assert_eq!(tutorial.plan.links[2].a, ("s1".to_owned(), 2));
        assert_eq!(tutorial.warnings, ["exec_scripts (a Python module or script) is ignored"]);
        assert!(read_file(app, None).err().unwrap().contains("--program"));
        let reason = read_file(r#"{"program": "x.p4", "targets": {"mininet": {}}}"#, None).err().unwrap();
        assert!(reason.contains("p4lang/p4app"), "{reason}");
        assert!(read_file("{}", None).err().unwrap().starts_with("not a topology.json of the p4 tutorials"));
    }
}
