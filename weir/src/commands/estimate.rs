//! Estimates packet-hops, wall-clock time and memory of a run, for `weir run --check`.

use super::linux::memory_bytes;
use super::threads::Parallelism;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use weir_controller::hash::PathHash;
use weir_controller::topology::HostIx;
use weir_experiment::backend::Error;
use weir_experiment::classes::{class_of, ranges};
use weir_experiment::{Experiment, Observer, Progress};
use weir_report::format::{decimal, size_range};
use weir_report::page::ENOUGH_FOR_P99;
use weir_sim::Simulation;
use weir_switch::program::Engine;
use weir_units::{Bytes, Time};

/// Maximum number of flows that are examined. Later flows are assumed to be like these.
const MAX_FLOWS: u64 = 2_000_000;
/// Duration of the trial run of the first scheme, which measures the speed of this machine.
const TRIAL_DURATION: Duration = Duration::from_millis(50);
/// Time limit of the trial run while no packet moves. Longer than [`TRIAL_DURATION`], because the first flow may
/// start late.
const IDLE_TRIAL_TIMEOUT: Duration = Duration::from_millis(500);
/// Bytes of the Ethernet, IPv4, UDP and Weir headers, and of the telemetry records of a path of three switches.
const HEADER_BYTES: u64 = 90;
/// Memory in bytes of a finished flow in the results, and of one sample of a port or a flow.
const FLOW_BYTES: f64 = 200.0;
const SAMPLE_BYTES: f64 = 16.0;
/// Memory in bytes of an unfinished flow, in both hosts and the tables of the run. Measured with 1 million flows of 1
/// B.
const ACTIVE_FLOW_BYTES: f64 = 1_500.0;
/// Share of a link's capacity that congestion control uses while there is something to send.
const BUSY_UTILISATION: f64 = 0.95;

/// The cost of a run.
#[derive(Clone, Debug)]
pub(super) struct Estimate {
    /// Number of switches on the path, summed over all packets of all schemes except policy packets.
    pub packet_hops: f64,
    /// Number of flows with a size, for one scheme; `None` if the file lists all flows.
    pub flows: Option<f64>,
    /// The same for each class of `observe.size_classes`; empty without classes, and in closed loops, in which the sizes of
    /// later flows are not known.
    pub flows_by_class: Vec<f64>,
    /// The upper bounds of the classes.
    size_classes: Vec<Bytes>,
    /// True if the values are upper bounds, because flows start when others end and links may be idle.
    pub is_upper_bound: bool,
    /// Wall-clock time; `None` if it exceeds the range of `Duration`.
    pub wall_time: Option<Duration>,
    /// Peak resident memory in bytes; `None` where the system does not report the memory of a process.
    pub memory_bytes: Option<f64>,
}

impl Estimate {
    /// Estimates the cost of `experiment`.
    ///
    /// Packet-hops are computed from the flows, their paths and the rates of their hosts' links, assuming that no
    /// packet is lost and that schemes keep links busy. The speed is measured at the start of the first scheme.
    ///
    /// # Errors
    ///
    /// If the first scheme cannot run.
    pub(super) fn for_experiment(
        experiment: &Experiment,
        Parallelism { threads, jobs }: Parallelism,
        engine: Engine,
    ) -> Result<Estimate, Error> {
        let schemes = experiment.schemes.len();
        let jobs = jobs.clamp(1, schemes.max(1));
        let traffic = Traffic::from_experiment(experiment);
        let Total { packet_hops, flows, sized_flows, unfinished_flows, by_class } = traffic.total();
        let memory_before = memory_bytes("VmRSS:");
        let mut probe = SpeedProbe::default();
        let start = Instant::now();
        let run = weir_sim::run_on(experiment, &Simulation { engine, ..Simulation::new(1) }, &mut probe)?;
        let trial_seconds = start.elapsed().as_secs_f64();
        let memory_after = memory_bytes("VmRSS:");
        let is_complete = !run.summary.partial;
        let packet_hops =
            if is_complete { run.summary.packet_hops as f64 } else { packet_hops * schemes as f64 };
        // Seconds on one thread.
        let seconds = match probe.packet_hops_per_second {
            _ if is_complete => trial_seconds,
            Some(speed) => packet_hops / speed,
            // No packet moved: assume that the rest of the run is as fast, relative to virtual time, as the trial.
            None => trial_seconds * schemes as f64 * probe.trials_per_scheme(experiment.spec.duration),
        };
        // A port has one series, a flow two and one for each quantity of its sender.
        let per_flow = 2 + experiment.spec.observe.sender.len();
        let series = (experiment.observed_ports.len() + per_flow * experiment.recorded_flow_count()) as f64;
        let samples = experiment.spec.duration / experiment.spec.observe.interval;
        let result_bytes = schemes as f64 * (flows * FLOW_BYTES + series * samples as f64 * SAMPLE_BYTES);
        let memory_bytes = memory_before.zip(memory_after).map(|(before, after)| {
            let scheme_bytes = after.saturating_sub(before) as f64 + unfinished_flows * ACTIVE_FLOW_BYTES;
            before as f64 + scheme_bytes * jobs as f64 + result_bytes
        });
        Ok(Estimate {
            packet_hops,
            flows: experiment.has_dynamic_flows().then_some(sized_flows),
            flows_by_class: by_class,
            size_classes: experiment.spec.observe.size_classes.clone(),
            is_upper_bound: traffic.has_closed_loop && !is_complete,
            // `None` if the estimate exceeds the range of `Duration`.
            wall_time: Duration::try_from_secs_f64(seconds / threads.max(1) as f64).ok(),
            memory_bytes,
        })
    }
}

/// Formats the estimate as `about 3.1 million packet-hops, 4 s, 60 MB`, with `at most` for an upper bound.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.is_upper_bound { "at most" } else { "about" };
        match self.packet_hops {
            hops if hops < 1e3 => write!(f, "{about} {hops:.0} packet-hops")?,
            hops if hops < 1e5 => write!(f, "{about} {:.0} thousand packet-hops", hops / 1e3)?,
            hops => write!(f, "{about} {:.1} million packet-hops", hops / 1e6)?,
        }
        match self.wall_time {
            Some(time) if time.as_secs() >= 48 * 3600 => {
                write!(f, ", {:.0} days", time.as_secs_f64() / (24.0 * 3600.0))?;
            }
            Some(time) if time.as_secs() >= 120 => write!(f, ", {:.0} min", time.as_secs_f64() / 60.0)?,
            Some(time) if time.as_secs() >= 1 => write!(f, ", {:.0} s", time.as_secs_f64())?,
            Some(_) => write!(f, ", less than a second")?,
            None => {}
        }
        self.memory_bytes.map_or(Ok(()), |bytes| write!(f, ", {:.0} MB", bytes / 1e6))?;
        let Some(flows) = self.flows.filter(|flows| *flows >= 0.5) else { return Ok(()) };
        let word = if flows < 1.5 { "flow" } else { "flows" };
        write!(f, "; {about} {} {word}", decimal(flows, 0))?;
        let classes = ranges(&self.size_classes).zip(&self.flows_by_class);
        let classes: Vec<String> = classes
            .map(|((over, upto), &flows)| {
                format!("{}: {}", size_range(over.get(), upto.map(Bytes::get)), decimal(flows, 0))
            })
            .collect();
        if !classes.is_empty() {
            write!(f, " ({})", classes.join(", "))?;
        }
        let is_few = |flows: f64| flows < ENOUGH_FOR_P99 as f64;
        match self.flows_by_class.iter().any(|&flows| is_few(flows)) {
            _ if is_few(flows) => write!(f, ", few for a p99 ({ENOUGH_FOR_P99} or more are better)"),
            true => write!(f, ", few in a class for its p99 ({ENOUGH_FOR_P99} or more are better)"),
            false => Ok(()),
        }
    }
}

/// Payload bytes of a full packet.
fn payload(experiment: &Experiment) -> f64 {
    experiment.spec.mtu.get().saturating_sub(HEADER_BYTES).max(1) as f64
}

/// Number of flows, their packets, and their bytes with headers.
#[derive(Clone, Copy, Debug, Default)]
struct Demand {
    flows: f64,
    packets: f64,
    bytes: f64,
}

impl Demand {
    fn add(&mut self, other: Demand) {
        self.flows += other.flows;
        self.packets += other.packets;
        self.bytes += other.bytes;
    }
}

/// The demand on one direction of a host's link.
#[derive(Clone, Copy, Debug)]
struct AccessLink {
    bytes: f64,
    /// Start of the first flow; `Time::MAX` without flows.
    first_start: Time,
}

impl Default for AccessLink {
    fn default() -> AccessLink {
        AccessLink { bytes: 0.0, first_start: Time::MAX }
    }
}

impl AccessLink {
    fn add(&mut self, bytes: f64, start: Time) {
        self.bytes += bytes;
        self.first_start = self.first_start.min(start);
    }
}

/// Indices of a host's two directions in [`Traffic::access_links`].
const SENDER: usize = 0;
const RECEIVER: usize = 1;

/// The traffic of an experiment's flows, for one scheme.
struct Traffic<'e> {
    experiment: &'e Experiment,
    /// By sender and receiver. Ordered, because the sum of floating-point numbers depends on the order.
    pairs: BTreeMap<(HostIx, HostIx), Demand>,
    /// The link of each host, indexed by [`SENDER`] and [`RECEIVER`].
    access_links: HashMap<HostIx, [AccessLink; 2]>,
    /// The initial flows of closed-loop workloads, in which a flow starts when an earlier one ends.
    closed_loop: Demand,
    /// Number of flows with a size.
    sized_flows: f64,
    /// The same for each class of `observe.size_classes`; empty without classes.
    by_class: Vec<f64>,
    has_closed_loop: bool,
    /// Flows that start before this time were examined.
    examined_until: Time,
}

/// The cost of one scheme.
struct Total {
    packet_hops: f64,
    flows: f64,
    sized_flows: f64,
    /// See [`Estimate::flows_by_class`].
    by_class: Vec<f64>,
    /// Flows that cannot finish, because the hosts' links lack the capacity.
    unfinished_flows: f64,
}

impl<'e> Traffic<'e> {
    fn from_experiment(experiment: &'e Experiment) -> Traffic<'e> {
        let end = experiment.spec.duration;
        let mut feed = experiment.flow_feed();
        let bounds = experiment.spec.observe.size_classes.len();
        let classes = if bounds > 0 { vec![0.0; bounds + 1] } else { Vec::new() };
        let mut traffic = Traffic {
            experiment,
            pairs: BTreeMap::new(),
            access_links: HashMap::new(),
            closed_loop: Demand::default(),
            sized_flows: 0.0,
            by_class: classes,
            has_closed_loop: feed.is_closed_loop(),
            examined_until: end,
        };
        for flow in &experiment.flows {
            let stop = flow.stop.unwrap_or(end).min(end);
            traffic.add((flow.from, flow.to), flow.start..stop, flow.size);
        }
        let mut flows = experiment.flows.len() as u64;
        while let Some(start) = feed.next_start().filter(|&start| start < end) {
            flows += 1;
            if flows > MAX_FLOWS {
                // Not zero, because the totals are divided by this time.
                traffic.examined_until = start.max(Time::from_ps(1));
                break;
            }
            let Some((source, flow, _)) = feed.pop_due(start) else { break };
            let demand = traffic.add((flow.from, flow.to), flow.start..end, Some(flow.size));
            if feed.is_source_closed_loop(source) {
                traffic.closed_loop.add(demand);
            }
        }
        traffic
    }

    /// Adds a flow that is active in the time span `active`, and returns its demand.
    fn add(&mut self, (from, to): (HostIx, HostIx), active: Range<Time>, size: Option<Bytes>) -> Demand {
        let payload = payload(self.experiment);
        let duration = active.end.saturating_sub(active.start);
        let capacity = self.capacity(from, duration).min(self.capacity(to, duration));
        let max_payload = (capacity * payload / (payload + HEADER_BYTES as f64)).max(1.0);
        let sent = size.map_or(max_payload, |size| size.as_f64().min(max_payload));
        let packets = (sent / payload).ceil();
        let demand = Demand { flows: 1.0, packets, bytes: sent + packets * HEADER_BYTES as f64 };
        self.sized_flows += f64::from(u8::from(size.is_some()));
        let class = size.map(|size| class_of(size, &self.experiment.spec.observe.size_classes));
        if let Some(flows) = class.and_then(|class| self.by_class.get_mut(class)) {
            *flows += 1.0;
        }
        self.pairs.entry((from, to)).or_default().add(demand);
        for (host, direction) in [(from, SENDER), (to, RECEIVER)] {
            self.access_links.entry(host).or_default()[direction].add(demand.bytes, active.start);
        }
        demand
    }

    /// Returns the number of bytes that a host's link carries in a time span of this duration.
    fn capacity(&self, host: HostIx, duration: Time) -> f64 {
        let topology = &self.experiment.topology;
        topology.link(topology.host(host).link).rate.bytes_in(duration).as_f64() * BUSY_UTILISATION
    }

    /// Returns the share of the host's traffic that its link can carry, at most 1.
    fn share(&self, host: HostIx, direction: usize) -> f64 {
        let AccessLink { bytes, first_start } =
            self.access_links.get(&host).map(|links| links[direction]).unwrap_or_default();
        let capacity = self.capacity(host, self.examined_until.saturating_sub(first_start));
        if bytes > capacity { capacity / bytes } else { 1.0 }
    }

    fn total(&self) -> Total {
        let mut hop_counts = HopCounts { experiment: self.experiment, cache: HashMap::new() };
        let mut total = Total {
            packet_hops: 0.0,
            flows: 0.0,
            sized_flows: self.sized_flows,
            by_class: if self.has_closed_loop { Vec::new() } else { self.by_class.clone() },
            unfinished_flows: 0.0,
        };
        for (&(from, to), demand) in &self.pairs {
            let share = self.share(from, SENDER).min(self.share(to, RECEIVER));
            total.packet_hops += demand.packets * share * hop_counts.between(from, to);
            total.flows += demand.flows;
            total.unfinished_flows += demand.flows * (1.0 - share);
        }
        // Extrapolate to the flows that were not examined.
        let examined_share = self.examined_until.as_secs_f64() / self.experiment.spec.duration.as_secs_f64();
        for sum in
            [&mut total.packet_hops, &mut total.flows, &mut total.sized_flows, &mut total.unfinished_flows]
                .into_iter()
                .chain(&mut total.by_class)
        {
            *sum /= examined_share.max(f64::MIN_POSITIVE);
        }
        if self.has_closed_loop {
            let (packets, packet_hops) = self.closed_loop_total(&mut hop_counts);
            total.packet_hops += packet_hops;
            let flows = packets * self.closed_loop.flows / self.closed_loop.packets.max(1.0);
            total.flows += flows;
            total.sized_flows += flows;
        }
        total
    }

    /// Returns packets and packet-hops if closed-loop workloads keep their hosts' links busy.
    fn closed_loop_total(&self, hop_counts: &mut HopCounts<'_>) -> (f64, f64) {
        let frame_bytes = self.closed_loop.bytes / self.closed_loop.packets.max(1.0);
        let hosts: Vec<HostIx> = self.experiment.topology.host_ixs().collect();
        let (mut packets, mut packet_hops) = (0.0, 0.0);
        for (i, &from) in hosts.iter().enumerate() {
            // A peer in the other half of the fabric, so that paths have about the maximum length.
            let to = hosts[(i + hosts.len() / 2) % hosts.len()];
            let sent =
                self.capacity(from, self.experiment.spec.duration) / frame_bytes.max(HEADER_BYTES as f64);
            packets += sent;
            packet_hops += sent * hop_counts.between(from, to);
        }
        (packets, packet_hops)
    }
}

/// Packet-hops per data packet between two hosts, including the hops of its share of an ACK.
struct HopCounts<'e> {
    experiment: &'e Experiment,
    cache: HashMap<(HostIx, HostIx), f64>,
}

impl HopCounts<'_> {
    fn between(&mut self, from: HostIx, to: HostIx) -> f64 {
        let experiment = self.experiment;
        *self.cache.entry((from, to)).or_insert_with(|| {
            let path = experiment.routes().path(&experiment.topology, from, to, PathHash(1));
            let acks = 1.0 / f64::from(experiment.spec.transport.ack_every);
            path.map_or(0.0, |path| path.hops.len() as f64 * (1.0 + acks))
        })
    }
}

/// Observer of the trial run: measures the speed of the first scheme, then stops the run.
#[derive(Default)]
struct SpeedProbe {
    /// Time of the first observation.
    start: Option<Instant>,
    /// The last observation before packets moved: its time, and the packet-hops so far.
    idle: Option<(Instant, u64)>,
    /// Speed since then.
    packet_hops_per_second: Option<f64>,
    /// Virtual time of the first scheme; its end if the scheme has finished.
    now: Time,
}

impl SpeedProbe {
    /// Returns the duration of the first scheme as a multiple of its trial's duration.
    fn trials_per_scheme(&self, end: Time) -> f64 {
        end.as_secs_f64() / self.now.max(Time::from_ps(1)).as_secs_f64()
    }
}

impl Observer for SpeedProbe {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        if progress.index > 0 {
            self.now = progress.end;
            return ControlFlow::Break(());
        }
        let now = Instant::now();
        let start = *self.start.get_or_insert(now);
        self.now = progress.now;
        let (idle_time, idle_hops) = match self.idle {
            Some((time, hops)) if progress.packet_hops > hops => (time, hops),
            _ => {
                self.idle = Some((now, progress.packet_hops));
                let is_over = now.duration_since(start) >= IDLE_TRIAL_TIMEOUT;
                return if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
            }
        };
        let elapsed = now.duration_since(idle_time);
        self.packet_hops_per_second =
            Some((progress.packet_hops - idle_hops) as f64 / elapsed.as_secs_f64().max(1e-6));
        if elapsed < TRIAL_DURATION { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(text: &str) -> (Experiment, Estimate) {
        let experiment =
            Experiment::parse(text, "x.yaml", "x", &[], None).unwrap_or_else(|error| panic!("{error}"));
        let estimate =
            Estimate::for_experiment(&experiment, Parallelism { threads: 1, jobs: 1 }, Engine::default())
                .unwrap();
        (experiment, estimate)
    }

    /// Returns the packet-hops by the formula, which is not used if the trial completes the run, and those of a run.
    fn estimated_and_counted(text: &str) -> (f64, f64) {
        let (experiment, _) = estimate(text);
        let estimated =
            Traffic::from_experiment(&experiment).total().packet_hops * experiment.schemes.len() as f64;
        (estimated, weir_sim::run(&experiment, &mut ()).unwrap().summary.packet_hops as f64)
    }

    #[test]
    fn packet_hops_are_estimated_within_a_third() {
        for traffic in [
            "flows: [{from: h1, to: h3}, {from: h2, to: h3, start: 300us}]",
            "flows: [{from: h1, to: h3, size: 2MB}, {from: h3, to: h2, size: 1MB}]",
            "workload: {kind: poisson, sizes: 100KB, load: 50%}",
            "workload: {kind: back-to-back, sizes: 100KB, from: h1-h2, to: h3-h4}",
        ] {
            let (estimated, counted) = estimated_and_counted(&format!(
                "topology: {{kind: dumbbell, switches: 3, senders: 2, receivers: 2}}\n\
                 schemes: [hpcc, dctcp]\nduration: 1ms\n{traffic}\n"
            ));
            // The estimate of a closed-loop workload is an upper bound.
            let is_closed_loop = traffic.contains("back-to-back");
            assert!(is_closed_loop || estimated / counted < 1.35, "{traffic}: {estimated} {counted}");
            assert!(counted / estimated < 1.35, "{traffic}: {estimated} {counted}");
        }
    }

    /// Flows of one byte, and closed-loop workloads.
    #[test]
    fn small_flows_are_estimated() {
        let star = |workloads: &str| {
            format!(
                "topology: {{kind: star, hosts: 6, rate: 1Gbps}}\nschemes: [dctcp]\nduration: 1600us\n\
                 workloads: [{workloads}]\n"
            )
        };
        let jobs = "{kind: jobs, jobs: 4, servers: 4, request: 2KB, response: 8KB}";
        let poisson = "{kind: poisson, sizes: 1B, load: 0.4%, stop: 400us}";
        let (estimated, counted) = estimated_and_counted(&star(poisson));
        assert!((0.74..1.35).contains(&(estimated / counted)), "{estimated} {counted}");
        for workloads in
            [jobs, &format!("{poisson}, {jobs}"), "{kind: back-to-back, sizes: 1B, parallel: 20}"]
        {
            let (estimated, counted) = estimated_and_counted(&star(workloads));
            assert!(estimated > counted, "{workloads}: {estimated} {counted}");
        }
        // The load exceeds the links' capacity, so most of it is never sent.
        let (estimated, counted) = estimated_and_counted(&star(&poisson.replace("0.4%", "4%")));
        assert!((0.74..1.5).contains(&(estimated / counted)), "{estimated} {counted}");
    }

    #[test]
    fn few_flows_are_pointed_out() {
        let star = |traffic: &str| {
            let text = format!(
                "topology: {{kind: star, hosts: 6, rate: 1Gbps}}\nschemes: [dctcp, hpcc]\nduration: 2ms\n{traffic}\n"
            );
            estimate(&text).1.to_string()
        };
        let few = star("workload: {kind: poisson, sizes: 1KB, load: 20%, count: 43}");
        assert!(few.contains("; about 43 flows, few for a p99 (100 or more are better)"), "{few}");
        let many = star("workload: {kind: poisson, sizes: 1KB, load: 20%}");
        assert!(many.contains(" flows") && !many.contains("p99"), "{many}");
        let text = star(
            "workload: {kind: poisson, sizes: {choice: [1KB, 2KB]}, load: 20%}\nobserve: {size_classes: [1KB, 8KB]}",
        );
        assert!(text.contains(" flows (up to 1 KB: ") && text.contains(", 1 KB to 8 KB: "), "{text}");
        assert!(
            text.ends_with(", above 8 KB: 0), few in a class for its p99 (100 or more are better)"),
            "{text}"
        );
        assert!(!star("flows: [{from: h2, to: h3, size: 1KB}]").contains("p99"), "the file lists the flows");
    }

    #[test]
    fn a_first_flow_that_starts_late_is_estimated() {
        let (_, estimate) = estimate(
            "topology: {kind: star, hosts: 2, rate: 25Gbps}\nschemes: [hpcc]\nduration: 200ms\n\
             flows: [{from: h1, to: h2, size: 1MB, start: 150ms}]\n",
        );
        assert!((1e3..2e3).contains(&estimate.packet_hops), "{estimate:?}");
        assert!(estimate.wall_time.is_some_and(|time| time.as_secs() < 60), "{estimate:?}");
    }

    #[test]
    fn a_run_without_packets_for_an_hour_is_estimated() {
        let (_, estimate) = estimate(
            "topology: {kind: star, hosts: 2, rate: 25Gbps}\nschemes: [hpcc]\nduration: 3600s\n\
             flows: [{from: h1, to: h2, size: 1MB, start: 3599s}]\n",
        );
        assert!(estimate.wall_time.is_some_and(|time| time.as_secs() > 10), "{estimate:?}");
    }

    #[test]
    fn without_flows_the_estimate_is_zero() {
        let (_, estimate) = estimate(
            "topology: {kind: star, hosts: 2, rate: 25Gbps}\nschemes: [hpcc]\nduration: 20ms\npolicy: {}\n",
        );
        // Policy packets only.
        assert!(estimate.packet_hops < 1e3 && !estimate.to_string().contains("thousand"), "{estimate}");
    }
}
