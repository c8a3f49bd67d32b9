//! Queues and links, sampled while traffic flows.
//!
//! A queue's length is the P4 program's own register `queue_bytes`, the one that telemetry reports. The embedded
//! switch shows it over P4Runtime, BMv2 only over Thrift. A link's load is taken from the kernel's counters of the
//! switch's interface. A process that runs all switches and carries the links is asked for both at once.

use super::links::{FabricSample, LINKS, LinkRequest};
use super::p4runtime::Registers;
use super::plan::{SwitchKind, TestbedConfig, thrift_address};
use p4runtime::p4::config::v1::Preamble;
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_client::{ThriftClient, ThriftError};
use weir_controller::topology::{Endpoint, LinkIx, Node, SwitchIx, Topology};
use weir_experiment::backend::Error;
use weir_units::Time;

/// The register (`p4src/controls/queue_bytes.p4`).
pub const QUEUE_REGISTER: &str = "queue_bytes";
/// Shortest interval between requests to one switch: a few percent of a core for 20 switches.
const MIN_POLL_PER_SWITCH: Time = Time::from_ms(2);
/// Nor more often than this, however few there are.
const MIN_SAMPLE_INTERVAL: Time = Time::from_ms(5);

/// One egress port over time.
#[derive(Clone, Debug)]
pub struct PortSamples {
    /// The switch.
    pub switch: SwitchIx,
    /// The port.
    pub port: u16,
    /// Bytes queued, by sample.
    pub queue: Vec<u64>,
    /// Most bytes queued, also between samples.
    pub peak: u64,
    /// Bytes sent so far, at the start and at every sample.
    pub sent: Vec<u64>,
}

/// Source of queue lengths, and of bytes that ports have sent.
enum Source {
    /// A process for each switch, and the kernel's counters of its interfaces in the order of the ports.
    Switches(Queues, Vec<PathBuf>),
    /// The process that runs all switches and carries the links.
    Fabric {
        look: LinkRequest,
        /// Position of the link and end, in the order of the ports.
        ends: Vec<(usize, usize)>,
        /// Its last answer, until the bytes are taken from it.
        last: Option<FabricSample>,
    },
}

/// Source of queue lengths of switches in a process each.
enum Queues {
    P4Runtime(Registers),
    Thrift(Vec<(String, ThriftClient)>),
}

impl Source {
    fn connect(topology: &Topology, places: &TestbedConfig, register: &Preamble) -> Result<Source, Error> {
        let ports =
            topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |port| (ix, port)));
        if places.one_process() {
            let end = |(ix, (port, link)): (SwitchIx, (u16, LinkIx))| {
                let here = Endpoint { node: Node::Switch(ix), port };
                (link.0 as usize, usize::from(topology.link(link).a != here))
            };
            return Ok(Source::Fabric {
                look: LinkRequest::Sample { register: register.name.clone() },
                ends: ports.map(end).collect(),
                last: None,
            });
        }
        let queues = match places.switch {
            SwitchKind::Weir => Queues::P4Runtime(Registers::connect(topology, register.id)?),
            SwitchKind::Bmv2 => {
                let clients = topology.switch_ixs().map(|ix| {
                    let name = topology.switch(ix).name.clone();
                    let client =
                        ThriftClient::connect(&thrift_address(ix)).map_err(|error| refused(&name, &error))?;
                    Ok((name, client))
                });
                Queues::Thrift(clients.collect::<Result<_, Error>>()?)
            }
        };
        let file = |(ix, (port, _)): (SwitchIx, (u16, LinkIx))| {
            format!("/sys/class/net/{}-eth{port}/statistics/tx_bytes", topology.switch(ix).name).into()
        };
        Ok(Source::Switches(queues, ports.map(file).collect()))
    }

    /// Returns bytes queued at each switch, by port.
    fn queues(&mut self, switches: usize) -> Result<Vec<Vec<u64>>, Error> {
        match self {
            Source::Switches(queues, _) => (0..switches).map(|switch| queues.read(switch)).collect(),
            Source::Fabric { look, last, .. } => {
                let sample: &FabricSample = last.insert(look.ask_own(LINKS)?);
                Ok(sample.cells.iter().map(|cells| by_port(cells)).collect())
            }
        }
    }

    /// Returns bytes that each port has sent, at the time of the queues if those were read just before. None of a port
    /// that is gone.
    fn sent(&mut self) -> Result<Vec<u64>, Error> {
        match self {
            Source::Switches(_, files) => Ok(files.iter().map(sent).collect()),
            Source::Fabric { look, ends, last } => {
                let FabricSample { bytes, .. } = last.take().map_or_else(|| look.ask_own(LINKS), Ok)?;
                Ok(ends.iter().map(|&(link, end)| bytes.get(link).map_or(0, |bytes| bytes[end])).collect())
            }
        }
    }
}

/// Returns cells in the order of their ports, 0 where there is none.
fn by_port(cells: &[(u16, u64)]) -> Vec<u64> {
    let max = cells.iter().map(|&(port, _)| usize::from(port) + 1).max().unwrap_or(0);
    let mut all = vec![0; max];
    cells.iter().for_each(|&(port, value)| all[usize::from(port)] = value);
    all
}

impl Queues {
    /// Returns bytes queued at the n-th switch, by port.
    fn read(&mut self, switch: usize) -> Result<Vec<u64>, Error> {
        match self {
            Queues::P4Runtime(registers) => registers.read(switch),
            Queues::Thrift(clients) => {
                let (name, client) = &mut clients[switch];
                let cells =
                    client.register_read_all(QUEUE_REGISTER).map_err(|error| refused(name, &error))?;
                Ok(cells.into_iter().map(|cell| u64::try_from(cell).unwrap_or(0)).collect())
            }
        }
    }
}

fn refused(switch: &str, error: &ThriftError) -> Error {
    Error::Work(format!("{switch}: {error}"))
}

/// Samples while it runs.
pub struct QueueSampler {
    thread: JoinHandle<Result<Vec<PortSamples>, Error>>,
    stop: Arc<AtomicBool>,
}

/// Returns the distance of samples: what was asked for if that is not too often, else a multiple of it.
pub fn sample_interval(asked: Time, switches: usize) -> Time {
    let min = min_poll_interval(switches);
    asked * min.as_ps().div_ceil(asked.as_ps().max(1)).max(1)
}

/// Returns the shortest distance of two looks at all switches.
fn min_poll_interval(switches: usize) -> Time {
    MIN_SAMPLE_INTERVAL.max(MIN_POLL_PER_SWITCH * switches as u64)
}

impl QueueSampler {
    /// Samples all ports every `sample_interval` from `start` (seconds of CLOCK_MONOTONIC) on, for `duration`.
    pub fn start(
        topology: &Topology,
        (places, register): (&TestbedConfig, &Preamble),
        start: f64,
        distance: Time,
        duration: Time,
    ) -> Result<QueueSampler, Error> {
        let mut source = Source::connect(topology, places, register)?;
        let mut ports = Vec::new();
        for switch in topology.switch_ixs() {
            for (port, _) in topology.switch(switch).ports() {
                ports.push(PortSamples { switch, port, queue: Vec::new(), peak: 0, sent: Vec::new() });
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("probe".to_owned()).spawn(move || {
            sample(&mut source, &mut ports, start, distance, duration, &told)?;
            Ok(ports)
        })?;
        Ok(QueueSampler { thread, stop })
    }

    /// Returns what was seen. Ends it if it has not ended by itself.
    pub fn finish(self) -> Result<Vec<PortSamples>, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

fn sample(
    source: &mut Source,
    ports: &mut [PortSamples],
    start: f64,
    distance: Time,
    duration: Time,
    told: &AtomicBool,
) -> Result<(), Error> {
    let switches = ports.iter().map(|samples| samples.switch.0 as usize + 1).max().unwrap_or(0);
    let at = |count: u64| start + (distance * count).as_secs_f64();
    if !sleep_until(start, told) {
        return Ok(());
    }
    note_sent(source, ports)?;
    // Samples of a scale model are far apart: looks between them find the peaks.
    let looks = (distance / min_poll_interval(switches)).max(1);
    for count in 1..=duration / distance {
        for look in 1..looks {
            let time = at(count - 1) + (distance * look).as_secs_f64() / looks as f64;
            if monotonic() < time && sleep_until(time, told) {
                look_at(source, ports, switches)?;
            }
        }
        if !sleep_until(at(count), told) {
            return Ok(());
        }
        if monotonic() > at(count + 1) && repeat(ports) {
            continue;
        }
        look_at(source, ports, switches)?
            .into_iter()
            .zip(ports.iter_mut())
            .for_each(|(bytes, samples)| samples.queue.push(bytes));
        note_sent(source, ports)?;
    }
    Ok(())
}

/// Notes what every port has sent.
fn note_sent(source: &mut Source, ports: &mut [PortSamples]) -> Result<(), Error> {
    let sent = source.sent()?;
    ports.iter_mut().zip(sent).for_each(|(samples, bytes)| samples.sent.push(bytes));
    Ok(())
}

/// Reads every queue, in the order of the ports, and notes its peak.
fn look_at(source: &mut Source, ports: &mut [PortSamples], switches: usize) -> Result<Vec<u64>, Error> {
    let cells = source.queues(switches)?;
    let look = |samples: &mut PortSamples| {
        let cells = cells.get(samples.switch.0 as usize);
        let bytes = cells.and_then(|cells| cells.get(usize::from(samples.port))).copied().unwrap_or(0);
        samples.peak = samples.peak.max(bytes);
        bytes
    };
    Ok(ports.iter_mut().map(look).collect())
}

/// Takes the last sample again, in place of one whose time is over: on a busy machine samples become fewer, and stay where
/// they belong. `false`: there is none yet.
fn repeat(ports: &mut [PortSamples]) -> bool {
    ports.iter_mut().all(|samples| match (samples.queue.last().copied(), samples.sent.last().copied()) {
        (Some(queue), Some(sent)) => {
            samples.queue.push(queue);
            samples.sent.push(sent);
            true
        }
        _ => false,
    })
}

/// Returns bytes that the interface has sent; none if it is gone.
fn sent(file: &PathBuf) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// CLOCK_MONOTONIC in seconds: what all processes of a machine share.
pub fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Sleeps until `time`, in seconds of CLOCK_MONOTONIC. `false`: told to stop before.
pub fn sleep_until(time: f64, told: &AtomicBool) -> bool {
    const NAP: f64 = 0.1;
    loop {
        if told.load(Ordering::Relaxed) {
            return false;
        }
        let left = time - monotonic();
        if left <= 0.0 {
            return true;
        }
        std::thread::sleep(Duration::from_secs_f64(left.min(NAP)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_not_closer_than_the_machine_can_take() {
        let ms = Time::from_ms;
        assert_eq!(sample_interval(ms(10), 3), ms(10));
        assert_eq!(sample_interval(Time::from_us(100), 3), ms(6), "a multiple of what was asked");
        assert_eq!(sample_interval(ms(10), 20), ms(40));
        assert_eq!(sample_interval(ms(1), 1), ms(5));
    }
}
