//! Runs an experiment in Mininet, each scheme on a new fabric, as in virtual time.

use super::agents::AgentCommands;
use super::facts::{FabricFacts, FlowFacts, SchemeFacts, us};
use super::faults::Faults;
use super::mininet_process::{Frames, MininetProcess, PingMatrix, Signals};
use super::p4runtime::Controller;
use super::plan::{Plan, SwitchKind, TestbedConfig, full_frame, queue_depth, thrift_address};
use super::queue_sampler::{self, QueueSampler, QueueSamples};
use super::results::Measurements;
use p4runtime::p4::config::v1::Preamble;
use p4runtime::p4::v1::Update;
use p4runtime::p4info::{self, Index, Object};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;
use weir_client::{Program, ThriftClient, ThriftError, packets_per_second};
use weir_controller::{BaseRtt, Routes};
use weir_experiment::artifacts::Artifact;
use weir_experiment::backend::{Backend, Error, Observer, Progress, RunOutcome};
use weir_experiment::counts::{self, Counts, DROP_COUNTER, EVENT_COUNTER};
use weir_experiment::file::FaultSpec;
use weir_experiment::hosts::base_rtt;
use weir_experiment::paths;
use weir_experiment::plan::SwitchTables;
use weir_experiment::results::file_name;
use weir_experiment::results::{Results, SchemeSummary, SchemeTrace, Summary, digest};
use weir_experiment::{Experiment, Scheme};
use weir_host::wire::ETHERNET_LEN;
use weir_units::{Bytes, Time};

/// Period of the switches' clock: that of BMv2, and of the embedded switch on sockets.
const TICK: Time = Time::from_us(1);
/// Length of the IPv4 and ICMP headers of a ping.
const PING_HEADERS: u64 = 28;
/// Pings per pair; the minimum RTT is used.
const PINGS: u32 = 2;
/// Number of pairs of hosts whose RTT is measured without other traffic. Weir's choice: all of the longest paths are alike.
const MEASURED_PAIRS: usize = 4;
/// Pings for such a measurement. Weir's choice: the minimum of five is free of delays of the scheduler.
const PINGS_ALONE: u32 = 5;
/// Maximum number of pairs without a reply that an error message lists.
const MAX_LISTED_PAIRS: usize = 5;

/// The Mininet backend: hosts and switches are processes in namespaces, and time is real.
#[derive(Clone, Debug)]
pub struct Mininet {
    /// Kind of switch; `None`: BMv2 if it is installed.
    pub switch: Option<SwitchKind>,
    /// Run each embedded switch in its own process. BMv2 always has one process per switch.
    pub process_per_switch: bool,
    /// Run Mininet's command line before the traffic of the first scheme.
    pub cli: bool,
    /// Directory for captures of all ports, with a directory for each scheme; `None`: no captures.
    pub pcaps: Option<PathBuf>,
    /// File with the policy key; `None`: hosts do not take part in policies.
    pub policy_key: Option<PathBuf>,
    pub signals: Signals,
}

impl Backend for Mininet {
    fn check(&self, experiment: &Experiment) -> Result<(), Error> {
        let spec = &experiment.spec;
        if !spec.queues.is_empty() {
            return Err(Error::input(
                "queues: BMv2 serves queues by priority, not by weight; use virtual time",
            ));
        }
        if spec.nic.is_some() {
            return Err(Error::input(
                "nic: hosts in Mininet have the delays of this machine, and no model of a NIC; remove the key or use \
                 virtual time",
            ));
        }
        if !spec.faults.iter().all(FaultSpec::is_link_fault)
            || spec.policy.as_ref().is_some_and(|policy| !policy.set.is_empty() || !policy.tune.is_empty())
        {
            return Err(Error::input(
                "faults that change routes, restart switches or attack, and `set` and `tune` of `policy`, are for virtual time; in \
                 Mininet `weir policy set` sets policies",
            ));
        }
        experiment.schemes.iter().try_for_each(|scheme| {
            let p4info = experiment.artifact_of(scheme).index().map_err(Error::Work)?;
            tables(experiment, scheme, &p4info).map(|_| ())
        })
    }

    /// Runs an experiment whose rates and times are already slowed down to what software switches can carry.
    fn run(&self, experiment: &Experiment, observer: &mut dyn Observer) -> Result<RunOutcome, Error> {
        let started_at = Instant::now();
        self.check(experiment)?;
        let switch = self.switch.unwrap_or_else(SwitchKind::installed);
        let exe = switch.program().map_err(Error::input)?;
        let mut mininet = MininetProcess::start(self.signals)?;
        let mut testbed = Testbed {
            experiment,
            routes: experiment.routes(),
            config: TestbedConfig { switch, process_per_switch: self.process_per_switch, exe, pcaps: None },
            policy_key: self.policy_key.as_deref(),
            sample_interval: queue_sampler::sample_interval(
                experiment.spec.observe.interval,
                experiment.topology.switches.len(),
            ),
        };
        let mut results =
            Results { summary: empty_summary(experiment), traces: BTreeMap::new(), order: Vec::new() };
        let (mut facts, mut failure) = (testbed.facts(), None);
        for (index, scheme) in experiment.schemes.iter().enumerate() {
            let cli = self.cli && index == 0;
            let dir = |dir| create_capture_dir(dir, &file_name(&scheme.label));
            testbed.config.pcaps = self.pcaps.as_deref().map(dir).transpose()?;
            match testbed.run_scheme(&mut mininet, index, cli, observer) {
                Ok(outcome) => outcome.add_to(&scheme.label, &mut results, &mut facts),
                Err(error) => failure = Some(error),
            }
            if (self.signals.is_cancelled)() || failure.is_some() {
                results.summary.partial = true;
                break;
            }
        }
        drop(mininet);
        let summary = &mut results.summary;
        summary.wall_s = started_at.elapsed().as_secs_f64();
        summary.digest = digest(&summary.schemes);
        if results.order.is_empty()
            && let Some(error) = failure
        {
            return Err(error);
        }
        Ok(RunOutcome { results, fabric: Some(facts.fabric()), failure })
    }
}

/// Creates the directory for the captures of a scheme.
fn create_capture_dir(dir: &Path, name: &str) -> Result<PathBuf, Error> {
    let dir = dir.join(name);
    std::fs::create_dir_all(&dir).map_err(|error| Error::Work(format!("{}: {error}", dir.display())))?;
    Ok(dir)
}

/// Returns the updates for every switch in the run of `scheme`.
fn tables(
    experiment: &Experiment,
    scheme: &Scheme,
    p4info: &Index,
) -> Result<BTreeMap<String, Vec<Update>>, Error> {
    let base_rtt = base_rtt(experiment, experiment.routes());
    SwitchTables::new(experiment, scheme, experiment.routes(), base_rtt, TICK, p4info)?.all_updates()
}

fn empty_summary(experiment: &Experiment) -> Summary {
    Summary {
        experiment: experiment.spec.name.clone(),
        program: None,
        backend: "mininet".to_owned(),
        seed: experiment.spec.seed,
        digest: String::new(),
        virtual_s: 0.0,
        wall_s: 0.0,
        packet_hops: 0,
        partial: false,
        schemes: BTreeMap::new(),
    }
}

/// Results of one scheme's run.
struct SchemeOutcome {
    summary: SchemeSummary,
    trace: SchemeTrace,
    facts: SchemeFacts,
    packet_hops: u64,
}

impl SchemeOutcome {
    /// Adds the outcome to the results of the run.
    fn add_to(self, label: &str, results: &mut Results, facts: &mut FabricFacts) {
        let summary = &mut results.summary;
        summary.virtual_s += self.trace.end.as_secs_f64();
        summary.packet_hops += self.packet_hops;
        summary.schemes.insert(label.to_owned(), self.summary);
        results.traces.insert(label.to_owned(), self.trace);
        results.order.push(label.to_owned());
        facts.schemes.insert(label.to_owned(), self.facts);
    }
}

/// The inputs from which the fabric of each scheme is built.
struct Testbed<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    config: TestbedConfig,
    policy_key: Option<&'e Path>,
    sample_interval: Time,
}

impl Testbed<'_> {
    fn facts(&self) -> FabricFacts {
        FabricFacts {
            switch: self.config.switch,
            switch_processes: if self.config.one_process() {
                1
            } else {
                self.experiment.topology.switches.len()
            },
            slowdown: self.experiment.scale.slowdown(),
            host_rate_bps: self.experiment.host_rate().as_bps(),
            sample_us: us(self.sample_interval),
            schemes: BTreeMap::new(),
        }
    }

    fn run_scheme(
        &mut self,
        mininet: &mut MininetProcess,
        index: usize,
        cli: bool,
        observer: &mut dyn Observer,
    ) -> Result<SchemeOutcome, Error> {
        let (experiment, work_dir) = (self.experiment, mininet.work_dir().to_owned());
        let scheme = &experiment.schemes[index];
        mininet.up(&Plan::new(experiment, scheme, &self.config, &work_dir).map_err(Error::Work)?)?;
        let artifact = experiment.artifact_of(scheme);
        let p4info = artifact.index().map_err(Error::Work)?;
        let controller = Controller::new(&experiment.topology)?;
        self.install(&controller, scheme, &artifact, &p4info)?;
        if self.config.switch == SwitchKind::Bmv2 {
            self.set_queues(scheme)?;
        }
        let pings = self.ping(mininet)?;
        if cli {
            let topology = work_dir.join("experiment.yaml");
            std::fs::write(&topology, experiment.resolved_yaml())?;
            mininet.cli(&topology)?;
        }
        let base_rtt = experiment.spec.transport.base_rtt.unwrap_or(pings.base_rtt);
        let agents = AgentCommands::prepare(
            experiment,
            scheme,
            base_rtt,
            self.sample_interval,
            &work_dir,
            self.policy_key,
        )?;
        // The interface and link counters also count the pings, so these values are subtracted below.
        let frames_before = mininet.packets()?;
        let link_drops_before = mininet.link_drops()?;
        // Programs of users may lack the register; then queues are not observed.
        let register = p4info
            .registers
            .named(queue_sampler::QUEUE_REGISTER)
            .ok()
            .map(|register| register.preamble().clone());
        let samples = self.traffic(mininet, &agents, register, index, observer)?;
        let frames_after = mininet.packets()?;
        let mut counts = collect_counts(&controller, &p4info, &frames_before, &frames_after)?;
        for (reason, frames) in mininet.link_drops()? {
            let dropped = frames.saturating_sub(link_drops_before.get(&reason).copied().unwrap_or(0));
            if dropped > 0 {
                *counts.drops.entry(reason).or_default() += dropped;
            }
        }
        mininet.down()?;
        let agent_results = agents.read_results()?;
        let rx_packets = |all| sum_frames(all, |frames: &Frames| frames.rx_packets);
        let packet_hops = rx_packets(&frames_after) - rx_packets(&frames_before);
        let measurements = Measurements {
            experiment,
            routes: self.routes,
            agents: &agent_results,
            samples: &samples,
            counts,
            quantities: experiment.sender_quantities(scheme),
            sample_interval: self.sample_interval,
            base_rtt,
        };
        let facts = self.scheme_facts(&measurements, &pings, base_rtt);
        let (summary, trace) = measurements.results();
        Ok(SchemeOutcome { summary, trace, facts, packet_hops })
    }

    /// Loads the program and the controller's plan over P4Runtime.
    fn install(
        &self,
        controller: &Controller,
        scheme: &Scheme,
        artifact: &Artifact,
        p4info: &Index,
    ) -> Result<(), Error> {
        let updates = tables(self.experiment, scheme, p4info)?;
        let p4info = p4info::parse(&artifact.p4info).map_err(Error::work)?;
        let program = Program::new(p4info, artifact.json.as_bytes().to_vec()).map_err(Error::work)?;
        controller.install(program, updates)
    }

    /// Sets queue limits and rates of BMv2 ports. BMv2 limits packets per second; this is the number at which full
    /// frames fill the link, and the link emulator later adapts it to the sizes of the queued packets.
    fn set_queues(&self, scheme: &Scheme) -> Result<(), Error> {
        let topology = &self.experiment.topology;
        let frame = full_frame(self.experiment.spec.mtu, scheme);
        for ix in topology.switch_ixs() {
            let name = &topology.switch(ix).name;
            let failed = |error: ThriftError| Error::Work(format!("{name}: {error}"));
            let mut client = ThriftClient::connect(&thrift_address(ix)).map_err(failed)?;
            client.set_queue_depth(queue_depth(self.experiment)).map_err(failed)?;
            for (port, link) in topology.switch(ix).ports() {
                client
                    .set_queue_rate(port, packets_per_second(topology.link(link).rate, frame))
                    .map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Pings all pairs of hosts with full frames, to check connectivity and to measure RTTs.
    fn ping(&self, mininet: &mut MininetProcess) -> Result<Pings, Error> {
        let (topology, mtu) = (&self.experiment.topology, self.experiment.spec.mtu);
        let model = BaseRtt::new(topology, self.routes, mtu);
        // The reply of a ping is as long as the request, whereas an ACK is short: the time to serialise the reply,
        // which is that of the request, is not part of the base RTT.
        let propagation = BaseRtt::new(topology, self.routes, Bytes::ZERO);
        let serialisation =
            |from, to| model.pair(topology, from, to).saturating_sub(propagation.pair(topology, from, to));
        let all_pairs = || topology.host_ixs().flat_map(|from| topology.host_ixs().map(move |to| (from, to)));
        let pairs = || all_pairs().filter(|(from, to)| from != to);
        let model_rtt = model.max(topology);
        let payload = mtu.get().saturating_sub(ETHERNET_LEN as u64 + PING_HEADERS);
        let wait_s = 2 + 2 * model_rtt.as_secs_f64() as u64;
        let matrix = mininet.ping(payload, PINGS, wait_s)?;
        check_replies(&matrix)?;
        let name = |ix| topology.host(ix).name.as_str();
        let time = |ms: f64| Time::from_secs_f64(ms * 1e-3);
        let rtt = |from, to| time(matrix[name(from)][name(to)].unwrap_or_default());
        let max_rtt = pairs().map(|(from, to)| rtt(from, to)).max().unwrap_or_default();
        // Pings of all hosts at once wait for each other, which would make T too long (by 10 % on a fat-tree with k = 4). The
        // pairs that seemed farthest are therefore measured again, one at a time.
        let mut farthest: Vec<_> = pairs().collect();
        farthest.sort_by_key(|&(from, to)| {
            Reverse((model.pair(topology, from, to), rtt(from, to).saturating_sub(serialisation(from, to))))
        });
        farthest.truncate(MEASURED_PAIRS);
        let names: Vec<_> = farthest.iter().map(|&(from, to)| (name(from), name(to))).collect();
        let alone = mininet.ping_alone(&names, payload, PINGS_ALONE, wait_s)?;
        let measured = farthest
            .iter()
            .zip(alone)
            .map(|(&(from, to), ms)| ms.map_or(Time::ZERO, time).saturating_sub(serialisation(from, to)));
        let base_rtt = measured.max().unwrap_or_default().max(model_rtt);
        Ok(Pings { pairs: pairs().count(), max_rtt, model_rtt, base_rtt })
    }

    /// Runs the agents, and meanwhile samples queues, applies faults and reports progress.
    fn traffic(
        &self,
        mininet: &mut MininetProcess,
        agents: &AgentCommands,
        register: Option<Preamble>,
        index: usize,
        observer: &mut dyn Observer,
    ) -> Result<QueueSamples, Error> {
        let (topology, end) = (&self.experiment.topology, self.experiment.spec.duration);
        // Set by the callbacks below.
        let (sampler, faults) = (RefCell::new(None), RefCell::new(None));
        let started_at = RefCell::new(0.0);
        let exits = mininet.run(
            &agents.by_host,
            |start| {
                *started_at.borrow_mut() = start;
                *faults.borrow_mut() = Some(Faults::start(self.experiment, start));
                *sampler.borrow_mut() = register.as_ref().map(|register| {
                    QueueSampler::start(topology, (&self.config, register), start, self.sample_interval, end)
                });
            },
            || {
                let now = Time::from_secs_f64(queue_sampler::monotonic() - *started_at.borrow()).min(end);
                let scheme = &self.experiment.schemes[index].label;
                let scheme_count = self.experiment.schemes.len();
                // A request of the observer to stop is ignored: Ctrl-C reaches the agents themselves, which end and
                // write the results so far.
                let _ =
                    observer.progress(&Progress { scheme, index, scheme_count, now, end, packet_hops: 0 });
            },
        )?;
        let samples = sampler.into_inner().transpose()?.map(QueueSampler::finish).transpose()?;
        faults.into_inner().transpose()?.map(Faults::finish).transpose()?;
        // Status 1: a flow did not finish in time, which the results show; 130: interrupted.
        match exits.iter().find(|(_, exit)| ![0, 1, 130].contains(&exit.status)) {
            Some((host, exit)) => Err(Error::Work(format!("the agent of {host} {exit}"))),
            None => Ok(samples.unwrap_or_default()),
        }
    }

    fn scheme_facts(&self, measurements: &Measurements<'_>, pings: &Pings, base_rtt: Time) -> SchemeFacts {
        let topology = &self.experiment.topology;
        let flows = measurements.started().map(|(flow, result)| {
            let planned =
                paths::data_path(self.experiment, self.routes, flow).map(|path| path.path_id(topology));
            let all_planned = |paths: &[weir_agent::results::PathResult]| {
                paths.iter().all(|path| Some(path.path_id) == planned)
            };
            FlowFacts {
                flow: flow.name.clone(),
                planned_path: planned,
                data_paths: result.data_paths.clone(),
                ack_paths: result.ack_paths.clone(),
                same_path: all_planned(&result.data_paths) && all_planned(&result.ack_paths),
                rtt: result.rtt,
            }
        });
        SchemeFacts {
            pairs: pings.pairs,
            ping_rtt_us: us(pings.max_rtt),
            model_rtt_us: us(pings.model_rtt),
            base_rtt_us: us(base_rtt),
            flows: flows.collect(),
            samples: measurements.samples.is_repeated.len(),
            repeated_samples: measurements.samples.repeated(),
            exact_peaks: measurements.samples.has_exact_peaks,
            max_sample_gap_us: us(measurements.samples.max_gap),
            lateness: measurements
                .agents
                .iter()
                .map(|(host, agent)| (host.clone(), agent.lateness))
                .collect(),
        }
    }
}

/// Results of the pings.
struct Pings {
    /// Number of pairs of hosts.
    pairs: usize,
    /// Maximum over the pairs of the minimum RTT.
    max_rtt: Time,
    /// Maximum base RTT of all pairs, computed from the topology.
    model_rtt: Time,
    /// Maximum of `model_rtt` and the measured RTTs, corrected for the length of the replies.
    base_rtt: Time,
}

/// Checks that every pair of hosts got a reply to a ping.
fn check_replies(matrix: &PingMatrix) -> Result<(), Error> {
    let pairs = || matrix.iter().flat_map(|(from, row)| row.iter().map(move |(to, rtt)| (from, to, rtt)));
    let unreachable: Vec<String> =
        pairs().filter(|(.., rtt)| rtt.is_none()).map(|(from, to, _)| format!("{from} to {to}")).collect();
    match unreachable.len() {
        0 => Ok(()),
        count => Err(Error::Work(format!(
            "{count} of {} pairs of hosts got no reply to a ping: {}{}",
            pairs().count(),
            unreachable[..count.min(MAX_LISTED_PAIRS)].join(", "),
            if count > MAX_LISTED_PAIRS { ", .." } else { "" }
        ))),
    }
}

/// Returns the sum of a counter over all interfaces.
fn sum_frames(all: &BTreeMap<String, Frames>, counter: impl Fn(&Frames) -> u64) -> u64 {
    all.values().map(counter).sum()
}

/// Returns the P4 counters of all switches, and the frames dropped by interfaces.
fn collect_counts(
    controller: &Controller,
    p4info: &Index,
    before: &BTreeMap<String, Frames>,
    after: &BTreeMap<String, Frames>,
) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    // Programs of users may lack these counters.
    let cells = |name: &str| match p4info.counters.named(name) {
        Ok(counter) => controller.counters(counter.preamble().id),
        Err(_) => Ok(BTreeMap::new()),
    };
    let (drops, events) = (cells(DROP_COUNTER)?, cells(EVENT_COUNTER)?);
    for switch in drops.keys() {
        counts::add_p4_counters(&mut counts, |counter, index| {
            let cells = if counter == DROP_COUNTER { &drops } else { &events };
            cells.get(switch).and_then(|cells| cells.get(index as usize)).copied().unwrap_or(0)
        });
    }
    let tx_dropped = |all| sum_frames(all, |frames: &Frames| frames.tx_dropped);
    let dropped = tx_dropped(after).saturating_sub(tx_dropped(before));
    if dropped > 0 {
        counts.drops.insert("interface".to_owned(), dropped);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_units::Bandwidth;

    #[test]
    fn the_packet_rate_of_bmv2_fills_the_link() {
        let mtu = Bytes::new(1_518);
        let rate = Bandwidth::from_mbps(10);
        let file = include_str!("../../../experiments/quickstart.yaml");
        let experiment = Experiment::parse(file, "quickstart.yaml", "quickstart", &[], None).unwrap();
        let frames: Vec<_> = experiment.schemes.iter().map(|scheme| full_frame(mtu, scheme)).collect();
        assert_eq!(frames, [Bytes::new(1_518), Bytes::new(1_462)], "fncc, hpcc");
        assert_eq!(packets_per_second(rate, mtu), 823);
        assert_eq!(packets_per_second(Bandwidth::from_bps(1), mtu), 1, "0 would mean unlimited");
    }

    #[test]
    fn pairs_without_reply_are_named() {
        let row = |rtt| BTreeMap::from([("h2".to_owned(), rtt), ("h3".to_owned(), Some(1.0))]);
        assert!(check_replies(&BTreeMap::from([("h1".to_owned(), row(Some(0.5)))])).is_ok());
        let Err(Error::Work(reason)) = check_replies(&BTreeMap::from([("h1".to_owned(), row(None))])) else {
            panic!("a pair has no reply")
        };
        assert_eq!(reason, "1 of 2 pairs of hosts got no reply to a ping: h1 to h2");
    }
}
