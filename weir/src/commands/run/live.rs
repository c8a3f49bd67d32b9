//! `weir run --live`: a run in virtual time on the terminal, while it goes.

use crate::commands::progress::Watch;
use crate::commands::top::{self, Readings, Round};
use crate::console::Failure;
use crate::interrupt::interrupted;
use crate::live::{Ask, FlowRow, PortRow, Scene, Screen};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_client::{ClientOptions, Target};
use weir_controller::topology::Topology;
use weir_experiment::results::Part;
use weir_experiment::{Observer, Progress};
use weir_report::format;
use weir_testbed::{device_id, grpc_port, thrift_address};
use weir_units::Time;

/// From one picture to the next, at least.
const FRAME: Duration = Duration::from_millis(100);
/// From one reading of Mininet's switches to the next.
const READ: Time = Time::from_ms(500);
/// The most flows shown.
const FLOWS: usize = 200;

/// Shows a run as a bar for each scheme, or as a whole.
pub enum Shown<'a> {
    /// Bars.
    Bars(Watch),
    /// The fabric.
    Live(Box<Live<'a>>),
}

impl Observer for Shown<'_> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        match self {
            Shown::Bars(watch) => watch.progress(progress),
            Shown::Live(live) => live.progress(progress),
        }
    }
    fn keeps(&mut self, index: usize) -> bool {
        match self {
            Shown::Bars(watch) => watch.keeps(index),
            Shown::Live(live) => live.keeps(index),
        }
    }
    fn keep(&mut self, part: Part) {
        match self {
            Shown::Bars(watch) => watch.keep(part),
            Shown::Live(live) => live.keep(part),
        }
    }
}

/// The terminal, and what the user wants of the run.
pub struct Live<'a> {
    screen: Screen,
    scene: Scene,
    topology: &'a Topology,
    name: &'a str,
    /// The scheme that runs, and since when.
    index: Option<usize>,
    began: Instant,
    drawn: Instant,
    mode: Mode,
    /// Readings of the switches, where there are any: in Mininet.
    fabric: Option<Fabric>,
    /// The error for which the terminal could not be used any more.
    trouble: Option<Failure>,
}

/// Switches that run in real time.
struct Fabric {
    readings: Readings,
    last: Option<Round>,
    peaks: Vec<u64>,
}

/// The state of virtual time: running, or stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// Until the next look, which is shown; then it stands.
    Stepping,
    Paused,
}

impl<'a> Live<'a> {
    /// Takes the terminal for a run of this name on this topology.
    pub fn open(name: &'a str, topology: &'a Topology, is_plain: bool) -> Result<Live<'a>, Failure> {
        let now = Instant::now();
        let scene = Scene { title: name.to_owned(), ..Scene::default() };
        let screen = Screen::open(is_plain)?;
        let (mode, fabric, trouble) = (Mode::Running, None, None);
        Ok(Live { screen, scene, topology, name, index: None, began: now, drawn: now, mode, fabric, trouble })
    }

    /// Reads the switches of Mininet for it.
    pub fn of_mininet(mut self) -> Result<Live<'a>, Failure> {
        let topology = self.topology;
        let target = |ix| Target {
            name: topology.switch(ix).name.clone(),
            address: format!("127.0.0.1:{}", grpc_port(ix)),
            device_id: device_id(ix),
        };
        let targets = topology.switch_ixs().map(target).collect();
        let options = ClientOptions::default();
        let readings = Readings::start(topology, targets, &options, thrift_address, READ)?;
        self.fabric = Some(Fabric { readings, last: None, peaks: Vec::new() });
        Ok(self)
    }

    /// Shows the switches as they are now, if they were read again.
    fn look(&mut self) -> Result<(), Failure> {
        let Some(fabric) = &mut self.fabric else { return Ok(()) };
        let Some(round) = fabric.readings.next(Duration::ZERO) else { return Ok(()) };
        let seen = top::scene(self.topology, "", fabric.last.as_ref(), &round);
        let (ports, switches, totals) = (seen.ports, seen.switches, seen.totals);
        self.scene = Scene { ports, switches, totals, ..std::mem::take(&mut self.scene) };
        top::keep_peaks(&mut fabric.peaks, &mut self.scene);
        fabric.last = Some(round);
        self.screen.show(&self.scene)
    }

    /// Draws, and does what keys ask for. `Break`: the run is to end.
    fn serve(&mut self) -> Result<ControlFlow<()>, Failure> {
        loop {
            let patience = if self.mode == Mode::Paused { FRAME } else { Duration::ZERO };
            match self.screen.ask(&self.scene, patience)? {
                Some(Ask::Quit) => return Ok(ControlFlow::Break(())),
                // Real time goes on.
                Some(Ask::Pause | Ask::Step) if self.fabric.is_some() => {}
                Some(Ask::Pause) if self.mode == Mode::Paused => self.mode = Mode::Running,
                // The next look is shown first.
                Some(Ask::Pause | Ask::Step) => self.mode = Mode::Stepping,
                Some(Ask::Link(_)) => {
                    let how = match self.fabric {
                        Some(_) => "links of Mininet are taken down by `weir top` or `ip link`",
                        None => "links of virtual time fail by `faults` of the experiment",
                    };
                    self.scene.note = how.to_owned();
                    self.screen.show(&self.scene)?;
                }
                None => {}
            }
            if interrupted() {
                return Ok(ControlFlow::Break(()));
            }
            if self.mode != Mode::Paused {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    fn failed(&mut self, failure: Failure) -> ControlFlow<()> {
        self.trouble = Some(failure);
        ControlFlow::Break(())
    }

    /// Gives the terminal back; says what was wrong with it.
    pub fn close(self) -> Result<(), Failure> {
        drop(self.screen);
        self.trouble.map_or(Ok(()), Err)
    }
}

impl Observer for Live<'_> {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        if self.index != Some(p.index) {
            (self.index, self.began) = (Some(p.index), Instant::now());
        }
        let per_second = p.packet_hops as f64 / self.began.elapsed().as_secs_f64().max(1e-3);
        self.scene.title = format!("{}  {} ({} of {})", self.name, p.scheme, p.index + 1, p.of);
        self.scene.clock = format!("{} of {}", format::duration(p.now), format::duration(p.end));
        if self.fabric.is_none() {
            self.scene.clock += &format!("  {:.2} M packet-hops/s", per_second / 1e6);
        }
        self.scene.progress = Some(p.now.as_ps() as f64 / p.end.as_ps().max(1) as f64);
        let served = self.look().and_then(|()| self.serve());
        served.unwrap_or_else(|failure| self.failed(failure))
    }

    fn keeps(&mut self, _: usize) -> bool {
        self.fabric.is_none() && (self.mode == Mode::Stepping || self.drawn.elapsed() >= FRAME)
    }

    fn keep(&mut self, part: Part) {
        if self.mode == Mode::Stepping {
            self.mode = Mode::Paused;
        }
        self.drawn = Instant::now();
        fill(&mut self.scene, self.topology, &part);
        self.scene.is_paused = self.mode == Mode::Paused;
        let word = if self.scene.is_paused { "go on" } else { "pause" };
        self.scene.keys = vec![("space", word), ("s", "step")];
        if let Err(failure) = self.screen.show(&self.scene) {
            self.trouble = Some(failure);
        }
    }
}

/// Puts what a scheme has come to into a scene.
fn fill(scene: &mut Scene, topology: &Topology, part: &Part) {
    let (trace, summary) = (&part.trace, &part.summary);
    let capacity = |name: &str| {
        let (switch, port) = name.rsplit_once(':')?;
        let link = topology.switch(topology.switch_named(switch)?).link_at(port.parse().ok()?)?;
        Some(topology.link(link).rate.as_bps() as f64)
    };
    let port = |port: &weir_experiment::results::PortSeries| {
        let load = port.utilisation.last().copied().unwrap_or(0.0);
        PortRow {
            name: port.port.clone(),
            peer: port.towards.clone(),
            is_up: true,
            load,
            rate_bps: load * capacity(&port.port).unwrap_or(0.0),
            queue: port.queue_bytes.last().copied(),
            peak: port.queue_bytes.iter().max().copied(),
        }
    };
    scene.ports = trace.ports.iter().map(port).collect();
    let rate = |name: &str| {
        let series = trace.rates.iter().find(|series| series.flow == name)?;
        Some(series.rate.last()?.as_bps() as f64)
    };
    let running = trace.flows.iter().filter(|flow| flow.fct.is_none());
    let flows = running.clone().take(FLOWS).map(|flow| {
        let name = flow.name();
        FlowRow {
            rate_bps: rate(&name),
            name: format::flow(&name),
            size: flow.size.map(|size| size.get()),
            acked: flow.acked.get(),
        }
    });
    scene.flows = flows.collect();
    let totals = [
        ("flows", running.count() as u64),
        ("finished", trace.flows.iter().filter(|flow| flow.fct.is_some()).count() as u64),
        ("drops", summary.drops.values().sum()),
        ("marks", summary.marks),
        ("retransmits", summary.retransmits),
        ("pauses", summary.pauses),
    ];
    scene.totals = totals.map(|(word, value)| (word.to_owned(), format::count(value))).into();
    if let Some(policy) = &summary.policy {
        scene.totals.push(("policy packets".to_owned(), format::count(policy.sent)));
    }
    let drops = summary.drops.iter().map(|(reason, packets)| format!("{reason} {}", format::count(*packets)));
    let drops: Vec<String> = drops.collect();
    scene.note = if drops.is_empty() { String::new() } else { format!("drops: {}", drops.join(", ")) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_experiment::Experiment;
    use weir_sim::VirtualTime;

    /// Keeps the last look before the end.
    struct Last(Option<Part>);

    impl Observer for Last {
        fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
            if p.now > Time::from_us(100) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn keeps(&mut self, _: usize) -> bool {
            true
        }
        fn keep(&mut self, part: Part) {
            self.0 = Some(part);
        }
    }

    #[test]
    fn a_look_at_a_run_shows_its_ports_and_flows() {
        let text = "\
name: live
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps}
flows: [{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 0us}]
schemes: [fncc]
duration: 400us
";
        let experiment = Experiment::parse(text, "live.yaml", "live", &[], None).unwrap();
        let mut last = Last(None);
        weir_experiment::backend::Backend::run(&VirtualTime::new(1), &experiment, &mut last).unwrap();
        let mut scene = Scene::default();
        fill(&mut scene, &experiment.topology, &last.0.unwrap());
        let port = scene.ports.iter().find(|port| port.peer == "s2").expect("the bottleneck is observed");
        assert!(port.load > 0.5 && port.rate_bps > 50e9 && port.queue.is_some(), "{port:?}");
        assert_eq!(scene.flows.len(), 2);
        assert_eq!(scene.flows[0].name, "h1→h3");
        assert!(scene.flows[0].rate_bps > Some(1e9) && scene.flows[0].acked > 0, "{:?}", scene.flows[0]);
        assert_eq!(scene.totals[0], ("flows".to_owned(), "2".to_owned()));
    }
}
