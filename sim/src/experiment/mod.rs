//! Experiment files: one YAML says everything that a run needs, so that others get the same bytes
//! from the same file.
//!
//! [`Experiment::load`] reads, checks and resolves a file; whatever is wrong with it is found here,
//! before anything runs or is written, and named with its place.

mod faults;
mod overrides;
mod policy;
mod scalar;
mod scale;
mod spec;

pub use faults::{Attack, FaultSpec, Happening, What};
pub use policy::{PolicySpec, SetSpec, TuneSpec};
pub use scalar::{OffOr, Scalar, SchemeEntry};
pub use scale::Scale;
pub use spec::{
    CsvFile, ExperimentSpec, FlowSpec, ObserveSpec, PaperNote, PfcSpec, RecoverySpec, SweepSpec,
    TransportSpec, WorkloadSpec,
};

use crate::rng::{mix, stream_seed};
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use weir_controller::plan::{DATA_PRIORITY, ESCAPE_PRIORITY, EXPRESS_PRIORITY, FEEDBACK_PRIORITY};
use weir_controller::profile::{DeflectionConfig, EcnConfig};
use weir_controller::topology::{self, HostIx, SwitchIx, Topology};
use weir_host::policy::PolicyConfig;
use weir_host::scheme::{Deflection, QueueLimit, Recovery, SchemeConfig};
use weir_host::schemes;
use weir_host::wire::{MAX_ANNOUNCED, WEIR_PORT};
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// The fairness window if none is given: so many tenths of the run, at its end.
const FAIRNESS_TENTHS: u64 = 3;

/// What is wrong with an experiment: file, place in it, problem and remedy.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ExperimentError {
    /// {file}: cannot be read: {why}
    #[error("{file}: cannot be read: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// The system's words.
        why: String,
    },
    /// The YAML, or a value in it, is not of the expected form.
    #[error("{file}: {why}")]
    Form {
        /// The file.
        file: String,
        /// Place and problem.
        why: String,
    },
    /// A `--set` cannot be applied.
    #[error("--set {why}")]
    Override {
        /// Place and problem.
        why: String,
    },
    /// A rate that the experiment cannot be run at.
    #[error("--rate {rate}: {why}")]
    Rate {
        /// As given.
        rate: Bandwidth,
        /// Problem and remedy.
        why: String,
    },
    /// A value is well formed but makes no sense.
    #[error("{file}: {place}: {why}")]
    Meaning {
        /// The file.
        file: String,
        /// Path of the key.
        place: String,
        /// Problem and remedy.
        why: String,
    },
}

/// A flow of an experiment, its names resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// `<from>-><to>`, with `#n` behind it if there are several.
    pub name: String,
    /// Sender.
    pub from: HostIx,
    /// Receiver.
    pub to: HostIx,
    /// When it opens.
    pub start: Time,
    /// When it stops sending new data, if before its end.
    pub stop: Option<Time>,
    /// Payload; `None` sends until it is stopped.
    pub size: Option<Bytes>,
    /// The UDP port that is the flow's entropy.
    pub entropy_port: u16,
    /// Whom its first packet announces.
    pub announces: Vec<HostIx>,
}

/// A scheme of an experiment, its knobs set.
#[derive(Clone)]
pub struct Scheme {
    /// Its name in the results.
    pub label: String,
    /// The factory of its senders and receivers.
    pub config: Arc<dyn SchemeConfig>,
}

/// A checked experiment.
pub struct Experiment {
    /// The keys, defaults filled in and overrides applied.
    pub spec: ExperimentSpec,
    /// The fabric.
    pub topology: Topology,
    /// What to compare, in the file's order.
    pub schemes: Vec<Scheme>,
    /// Hosts whose flows have a scheme of their own.
    own_schemes: BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    /// Flows by start time, ties in the file's order.
    pub flows: Vec<Flow>,
    /// Faults and policies, by time.
    pub happenings: Vec<Happening>,
    /// The switch ports that `observe.ports` names.
    pub observed_ports: Vec<(SwitchIx, u16)>,
    /// How much slower it runs than it is written.
    pub scale: Scale,
    /// The keys as they are written: those of the original, if this is a model of it.
    written: ExperimentSpec,
}

impl Experiment {
    /// Reads `path`, applies `overrides` (`a.b=c`) and the seed from the command line.
    pub fn load(path: &Path, overrides: &[String], seed: Option<u64>) -> Result<Experiment, ExperimentError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|e| ExperimentError::Unreadable { file: file.clone(), why: e.to_string() })?;
        let stem =
            path.file_stem().map_or_else(|| "experiment".to_owned(), |s| s.to_string_lossy().into_owned());
        Experiment::parse(&text, &file, &stem, overrides, seed)
    }

    /// As [`load`](Self::load), from text. `file` stands in messages, `default_name` names an
    /// experiment that has no `name`.
    pub fn parse(
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        let mut spec = read(text, file, overrides)?;
        if spec.name.is_empty() {
            spec.name = default_name.to_owned();
        }
        if let Some(seed) = seed {
            spec.seed = seed;
        }
        let model_rate = spec.model_rate.take();
        let experiment = resolve(spec, file)?;
        match model_rate {
            Some(rate) => experiment.at_rate(rate),
            None => Ok(experiment),
        }
    }

    /// The same experiment as a scale model: its slowest hosts have `rate`, all else in proportion.
    pub fn at_rate(&self, rate: Bandwidth) -> Result<Experiment, ExperimentError> {
        let scale = Scale { from: self.scale.from, to: rate };
        let refuse = |why: String| ExperimentError::Rate { rate, why };
        if rate == Bandwidth::ZERO || rate > scale.from {
            return Err(refuse(format!("a model is slower than the file's {}, not stopped", scale.from)));
        }
        let mut written = self.written.clone();
        let mut spec = ExperimentSpec { model_rate: None, ..written.clone() };
        if !scale.is_none() {
            scale.apply(&mut spec);
            written.model_rate = Some(rate);
        }
        let model = resolve(spec, "the model").map_err(|error| refuse(error.to_string()))?;
        Ok(Experiment { scale, written, ..model })
    }

    /// What `host` sends with while `scheme` runs.
    pub fn scheme_of(&self, host: HostIx, scheme: &Scheme) -> Arc<dyn SchemeConfig> {
        Arc::clone(self.own_schemes.get(&host).unwrap_or(&scheme.config))
    }

    /// What a host takes part in policies with, if hosts do.
    pub fn policy_of(&self, host: HostIx, base_rtt: Time) -> Option<PolicyConfig> {
        let policy = self.spec.policy.as_ref()?;
        let start = faults::joins(&self.spec, &self.topology.host(host).name);
        Some(policy.config(&self.topology, host, base_rtt, self.spec.seed, start))
    }

    /// What makes up for losses while `scheme` runs.
    pub fn recovery(&self, scheme: &Scheme) -> Recovery {
        self.spec.transport.recovery.map_or(scheme.config.carriage().recovery, Recovery::from)
    }

    /// Flows whose rates are kept: the first, in order of start.
    pub fn watched_flows(&self) -> usize {
        /// More cannot be told apart in a plot.
        const MOST: usize = 16;
        if self.spec.observe.rates { self.flows.len().min(MOST) } else { 0 }
    }

    /// When the window begins over which Jain's index is taken.
    pub fn fairness_window_start(&self) -> Time {
        let share = Time::from_ps(self.spec.duration.as_ps() / 10) * FAIRNESS_TENTHS;
        self.spec.duration.saturating_sub(self.spec.observe.fairness_window.unwrap_or(share))
    }

    /// When the first flow starts that is not among the earliest.
    pub fn first_join(&self) -> Option<Time> {
        let first = self.flows.first().map(|flow| flow.start);
        self.flows.iter().map(|flow| flow.start).find(|&start| Some(start) > first)
    }

    /// The ECN thresholds that ports have while `scheme` runs.
    pub fn ecn_for(&self, scheme: &Scheme) -> Option<EcnConfig> {
        let ecn = self.spec.ecn_for(&*scheme.config)?;
        // Those of the file were scaled with it; a scheme knows nothing of models.
        Some(if self.spec.ecn.is_some() { ecn } else { self.scale.ecn(ecn) })
    }

    /// When switches deflect while `scheme` runs, if they do; `tick` is of their clock.
    pub fn deflection_for(&self, scheme: &Scheme, tick: Time) -> Option<DeflectionConfig> {
        let deflection = scheme.config.deflection()?;
        // A lifetime is a knob, and was scaled as one.
        let lifetime = deflection.lifetime.map_or(0, |time| (time / tick).max(1));
        let QueueLimit { queue, per } = deflection.threshold;
        Some(DeflectionConfig { threshold: queue, per: Some(self.scale.rate(per)), lifetime })
    }

    /// Priority queues of a port while `scheme` runs.
    pub fn priorities(&self, scheme: &Scheme) -> u8 {
        let highest = [
            scheme.config.deflection().map(|_| ESCAPE_PRIORITY),
            scheme.config.short_first().map(|_| EXPRESS_PRIORITY),
            self.spec.ack_priority.then_some(FEEDBACK_PRIORITY),
        ];
        highest.into_iter().flatten().max().unwrap_or(DATA_PRIORITY) + 1
    }

    /// Rate of the slowest host.
    pub fn host_rate(&self) -> Bandwidth {
        host_rate(&self.topology)
    }

    /// The keys with every default written out, as `run.yaml` holds them.
    pub fn resolved_yaml(&self) -> String {
        serde_yaml::to_string(&self.written).expect("plain data serialises")
    }

    /// Only the schemes with these labels, in the file's order.
    pub fn retain_schemes(&mut self, labels: &[String]) -> Result<(), ExperimentError> {
        let known: Vec<&str> = self.schemes.iter().map(|s| s.label.as_str()).collect();
        if let Some(unknown) = labels.iter().find(|l| !known.contains(&l.as_str())) {
            let why = format!("\"{unknown}\" is not among this experiment's schemes: {}", known.join(", "));
            return Err(ExperimentError::Override { why });
        }
        self.schemes.retain(|s| labels.contains(&s.label));
        for spec in [&mut self.spec, &mut self.written] {
            spec.schemes.retain(|s| labels.contains(&s.label));
        }
        Ok(())
    }
}

fn read(text: &str, file: &str, overrides: &[String]) -> Result<ExperimentSpec, ExperimentError> {
    let form = |why: String| ExperimentError::Form { file: file.to_owned(), why };
    if overrides.is_empty() {
        // Straight from the text, so that messages carry the line.
        return serde_yaml::from_str(text).map_err(|e| form(e.to_string()));
    }
    let mut root: Value = serde_yaml::from_str(text).map_err(|e| form(e.to_string()))?;
    for assignment in overrides {
        overrides::apply(&mut root, assignment).map_err(|why| ExperimentError::Override { why })?;
    }
    serde_path_to_error::deserialize(root).map_err(|e| match e.path().to_string() {
        path if path == "." => form(e.into_inner().to_string()),
        path => form(format!("{path}: {}", e.into_inner())),
    })
}

fn resolve(spec: ExperimentSpec, file: &str) -> Result<Experiment, ExperimentError> {
    let wrong = |place: &str, why: String| ExperimentError::Meaning {
        file: file.to_owned(),
        place: place.to_owned(),
        why,
    };
    if spec.name.contains(['/', '\\', '\0']) || spec.name.starts_with('.') {
        return Err(wrong("name", format!("\"{}\" cannot be the name of a directory", spec.name)));
    }
    let topology = topology::build(&spec.topology).map_err(|e| wrong("topology", e.to_string()))?;
    let schemes = resolve_schemes(&spec, &wrong)?;
    if spec.duration == Time::ZERO {
        return Err(wrong("duration", "nothing happens in no time, give a span like 1ms".to_owned()));
    }
    if spec.observe.interval == Time::ZERO {
        return Err(wrong("observe.interval", "cannot be zero, give a span like 1us".to_owned()));
    }
    if spec.transport.ack_every == 0 {
        return Err(wrong(
            "transport.ack_every",
            "cannot be 0: the sender needs ACKs, give 1 or more".to_owned(),
        ));
    }
    for (i, scheme) in schemes.iter().enumerate() {
        if let Some(Deflection { threshold: QueueLimit { queue, per }, .. }) = scheme.config.deflection() {
            let config = DeflectionConfig { threshold: queue, per: Some(per), lifetime: 0 };
            for link in &topology.links {
                config.limit(link.rate).map_err(|e| wrong(&format!("schemes[{i}]"), e.to_string()))?;
            }
        }
        let place = if spec.ecn.is_some() { "ecn".to_owned() } else { format!("schemes[{i}]") };
        let Some(ecn) = spec.ecn_for(&*scheme.config) else { continue };
        for link in &topology.links {
            ecn.ramp(link.rate).map_err(|e| wrong(&place, e.to_string()))?;
        }
    }
    let flows = resolve_flows(&spec, &topology, &wrong)?;
    let happenings = faults::resolve(&spec, &topology, &schemes, &wrong)?;
    let own_schemes = resolve_own_schemes(&spec, &topology, &schemes, &wrong)?;
    let observed_ports = resolve_ports(&spec, &topology, &wrong)?;
    let scale = Scale::none(host_rate(&topology));
    let written = spec.clone();
    Ok(Experiment { spec, topology, schemes, own_schemes, flows, happenings, observed_ports, scale, written })
}

fn host_rate(topology: &Topology) -> Bandwidth {
    topology.hosts.iter().map(|host| topology.link(host.link).rate).min().unwrap_or_default()
}

fn resolve_schemes(
    spec: &ExperimentSpec,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Scheme>, ExperimentError> {
    if spec.schemes.is_empty() {
        return Err(wrong(
            "schemes",
            "none is listed, name at least one (`weir schemes` lists them)".to_owned(),
        ));
    }
    let mut labels = BTreeSet::new();
    let mut resolved = Vec::new();
    for (i, entry) in spec.schemes.iter().enumerate() {
        let place = format!("schemes[{i}]");
        let knobs: Vec<(&str, &str)> = entry.set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let config =
            schemes::from_name_and_knobs(&entry.scheme, &knobs).map_err(|e| wrong(&place, e.to_string()))?;
        if !labels.insert(entry.label.clone()) {
            let why = format!("a second scheme has the label \"{}\", give it another `label`", entry.label);
            return Err(wrong(&place, why));
        }
        resolved.push(Scheme { label: entry.label.clone(), config });
    }
    Ok(resolved)
}

/// The schemes that listed flows bring with them, by sending host.
fn resolve_own_schemes(
    spec: &ExperimentSpec,
    topology: &Topology,
    schemes: &[Scheme],
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<BTreeMap<HostIx, Arc<dyn SchemeConfig>>, ExperimentError> {
    let mut own: BTreeMap<HostIx, Arc<dyn SchemeConfig>> = BTreeMap::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let place = format!("flows[{i}].scheme");
        let entry_of =
            |flow: &FlowSpec| flow.scheme.as_ref().map(|entry| (entry.scheme.clone(), entry.set.clone()));
        if spec.flows.iter().any(|other| other.from == flow.from && entry_of(other) != entry_of(flow)) {
            let why = format!("flows of {} have different schemes, but a host sends with one", flow.from);
            return Err(wrong(&place, why));
        }
        let Some(entry) = &flow.scheme else { continue };
        let knobs: Vec<(&str, &str)> = entry.set.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let config =
            schemes::from_name_and_knobs(&entry.scheme, &knobs).map_err(|e| wrong(&place, e.to_string()))?;
        for beside in schemes {
            let (own, theirs) = (config.needs(), beside.config.needs());
            let same_recovery = spec.transport.recovery.is_some()
                || config.carriage().recovery == beside.config.carriage().recovery;
            if own.telemetry != theirs.telemetry || own.grant != theirs.grant || !same_recovery {
                let why = format!(
                    "{} and {} want different things of the network or of receivers, they cannot run together",
                    entry.scheme, beside.label
                );
                return Err(wrong(&place, why));
            }
        }
        if let Some(host) = topology.hosts.iter().position(|host| host.name == flow.from) {
            own.insert(HostIx(host as u32), config);
        }
    }
    Ok(own)
}

fn resolve_flows(
    spec: &ExperimentSpec,
    topology: &Topology,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<Flow>, ExperimentError> {
    let host = |place: String, name: &str| {
        let found = topology.hosts.iter().position(|h| h.name == name);
        found.map(|i| HostIx(i as u32)).ok_or_else(|| {
            let (first, last) = (topology.hosts.first(), topology.hosts.last());
            let known = match (first, last) {
                (Some(first), Some(last)) => format!("the topology has {} to {}", first.name, last.name),
                _ => "the topology has no hosts".to_owned(),
            };
            wrong(&place, format!("host \"{name}\" is not declared, {known}"))
        })
    };
    let mut listed = Vec::new();
    for (i, flow) in spec.flows.iter().enumerate() {
        let place = |key: &str| format!("flows[{i}].{key}");
        let from = host(place("from"), &flow.from)?;
        let to = host(place("to"), &flow.to)?;
        if from == to {
            return Err(wrong(&place("to"), format!("\"{}\" cannot send to itself", flow.to)));
        }
        if flow.size == Some(Bytes::ZERO) {
            return Err(wrong(
                &place("size"),
                "an empty flow never starts, give it a byte or more".to_owned(),
            ));
        }
        if flow.start >= spec.duration {
            let why = format!("{} is not before the end of the run, {}", flow.start, spec.duration);
            return Err(wrong(&place("start"), why));
        }
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return Err(wrong(&place("stop"), "is not after the start".to_owned()));
        }
        let announced = flow.announces.iter().map(|name| host(place("announces"), name));
        let announced = announced.collect::<Result<Vec<_>, _>>()?;
        let bytes = 2 + 2 * announced.len() as u64;
        let too_short = !announced.is_empty() && flow.size.is_some_and(|size| size.get() < bytes);
        if announced.len() > MAX_ANNOUNCED || too_short {
            let why =
                format!("a list of {} needs {bytes} bytes, at most {MAX_ANNOUNCED} fit", announced.len());
            return Err(wrong(&place("announces"), why));
        }
        if flow.port.is_some_and(|port| port == 0 || port == WEIR_PORT) {
            let why = format!("{} is taken, give one like 50000", flow.port.unwrap_or_default());
            return Err(wrong(&place("port"), why));
        }
        listed.push((from, to, flow.start, flow.stop, flow.size, announced, flow.port));
    }
    if spec.workload.is_some() && topology.hosts.len() < 2 {
        return Err(wrong("workload", "it needs two hosts or more".to_owned()));
    }
    match &spec.workload {
        None => {}
        Some(WorkloadSpec::Permutation { size, start }) => {
            for (from, to) in permutation(topology.hosts.len(), spec.seed).into_iter().enumerate() {
                listed.push((HostIx(from as u32), HostIx(to as u32), *start, None, *size, Vec::new(), None));
            }
        }
        Some(WorkloadSpec::Messages { size, load, start, stop }) => {
            let stop = stop.unwrap_or(spec.duration).min(spec.duration);
            if *size == Bytes::ZERO || *start >= stop {
                return Err(wrong("workload", "messages have a size, and a time to start in".to_owned()));
            }
            if load.get() > 1.0 {
                return Err(wrong("workload.load", format!("{load} is more than a link carries")));
            }
            let stream = stream_seed(spec.seed, "messages");
            for (from, to, at) in messages(topology, stream, *size, *load, *start..stop) {
                listed.push((from, to, at, None, Some(*size), Vec::new(), None));
            }
        }
        Some(WorkloadSpec::Incast { to, senders, size, start, interval }) => {
            let receiver = host("workload.to".to_owned(), to)?;
            let others: Vec<HostIx> = topology.host_ixs().filter(|&ix| ix != receiver).collect();
            let Some(chosen) = others.get(..*senders as usize).filter(|chosen| !chosen.is_empty()) else {
                let why = format!("the topology has {} hosts beside {to}", others.len());
                return Err(wrong("workload.senders", why));
            };
            if *size == Bytes::ZERO {
                return Err(wrong("workload.size", "empty flows never start".to_owned()));
            }
            for (&from, i) in chosen.iter().zip(0..) {
                listed.push((from, receiver, *start + *interval * i, None, Some(*size), Vec::new(), None));
            }
        }
    }
    if listed.is_empty() && spec.policy.is_none() {
        return Err(wrong("flows", "there is none, list flows or give a workload".to_owned()));
    }
    let ports = stream_seed(spec.seed, "entropy ports");
    let mut flows: Vec<Flow> = Vec::with_capacity(listed.len());
    let mut times_seen = std::collections::BTreeMap::new();
    for (i, (from, to, start, stop, size, announces, port)) in listed.into_iter().enumerate() {
        let (a, b) = (&topology.hosts[from.0 as usize].name, &topology.hosts[to.0 as usize].name);
        let nth: &mut u32 = times_seen.entry((from, to)).or_default();
        *nth += 1;
        let name = if *nth == 1 { format!("{a}->{b}") } else { format!("{a}->{b}#{nth}") };
        let entropy_port = port.unwrap_or_else(|| entropy_port(mix(ports ^ i as u64)));
        flows.push(Flow { name, from, to, start, stop, size, entropy_port, announces });
    }
    flows.sort_by_key(|f| f.start); // stable: ties keep the file's order
    Ok(flows)
}

/// `<switch>:<port>`, `<switch>:<neighbour>` (all parallel links) or `all`.
fn resolve_ports(
    spec: &ExperimentSpec,
    topology: &Topology,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<(SwitchIx, u16)>, ExperimentError> {
    let all =
        || topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |(port, _)| (ix, port)));
    let mut ports = BTreeSet::new();
    for (i, name) in spec.observe.ports.iter().enumerate() {
        let is_named = |&(ix, port): &(SwitchIx, u16)| {
            let Some((switch, end)) = name.split_once(':') else { return name == "all" };
            let neighbour = topology.peer(ix, port).map(|(_, peer)| topology.node_name(peer.node));
            topology.switch(ix).name == switch && (end == port.to_string() || Some(end) == neighbour)
        };
        ports.extend(all().filter(is_named));
        if !all().any(|port| is_named(&port)) {
            let why =
                format!("\"{name}\" is not a switch port, write it like s1:2, s1:s2 (by neighbour) or all");
            return Err(wrong(&format!("observe.ports[{i}]"), why));
        }
    }
    Ok(ports.into_iter().collect())
}

/// A port of the dynamic range (RFC 6335: 49152 to 65535).
fn entropy_port(random: u64) -> u16 {
    49_152 + (random % (65_536 - 49_152)) as u16
}

/// Messages of `size` at `load` of each host's link: from whom to whom, and when.
fn messages(
    topology: &Topology,
    stream: u64,
    size: Bytes,
    load: Ratio,
    within: Range<Time>,
) -> Vec<(HostIx, HostIx, Time)> {
    let span = within.end - within.start;
    let hosts = topology.hosts.len() as u64;
    let mut all = Vec::new();
    let mut drawn = 0u64;
    let mut draw = || {
        drawn += 1;
        mix(stream ^ drawn)
    };
    for from in topology.host_ixs() {
        let rate = topology.link(topology.host(from).link).rate;
        let count = (rate.bytes_in(span).as_f64() * load.get() / size.as_f64()) as usize;
        for _ in 0..count {
            let to = (u64::from(from.0) + 1 + draw() % (hosts - 1)) % hosts;
            all.push((from, HostIx(to as u32), within.start + Time::from_ps(draw() % span.as_ps())));
        }
    }
    all
}

/// A random cyclic order of `count` hosts, as successor of each: nobody sends to itself.
fn permutation(count: usize, seed: u64) -> Vec<usize> {
    let stream = stream_seed(seed, "permutation");
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, (mix(stream ^ i as u64) % (i as u64 + 1)) as usize);
    }
    let mut successor = vec![0; count];
    for (i, &host) in order.iter().enumerate() {
        successor[host] = order[(i + 1) % count];
    }
    successor
}

#[cfg(test)]
mod tests;
