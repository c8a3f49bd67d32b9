//! Estimates the duration and memory of a run: `weir run --check`.

use super::memory_bytes;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_controller::hash::PathHash;
use weir_controller::routes::{Routes, routes};
use weir_controller::topology::HostIx;
use weir_experiment::{Experiment, Flow};
use weir_experiment::{Observer, Progress};
use weir_units::{Bytes, Time};

/// Flows that are listed. Of longer experiments the rest is taken to be like these.
const MAX_LISTED_FLOWS: usize = 500_000;
/// The first scheme runs this long, to see how fast this machine is.
const TRIAL_DURATION: Duration = Duration::from_millis(50);
/// Ethernet, IPv4, UDP and Weir headers, and the records of a path of three switches.
const HEADERS: u64 = 90;
/// Size of a finished flow in the results, and of a sample of a port or a flow, in bytes.
const FLOW_BYTES: f64 = 200.0;
const SAMPLE_BYTES: f64 = 16.0;
/// The share of its link that a flow without a size gets where none shares it.
const BUSY_UTILISATION: f64 = 0.95;

/// The expected cost of a run.
#[derive(Clone, Copy, Debug)]
pub struct Estimate {
    /// Packets times switches on their path, of all schemes. Policies are left out.
    pub packet_hops: f64,
    /// True for an upper bound: flows start when others end, and links may be idle.
    pub at_most: bool,
    /// Wall-clock time, if the trial came far enough to tell.
    pub time: Option<Duration>,
    /// Peak resident memory, where the system tells it.
    pub memory: Option<f64>,
}

impl Estimate {
    /// Estimates what `experiment` takes if `jobs` schemes run at a time on this number of threads.
    ///
    /// The packet-hops follow from the flows, their paths and the rates of their links; losses and the time that a
    /// scheme leaves links idle are left out. The speed is that of the first scheme's first moments.
    pub fn of(experiment: &Experiment, (threads, jobs): (usize, usize)) -> Estimate {
        let schemes = experiment.schemes.len();
        let jobs = jobs.clamp(1, schemes.max(1));
        let Ok(routes) = routes(&experiment.topology, experiment.spec.routing) else {
            return Estimate { packet_hops: 0.0, at_most: true, time: None, memory: None };
        };
        // Flows that start because others end keep their hosts' links busy.
        let listed = experiment.first_flows(MAX_LISTED_FLOWS);
        let (one, flows) = match &listed {
            Ok((flows, until)) => {
                let part =
                    (until.as_secs_f64() / experiment.spec.duration.as_secs_f64()).max(f64::MIN_POSITIVE);
                (of_flows(experiment, &routes, flows) / part, flows.len() as f64 / part)
            }
            Err(_) => {
                let flows = &experiment.flows;
                let busy = of_busy_hosts(experiment, &routes);
                (of_flows(experiment, &routes, flows) + busy, flows.len() as f64)
            }
        };
        let before = memory_bytes("VmRSS:");
        let mut trial = SpeedProbe { began: None, speed: None };
        // What comes of it does not matter, only how long it took.
        let _ = weir_sim::run(experiment, &mut trial);
        let after = memory_bytes("VmRSS:");
        let packet_hops = one * schemes as f64;
        let time =
            trial.speed.map(|speed| Duration::from_secs_f64(packet_hops / speed / threads.max(1) as f64));
        let series = (experiment.observed_ports.len() + 2 * experiment.recorded_flow_count()) as f64;
        let samples = experiment.spec.duration / experiment.spec.observe.interval;
        let results = schemes as f64 * (flows * FLOW_BYTES + series * samples as f64 * SAMPLE_BYTES);
        let memory = before.zip(after).map(|(before, after)| {
            let fabric = after.saturating_sub(before) as f64;
            before as f64 + fabric * jobs as f64 + results
        });
        Estimate { packet_hops, at_most: listed.is_err(), time, memory }
    }
}

/// `about 3.1 million packet-hops, 4 s, 60 MB`; `at most` if flows start when others end.
impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let about = if self.at_most { "at most" } else { "about" };
        match self.packet_hops {
            hops if hops < 1e5 => write!(f, "{about} {:.0} thousand packet-hops", hops / 1e3)?,
            hops => write!(f, "{about} {:.1} million packet-hops", hops / 1e6)?,
        }
        match self.time {
            Some(time) if time.as_secs() >= 48 * 3600 => {
                write!(f, ", {:.0} days", time.as_secs_f64() / (24.0 * 3600.0))?;
            }
            Some(time) if time.as_secs() >= 120 => write!(f, ", {:.0} min", time.as_secs_f64() / 60.0)?,
            Some(time) if time.as_secs() >= 1 => write!(f, ", {:.0} s", time.as_secs_f64())?,
            Some(_) => write!(f, ", less than a second")?,
            None => {}
        }
        self.memory.map_or(Ok(()), |bytes| write!(f, ", {:.0} MB", bytes / 1e6))
    }
}

/// Payload of a full packet.
fn payload(experiment: &Experiment) -> f64 {
    experiment.spec.mtu.get().saturating_sub(HEADERS).max(1) as f64
}

/// Switches that a packet and its share of an ACK pass, for each packet between two hosts.
struct HopCounts<'e> {
    experiment: &'e Experiment,
    routes: &'e Routes,
    known: HashMap<(HostIx, HostIx), f64>,
}

impl HopCounts<'_> {
    fn of(&mut self, from: HostIx, to: HostIx) -> f64 {
        let (experiment, routes) = (self.experiment, self.routes);
        *self.known.entry((from, to)).or_insert_with(|| {
            let path = routes.path(&experiment.topology, from, to, PathHash(1));
            let acks = 1.0 / f64::from(experiment.spec.transport.ack_every);
            path.map_or(0.0, |path| path.hops.len() as f64 * (1.0 + acks))
        })
    }
}

fn of_flows(experiment: &Experiment, routes: &Routes, flows: &[Flow]) -> f64 {
    let mut lengths = HopCounts { experiment, routes, known: HashMap::new() };
    // Flows without a size share the links of their hosts.
    let mut sharing: HashMap<HostIx, f64> = HashMap::new();
    for flow in flows.iter().filter(|flow| flow.size.is_none()) {
        for host in [flow.from, flow.to] {
            *sharing.entry(host).or_default() += 1.0;
        }
    }
    let end = experiment.spec.duration;
    let packets = |flow: &Flow| {
        let time = flow.stop.unwrap_or(end).min(end).saturating_sub(flow.start);
        let max = |host| {
            let link = experiment.topology.link(experiment.topology.host(host).link);
            link.rate.bytes_in(time).as_f64() / sharing.get(&host).copied().unwrap_or(1.0).max(1.0)
        };
        let max = max(flow.from).min(max(flow.to)) * BUSY_UTILISATION;
        (flow.size.map_or(max, |size| size.as_f64().min(max)) / payload(experiment)).max(1.0)
    };
    flows.iter().map(|flow| packets(flow) * lengths.of(flow.from, flow.to)).sum()
}

fn of_busy_hosts(experiment: &Experiment, routes: &Routes) -> f64 {
    let topology = &experiment.topology;
    let mut lengths = HopCounts { experiment, routes, known: HashMap::new() };
    let hosts: Vec<HostIx> = topology.host_ixs().collect();
    let busy = |(i, &from): (usize, &HostIx)| {
        let to = hosts[(i + hosts.len() / 2) % hosts.len()];
        let sent: Bytes = topology.link(topology.host(from).link).rate.bytes_in(experiment.spec.duration);
        sent.as_f64() * BUSY_UTILISATION / payload(experiment) * lengths.of(from, to)
    };
    hosts.iter().enumerate().map(busy).sum()
}

/// Measures the speed of the first scheme, and breaks the run off.
struct SpeedProbe {
    /// Time of the first observation, and the packet-hops until then.
    began: Option<(Instant, u64)>,
    /// Packet-hops per second.
    speed: Option<f64>,
}

impl Observer for SpeedProbe {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        let Some((began, before)) = self.began else {
            self.began = Some((Instant::now(), progress.packet_hops));
            return ControlFlow::Continue(());
        };
        let spent = began.elapsed();
        if progress.index > 0 || progress.now == Time::ZERO {
            return ControlFlow::Break(());
        }
        self.speed = Some((progress.packet_hops - before) as f64 / spent.as_secs_f64().max(1e-6));
        if spent < TRIAL_DURATION { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimated_and_counted(text: &str) -> (f64, f64) {
        let experiment = Experiment::parse(text, "x.yaml", "x", &[], None).unwrap();
        let estimate = Estimate::of(&experiment, (1, 1));
        (estimate.packet_hops, weir_sim::run(&experiment, &mut ()).unwrap().summary.packet_hops as f64)
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
            let closed = traffic.contains("back-to-back");
            assert!(closed || estimated / counted < 1.35, "{traffic}: {estimated} {counted}");
            assert!(counted / estimated < 1.35, "{traffic}: {estimated} {counted}");
        }
    }
}
