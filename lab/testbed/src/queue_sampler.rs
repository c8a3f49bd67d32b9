//! Samples queue lengths and link loads during a run.
//!
//! Queue lengths are read from the P4 program's register `queue_bytes`, which is also the source of telemetry: over
//! P4Runtime from the embedded switch, over Thrift from BMv2. Link loads are read from the kernel's counters of the
//! switch interfaces. A process that runs all switches and emulates the links returns both in one reply.

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

/// Register with the queue length of each port (`p4src/controls/queue_bytes.p4`).
pub(crate) const QUEUE_REGISTER: &str = "queue_bytes";
/// Minimum sampling interval per switch: polling 20 switches then costs a few percent of a core.
const MIN_POLL_PER_SWITCH: Time = Time::from_ms(2);
/// Minimum sampling interval for any number of switches.
const MIN_SAMPLE_INTERVAL: Time = Time::from_ms(5);

/// What was sampled during a run. Samples of all ports are taken together.
#[derive(Clone, Debug, Default)]
pub(crate) struct QueueSamples {
    pub ports: Vec<PortSamples>,
    /// For each sample, whether it repeats the one before: a reading of all switches took so long that a whole interval
    /// was missed.
    pub is_repeated: Vec<bool>,
    /// Longest time between two readings.
    pub max_gap: Time,
    /// Whether the switches keep the peaks, so that they do not depend on readings.
    pub has_exact_peaks: bool,
}

impl QueueSamples {
    /// Returns the number of samples that repeat an earlier one.
    pub(crate) fn repeated(&self) -> usize {
        self.is_repeated.iter().filter(|&&is_repeated| is_repeated).count()
    }

    /// Returns the queue lengths of a port at the samples that were read, in bytes.
    pub(crate) fn fresh<'a>(&'a self, port: &'a PortSamples) -> impl Iterator<Item = u64> + 'a {
        let samples = port.queue.iter().zip(&self.is_repeated);
        samples.filter(|(_, is_repeated)| !**is_repeated).map(|(&bytes, _)| bytes)
    }
}

/// One egress port over time.
#[derive(Clone, Debug)]
pub(crate) struct PortSamples {
    pub switch: SwitchIx,
    pub port: u16,
    /// Queue length in bytes at each sample.
    pub queue: Vec<u64>,
    /// Maximum queue length in bytes, including polls between samples: of the switch, if it keeps the peak.
    pub peak: u64,
    /// Cumulative bytes sent, at the start and at each sample: one entry more than `queue`.
    pub sent: Vec<u64>,
}

/// Source of queue lengths and of the bytes sent by ports.
enum Source {
    /// One process per switch.
    Switches {
        queues: Queues,
        /// Files of the kernel's interface counters, in the order of the ports.
        counter_files: Vec<PathBuf>,
    },
    /// One process that runs all switches and emulates the links.
    Fabric {
        request: LinkRequest,
        /// For each port, the index of its link and the end of the link (0: `a`, 1: `b`).
        ends: Vec<(usize, usize)>,
        /// Last sample, until its byte counts are used.
        last: Option<FabricSample>,
    },
}

/// Source of queue lengths of switches with one process each.
enum Queues {
    P4Runtime(Registers),
    Thrift(Vec<(String, ThriftClient)>),
}

/// The queues of all switches at one time, in bytes, by switch and port.
struct Queued {
    now: Vec<Vec<u64>>,
    /// The peaks since the last reading; `None` if switches do not keep them.
    peaks: Option<Vec<Vec<u64>>>,
}

/// Readings of all switches at one time.
trait Readings {
    fn queues(&mut self, switches: usize) -> Result<Queued, Error>;

    /// Returns the cumulative bytes sent by each port, at the time of the queue lengths if these were read just before.
    /// A port that no longer exists has 0.
    fn sent(&mut self) -> Result<Vec<u64>, Error>;
}

impl Source {
    fn connect(topology: &Topology, config: &TestbedConfig, register: &Preamble) -> Result<Source, Error> {
        let ports =
            topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |port| (ix, port)));
        if config.one_process() {
            let end = |(ix, (port, link)): (SwitchIx, (u16, LinkIx))| {
                let end = Endpoint { node: Node::Switch(ix), port };
                (link.0 as usize, usize::from(topology.link(link).a != end))
            };
            return Ok(Source::Fabric {
                request: LinkRequest::Sample { register: register.name.clone() },
                ends: ports.map(end).collect(),
                last: None,
            });
        }
        let queues = match config.switch {
            SwitchKind::Weir => Queues::P4Runtime(Registers::connect(topology, register.id)?),
            SwitchKind::Bmv2 => {
                let clients = topology.switch_ixs().map(|ix| {
                    let name = topology.switch(ix).name.clone();
                    let client =
                        ThriftClient::connect(&thrift_address(ix)).map_err(|error| failed(&name, &error))?;
                    Ok((name, client))
                });
                Queues::Thrift(clients.collect::<Result<_, Error>>()?)
            }
        };
        let file = |(ix, (port, _)): (SwitchIx, (u16, LinkIx))| {
            format!("/sys/class/net/{}-eth{port}/statistics/tx_bytes", topology.switch(ix).name).into()
        };
        Ok(Source::Switches { queues, counter_files: ports.map(file).collect() })
    }
}

impl Readings for Source {
    fn queues(&mut self, switches: usize) -> Result<Queued, Error> {
        match self {
            Source::Switches { queues, .. } => {
                let now = (0..switches).map(|switch| queues.read(switch)).collect::<Result<_, _>>()?;
                Ok(Queued { now, peaks: None })
            }
            Source::Fabric { request, last, .. } => {
                let sample: &FabricSample = last.insert(request.send_in_run(LINKS)?);
                let by_switch = |all: &[Vec<(u16, u64)>]| all.iter().map(|cells| by_port(cells)).collect();
                Ok(Queued { now: by_switch(&sample.cells), peaks: Some(by_switch(&sample.peaks)) })
            }
        }
    }

    fn sent(&mut self) -> Result<Vec<u64>, Error> {
        match self {
            Source::Switches { counter_files, .. } => Ok(counter_files.iter().map(sent_bytes).collect()),
            Source::Fabric { request, ends, last } => {
                let FabricSample { bytes, .. } =
                    last.take().map_or_else(|| request.send_in_run(LINKS), Ok)?;
                Ok(ends.iter().map(|&(link, end)| bytes.get(link).map_or(0, |bytes| bytes[end])).collect())
            }
        }
    }
}

/// Returns the cells of a register as a list indexed by port, with 0 for missing ports.
fn by_port(cells: &[(u16, u64)]) -> Vec<u64> {
    let max = cells.iter().map(|&(port, _)| usize::from(port) + 1).max().unwrap_or(0);
    let mut all = vec![0; max];
    cells.iter().for_each(|&(port, value)| all[usize::from(port)] = value);
    all
}

impl Queues {
    /// Returns the queue length in bytes of the n-th switch by port.
    fn read(&mut self, switch: usize) -> Result<Vec<u64>, Error> {
        match self {
            Queues::P4Runtime(registers) => registers.read(switch),
            Queues::Thrift(clients) => {
                let (name, client) = &mut clients[switch];
                let cells = client.register_read_all(QUEUE_REGISTER).map_err(|error| failed(name, &error))?;
                Ok(cells.into_iter().map(|cell| u64::try_from(cell).unwrap_or(0)).collect())
            }
        }
    }
}

fn failed(switch: &str, error: &ThriftError) -> Error {
    Error::Work(format!("{switch}: {error}"))
}

/// A thread that samples all ports.
pub(crate) struct QueueSampler {
    thread: JoinHandle<Result<QueueSamples, Error>>,
    stop: Arc<AtomicBool>,
}

/// Returns the sampling interval: `requested`, or if that is too short for this number of switches a multiple of it.
pub(crate) fn sample_interval(requested: Time, switches: usize) -> Time {
    let min = min_poll_interval(switches);
    requested * min.as_ps().div_ceil(requested.as_ps().max(1)).max(1)
}

/// Returns the minimum interval between two polls of all switches.
fn min_poll_interval(switches: usize) -> Time {
    MIN_SAMPLE_INTERVAL.max(MIN_POLL_PER_SWITCH * switches as u64)
}

impl QueueSampler {
    /// Starts sampling all ports from `start` (seconds of CLOCK_MONOTONIC) on, every `interval`, for `duration`.
    pub(crate) fn start(
        topology: &Topology,
        (config, register): (&TestbedConfig, &Preamble),
        start: f64,
        interval: Time,
        duration: Time,
    ) -> Result<QueueSampler, Error> {
        let mut source = Source::connect(topology, config, register)?;
        let mut ports = Vec::new();
        for switch in topology.switch_ixs() {
            for (port, _) in topology.switch(switch).ports() {
                ports.push(PortSamples { switch, port, queue: Vec::new(), peak: 0, sent: Vec::new() });
            }
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stop_flag = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("probe".to_owned())
            .spawn(move || sample(&mut source, ports, start, (interval, duration), &stop_flag))?;
        Ok(QueueSampler { thread, stop })
    }

    /// Stops sampling, if it has not ended yet, and returns the samples.
    pub(crate) fn finish(self) -> Result<QueueSamples, Error> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// The body of the sampling thread. Samples every `interval` until `duration` has passed since `start`.
fn sample<R: Readings>(
    source: &mut R,
    ports: Vec<PortSamples>,
    start: f64,
    (interval, duration): (Time, Time),
    stop_flag: &AtomicBool,
) -> Result<QueueSamples, Error> {
    let mut samples = QueueSamples { ports, ..QueueSamples::default() };
    let switches = samples.ports.iter().map(|port| port.switch.0 as usize + 1).max().unwrap_or(0);
    // Time of the n-th sample in seconds of CLOCK_MONOTONIC.
    let time_of = |n: u64| start + (interval * n).as_secs_f64();
    if !sleep_until(start, stop_flag) {
        return Ok(samples);
    }
    record_sent(source, &mut samples.ports)?;
    // Samples of a slow scale model are far apart. Queues are polled `polls - 1` times between two samples, only for
    // the peak.
    let polls = (interval / min_poll_interval(switches)).max(1);
    let mut last_reading = start;
    let mut read = |source: &mut R, samples: &mut QueueSamples| {
        let queues = poll_queues(source, samples, switches)?;
        let now = monotonic();
        samples.max_gap = samples.max_gap.max(Time::from_secs_f64(now - last_reading));
        last_reading = now;
        Ok::<_, Error>(queues)
    };
    for count in 1..=duration / interval {
        for poll in 1..polls {
            let time = time_of(count - 1) + (interval * poll).as_secs_f64() / polls as f64;
            if monotonic() < time && sleep_until(time, stop_flag) {
                read(source, &mut samples)?;
            }
        }
        if !sleep_until(time_of(count), stop_flag) {
            break;
        }
        // Too late for this sample.
        let is_repeated = monotonic() > time_of(count + 1) && repeat_last_sample(&mut samples.ports);
        samples.is_repeated.push(is_repeated);
        if !is_repeated {
            let queues = read(source, &mut samples)?;
            samples.ports.iter_mut().zip(queues).for_each(|(port, bytes)| port.queue.push(bytes));
            record_sent(source, &mut samples.ports)?;
        }
    }
    Ok(samples)
}

/// Appends the byte counts of all ports.
fn record_sent(source: &mut impl Readings, ports: &mut [PortSamples]) -> Result<(), Error> {
    let sent = source.sent()?;
    ports.iter_mut().zip(sent).for_each(|(samples, bytes)| samples.sent.push(bytes));
    Ok(())
}

/// Reads all queues, in the order of the ports, and updates the peaks.
fn poll_queues(
    source: &mut impl Readings,
    samples: &mut QueueSamples,
    switches: usize,
) -> Result<Vec<u64>, Error> {
    let Queued { now, peaks } = source.queues(switches)?;
    samples.has_exact_peaks = peaks.is_some();
    let poll = |port: &mut PortSamples| {
        let of_port = |cells: &[Vec<u64>]| {
            let cells = cells.get(port.switch.0 as usize);
            cells.and_then(|cells| cells.get(usize::from(port.port))).copied().unwrap_or(0)
        };
        let bytes = of_port(&now);
        port.peak = port.peak.max(peaks.as_deref().map_or(bytes, of_port));
        bytes
    };
    Ok(samples.ports.iter_mut().map(poll).collect())
}

/// Repeats the last sample if a sampling time was missed by a whole interval, so that sample n always belongs to time n
/// times the interval. Returns false if there is no sample yet.
fn repeat_last_sample(ports: &mut [PortSamples]) -> bool {
    ports.iter_mut().all(|samples| match (samples.queue.last().copied(), samples.sent.last().copied()) {
        (Some(queue), Some(sent)) => {
            samples.queue.push(queue);
            samples.sent.push(sent);
            true
        }
        _ => false,
    })
}

/// Returns the cumulative bytes sent by an interface, 0 if it no longer exists.
fn sent_bytes(file: &PathBuf) -> u64 {
    fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0)
}

/// Returns CLOCK_MONOTONIC in seconds. All processes of a machine share this clock.
pub(crate) fn monotonic() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Sleeps until `time` in seconds of CLOCK_MONOTONIC. Returns false if the flag was set before.
pub(crate) fn sleep_until(time: f64, stop_flag: &AtomicBool) -> bool {
    const MAX_SLEEP_S: f64 = 0.1;
    loop {
        if stop_flag.load(Ordering::Relaxed) {
            return false;
        }
        let remaining = time - monotonic();
        if remaining <= 0.0 {
            return true;
        }
        std::thread::sleep(Duration::from_secs_f64(remaining.min(MAX_SLEEP_S)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sampling_interval_has_a_minimum() {
        let ms = Time::from_ms;
        assert_eq!(sample_interval(ms(10), 3), ms(10));
        assert_eq!(sample_interval(Time::from_us(100), 3), ms(6), "a multiple of what was requested");
        assert_eq!(sample_interval(ms(10), 20), ms(40));
        assert_eq!(sample_interval(ms(1), 1), ms(5));
    }

    /// A switch whose queue grows by 1,000 bytes from reading to reading, and which is busy once.
    struct BusySwitch {
        readings: u64,
        busy_at: u64,
        busy_for: Duration,
        keeps_peaks: bool,
    }

    impl Readings for BusySwitch {
        fn queues(&mut self, _switches: usize) -> Result<Queued, Error> {
            self.readings += 1;
            if self.readings == self.busy_at {
                std::thread::sleep(self.busy_for);
            }
            let bytes = 1_000 * self.readings;
            let peaks = self.keeps_peaks.then(|| vec![vec![0, bytes + 500]]);
            Ok(Queued { now: vec![vec![0, bytes]], peaks })
        }
        fn sent(&mut self) -> Result<Vec<u64>, Error> {
            Ok(vec![0])
        }
    }

    /// Samples that were missed while a reading took long repeat the one before, are counted, and are no readings.
    #[test]
    fn missed_samples_are_counted_and_set_no_peak() {
        let run = |keeps_peaks: bool| {
            let mut switch =
                BusySwitch { readings: 0, busy_at: 3, busy_for: Duration::from_millis(62), keeps_peaks };
            let port =
                PortSamples { switch: SwitchIx(0), port: 1, queue: Vec::new(), peak: 0, sent: Vec::new() };
            let times = (Time::from_ms(5), Time::from_ms(100));
            let samples = sample(&mut switch, vec![port], monotonic(), times, &AtomicBool::new(false));
            (samples.unwrap(), switch)
        };
        let (samples, switch) = run(false);
        let port = &samples.ports[0];
        assert_eq!(
            (port.queue.len(), port.sent.len()),
            (20, 21),
            "sample n belongs to time n times the interval"
        );
        assert!(samples.repeated() >= 10, "{:?}", samples.is_repeated);
        assert!(samples.max_gap >= Time::from_ms(62), "{}", samples.max_gap);
        let fresh: Vec<u64> = samples.fresh(port).collect();
        assert_eq!(fresh, (1..=switch.readings).map(|n| 1_000 * n).collect::<Vec<_>>());
        assert_eq!(port.peak, 1_000 * switch.readings);
        let repeats = |n: &usize| samples.is_repeated[*n];
        assert!((0..20).filter(repeats).all(|n| port.queue[n] == port.queue[n - 1]));
        let (samples, switch) = run(true);
        assert!(samples.has_exact_peaks);
        assert_eq!(samples.ports[0].peak, 1_000 * switch.readings + 500, "the peak of the switch");
    }
}
