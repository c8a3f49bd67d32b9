//! `weir run --live` and `--serve`: shows a run on the terminal or in browsers while it is in progress.

use super::args::{Args, BackendKind};
use crate::commands::progress::ProgressBars;
use crate::commands::top::{self, PollResult, SwitchPoller};
use crate::console::{Console, Failure};
use crate::interrupt::interrupt;
use crate::live::{Colours, FlowRow, PortRow, UserAction, View, ViewModel};
use std::collections::{BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use weir_client::{ClientOptions, Target, ThriftClient};
use weir_controller::topology::{LinkIx, Topology};
use weir_experiment::results::SchemeSnapshot;
use weir_experiment::{Experiment, LinkChange, Observer, Progress};
use weir_report::format;
use weir_testbed::{device_id, grpc_port, thrift_address};
use weir_units::Time;

/// Minimum interval between snapshots of a run in virtual time.
const FRAME_INTERVAL: Duration = Duration::from_millis(100);
/// Polling interval of Mininet's switches.
const SWITCH_POLL_INTERVAL: Time = Time::from_ms(500);
/// Maximum number of flows shown.
const MAX_FLOWS: usize = 200;

pub(super) use crate::live::WebView;

/// The display of a run: a progress bar per scheme, or a live view of the fabric.
pub(super) enum ProgressView<'a> {
    Bars(ProgressBars),
    Live(Box<LiveView<'a>>),
}

impl<'a> ProgressView<'a> {
    /// Opens the display that the arguments ask for. `web` is the server for browsers.
    pub(super) fn open(
        experiment: &'a Experiment,
        args: &Args,
        web: Option<&'a WebView>,
        console: &Console,
    ) -> Result<ProgressView<'a>, Failure> {
        if !args.has_live_view() {
            return Ok(ProgressView::Bars(ProgressBars::new(console.show_progress)));
        }
        let view = View::open(args.live.then(|| Colours::of(console)), web)?;
        let mode = if args.waits_for_browser() { Mode::Stepping } else { Mode::Running };
        let live = LiveView::open(experiment, view, mode);
        let live = if args.backend == BackendKind::Mininet { live.for_mininet()? } else { live };
        Ok(ProgressView::Live(Box::new(live)))
    }

    /// Restores the terminal. Returns the error of the view, if any, and the descriptions of link changes.
    pub(super) fn close(self) -> (Result<(), Failure>, Vec<String>) {
        match self {
            ProgressView::Live(live) => live.close(),
            ProgressView::Bars(_) => (Ok(()), Vec::new()),
        }
    }
}

impl Observer for ProgressView<'_> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        match self {
            ProgressView::Bars(bars) => bars.progress(progress),
            ProgressView::Live(live) => live.progress(progress),
        }
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        match self {
            ProgressView::Bars(bars) => bars.wants_snapshot(index),
            ProgressView::Live(live) => live.wants_snapshot(index),
        }
    }
    fn snapshot(&mut self, snapshot: SchemeSnapshot) {
        match self {
            ProgressView::Bars(bars) => bars.snapshot(snapshot),
            ProgressView::Live(live) => live.snapshot(snapshot),
        }
    }
    fn link_change(&mut self) -> Option<LinkChange> {
        match self {
            ProgressView::Bars(_) => None,
            ProgressView::Live(live) => live.link_change(),
        }
    }
    fn paused(&self) -> Duration {
        match self {
            ProgressView::Bars(_) => Duration::ZERO,
            ProgressView::Live(live) => live.paused(),
        }
    }
}

/// The live view of a run, and the user's pending requests.
pub(super) struct LiveView<'a> {
    view: View<'a>,
    model: ViewModel,
    topology: &'a Topology,
    experiment_name: &'a str,
    /// Index of the running scheme; `None` before the first one.
    scheme_index: Option<usize>,
    /// Start of the running scheme, moved forward by the time of its pauses.
    scheme_start: Instant,
    /// Time of the last snapshot.
    last_snapshot: Instant,
    mode: Mode,
    /// Time for which the user has paused the run.
    paused_time: Duration,
    /// Links of the running scheme that the user has taken down.
    links_down: BTreeSet<LinkIx>,
    /// Link changes that the backend has not yet fetched; they apply when virtual time continues.
    pending_link_changes: VecDeque<LinkChange>,
    /// Descriptions of the user's link changes, for the report.
    link_change_log: Vec<String>,
    /// Time in the run at the last progress report.
    now: Time,
    /// The switches, if they run in real time; `None` in virtual time.
    fabric: Option<PolledFabric>,
    /// The error that ended the view.
    error: Option<Failure>,
}

/// The state of switches that run in real time.
struct PolledFabric {
    poller: SwitchPoller,
    /// The previous result, for rates.
    last: Option<PollResult>,
    /// Maximum queue length of each port in bytes.
    peaks: Vec<u64>,
}

/// The user's control over virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Running,
    /// Runs until the next snapshot, shows it, and then pauses.
    Stepping,
    Paused,
}

impl<'a> LiveView<'a> {
    /// Creates the view of a run. With [`Mode::Stepping`], virtual time pauses at the first snapshot until the user
    /// continues.
    fn open(experiment: &'a Experiment, view: View<'a>, mode: Mode) -> LiveView<'a> {
        let now = Instant::now();
        let (experiment_name, topology) = (&*experiment.spec.name, &experiment.topology);
        let model = ViewModel { title: experiment_name.to_owned(), ..ViewModel::default() };
        LiveView {
            view,
            model,
            topology,
            experiment_name,
            scheme_index: None,
            scheme_start: now,
            last_snapshot: now,
            mode,
            paused_time: Duration::ZERO,
            links_down: BTreeSet::new(),
            pending_link_changes: VecDeque::new(),
            link_change_log: Vec::new(),
            now: Time::ZERO,
            fabric: None,
            error: None,
        }
    }

    /// Configures the view for a run in Mininet, whose switches are polled. Time cannot be paused there.
    fn for_mininet(mut self) -> Result<LiveView<'a>, Failure> {
        let topology = self.topology;
        let target = |ix| Target {
            name: topology.switch(ix).name.clone(),
            address: format!("127.0.0.1:{}", grpc_port(ix)),
            device_id: device_id(ix),
        };
        let targets = topology.switch_ixs().map(target).collect();
        let options = ClientOptions::default();
        let poller = SwitchPoller::start(topology, targets, &options, thrift_address, SWITCH_POLL_INTERVAL)?;
        self.fabric = Some(PolledFabric { poller, last: None, peaks: Vec::new() });
        self.mode = Mode::Running;
        Ok(self)
    }

    /// Shows the latest readings of the switches, if there are new ones.
    fn poll_switches(&mut self) -> Result<(), Failure> {
        let Some(fabric) = &mut self.fabric else { return Ok(()) };
        let Some(result) = fabric.poller.next(Duration::ZERO) else { return Ok(()) };
        let ViewModel { ports, switches, totals, .. } =
            top::view_model(self.topology, "", fabric.last.as_ref(), &result);
        let keys = vec![("d", "link down/up")];
        self.model = ViewModel { ports, switches, totals, keys, ..std::mem::take(&mut self.model) };
        top::update_peaks(&mut fabric.peaks, &mut self.model);
        self.model.flows_note =
            "Known at the end of the run: hosts in Mininet write their flows when they end.";
        fabric.last = Some(result);
        self.view.show(&self.model)
    }

    /// Handles the user's requests; blocks while paused. Returns `Break` if the run should end.
    fn handle_actions(&mut self) -> Result<ControlFlow<()>, Failure> {
        let start = Instant::now();
        let was_paused = self.mode == Mode::Paused;
        loop {
            let timeout = if self.mode == Mode::Paused { FRAME_INTERVAL } else { Duration::ZERO };
            match self.view.next_action(&self.model, timeout)? {
                Some(UserAction::Quit) => {
                    // The Mininet backend checks only the interrupt flag.
                    interrupt();
                    return Ok(ControlFlow::Break(()));
                }
                // Real time cannot be paused or stepped.
                Some(UserAction::Pause | UserAction::Step) if self.fabric.is_some() => {}
                Some(UserAction::Pause) if self.mode == Mode::Paused => self.mode = Mode::Running,
                // The run pauses after the next snapshot is shown.
                Some(UserAction::Pause | UserAction::Step) => self.mode = Mode::Stepping,
                Some(UserAction::ToggleLink(index)) => {
                    self.model.note = self.toggle_link(index);
                    self.view.show(&self.model)?;
                }
                None => {}
            }
            if self.mode != Mode::Paused {
                if was_paused {
                    let paused_time = start.elapsed();
                    self.scheme_start += paused_time;
                    self.paused_time += paused_time;
                }
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    /// Takes the link of the port at `index` of the view down, or up if it is down. Returns a description of the
    /// change, or the error.
    fn toggle_link(&mut self, index: usize) -> String {
        let Some(port) = self.model.ports.get_mut(index) else { return String::new() };
        let (scheme, now) = (self.scheme_index.unwrap_or(0) + 1, format::duration(self.now));
        if self.fabric.is_some() {
            let connect = |ix| ThriftClient::connect(&thrift_address(ix));
            let result = top::toggle_link(self.topology, connect, &self.model, index);
            self.link_change_log
                .extend(result.iter().map(|change| format!("{change} at {now} of scheme {scheme}")));
            return result.unwrap_or_else(|reason| reason);
        }
        let Some(link) = link_of(self.topology, &port.name) else { return String::new() };
        let is_up = self.links_down.remove(&link);
        if !is_up {
            self.links_down.insert(link);
        }
        port.is_up = is_up;
        self.pending_link_changes.push_back(LinkChange { link, is_up });
        let note = format!("{}: link {}", port.name, if is_up { "up" } else { "down" });
        self.link_change_log.push(format!("{note} at {now} of scheme {scheme}"));
        note
    }

    /// Ends the run because the view has failed.
    fn stop_with(&mut self, failure: Failure) -> ControlFlow<()> {
        self.error = Some(failure);
        ControlFlow::Break(())
    }

    /// Restores the terminal. Returns the error of the view, if any, and the descriptions of link changes.
    fn close(self) -> (Result<(), Failure>, Vec<String>) {
        drop(self.view);
        (self.error.map_or(Ok(()), Err), self.link_change_log)
    }
}

impl Observer for LiveView<'_> {
    fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
        let &Progress { scheme, index, scheme_count, now, end, packet_hops } = progress;
        if self.scheme_index != Some(index) {
            (self.scheme_index, self.scheme_start) = (Some(index), Instant::now());
            // Every scheme starts with all links up.
            self.links_down.clear();
        }
        self.now = now;
        let per_second = packet_hops as f64 / self.scheme_start.elapsed().as_secs_f64().max(1e-3);
        self.model.title = format!("{}  {scheme} ({} of {scheme_count})", self.experiment_name, index + 1);
        self.model.status = format!("{} of {}", format::duration(now), format::duration(end));
        // Mininet's switches report packet-hops only at the end.
        if self.fabric.is_none() {
            self.model.status += &format!("  {:.2} M packet-hops/s", per_second / 1e6);
        }
        self.model.progress = Some(now.as_ps() as f64 / end.as_ps().max(1) as f64);
        let outcome = self.poll_switches().and_then(|()| self.handle_actions());
        outcome.unwrap_or_else(|failure| self.stop_with(failure))
    }

    fn wants_snapshot(&mut self, _: usize) -> bool {
        self.fabric.is_none()
            && (self.mode == Mode::Stepping || self.last_snapshot.elapsed() >= FRAME_INTERVAL)
    }

    fn snapshot(&mut self, snapshot: SchemeSnapshot) {
        if self.mode == Mode::Stepping {
            self.mode = Mode::Paused;
        }
        self.last_snapshot = Instant::now();
        fill_from_snapshot(&mut self.model, self.topology, &snapshot);
        self.model.totals.push(("routes".to_owned(), format::count(snapshot.routes as u64)));
        for port in &mut self.model.ports {
            port.is_up =
                !link_of(self.topology, &port.name).is_some_and(|link| self.links_down.contains(&link));
        }
        self.model.is_paused = self.mode == Mode::Paused;
        let pause_label = if self.model.is_paused { "continue" } else { "pause" };
        self.model.keys = vec![("space", pause_label), ("s", "step"), ("d", "link down/up")];
        if let Err(failure) = self.view.show(&self.model) {
            self.error = Some(failure);
        }
    }

    fn link_change(&mut self) -> Option<LinkChange> {
        self.pending_link_changes.pop_front()
    }

    fn paused(&self) -> Duration {
        self.paused_time
    }
}

/// Returns the link of a port with a name such as `s1:2`.
fn link_of(topology: &Topology, port: &str) -> Option<LinkIx> {
    let (switch, port) = port.rsplit_once(':')?;
    topology.switch(topology.switch_named(switch)?).link_at(port.parse().ok()?)
}

/// Fills the view with the snapshot of a scheme.
fn fill_from_snapshot(model: &mut ViewModel, topology: &Topology, snapshot: &SchemeSnapshot) {
    let (trace, summary) = (&snapshot.trace, &snapshot.summary);
    let capacity = |name: &str| Some(topology.link(link_of(topology, name)?).rate.as_bps() as f64);
    let port = |port: &weir_experiment::results::PortSeries| {
        // All bytes of a frame are counted when its transmission begins, so the last sample may exceed 100 %.
        let load = port.utilisation.last().copied().unwrap_or(0.0).min(1.0);
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
    model.ports = trace.ports.iter().map(port).collect();
    let rate = |name: &str| {
        let series = trace.rates.iter().find(|series| series.flow == name)?;
        Some(series.rate.last()?.as_bps() as f64)
    };
    let active = trace.flows.iter().filter(|flow| flow.fct.is_none());
    let flows = active.clone().take(MAX_FLOWS).map(|flow| {
        let name = flow.name();
        FlowRow {
            rate_bps: rate(&name),
            name: format::flow(&name),
            size: flow.size.map(|size| size.get()),
            acked: flow.acked.get(),
        }
    });
    model.flows = flows.collect();
    let totals = [
        ("flows", active.count() as u64),
        ("finished", trace.flows.iter().filter(|flow| flow.fct.is_some()).count() as u64),
        ("drops", summary.drops.values().sum()),
        ("marks", summary.marks),
        ("retransmits", summary.retransmits),
        ("pauses", summary.pauses),
    ];
    model.totals = totals.map(|(label, value)| (label.to_owned(), format::count(value))).into();
    if let Some(policy) = &summary.policy {
        model.totals.push(("policy packets".to_owned(), format::count(policy.sent)));
        if let Some(newest) = policy.sets.last() {
            let hosts = topology.hosts.len();
            model.totals.push((
                format!("hosts with policy {}", policy.sets.len()),
                format!("{} of {hosts}", newest.hosts),
            ));
        }
    }
    let drops = summary.drops.iter().map(|(reason, packets)| format!("{reason} {}", format::count(*packets)));
    let drops: Vec<String> = drops.collect();
    model.note = match drops.is_empty() {
        true if trace.ports.is_empty() => "no ports observed; use --set observe.ports=all".to_owned(),
        true => String::new(),
        false => format!("drops: {}", drops.join(", ")),
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_sim::Simulation;

    /// Observer that keeps the last snapshot.
    struct LastSnapshot(Option<SchemeSnapshot>);

    impl Observer for LastSnapshot {
        fn progress(&mut self, progress: &Progress<'_>) -> ControlFlow<()> {
            if progress.now > Time::from_us(100) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
        fn wants_snapshot(&mut self, _: usize) -> bool {
            true
        }
        fn snapshot(&mut self, snapshot: SchemeSnapshot) {
            self.0 = Some(snapshot);
        }
    }

    #[test]
    fn a_snapshot_shows_ports_and_flows() {
        let text = "\
name: live
topology: {kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 100Gbps}
flows: [{from: h1, to: h3, start: 0us}, {from: h2, to: h3, start: 0us}]
schemes: [fncc]
duration: 400us
";
        let experiment = Experiment::parse(text, "live.yaml", "live", &[], None).unwrap();
        let mut last = LastSnapshot(None);
        weir_experiment::backend::Backend::run(&Simulation::new(1), &experiment, &mut last).unwrap();
        let mut model = ViewModel::default();
        fill_from_snapshot(&mut model, &experiment.topology, &last.0.unwrap());
        let port = model.ports.iter().find(|port| port.peer == "s2").expect("the bottleneck is observed");
        assert!(port.load > 0.5 && port.rate_bps > 50e9 && port.queue.is_some(), "{port:?}");
        assert_eq!(model.flows.len(), 2);
        assert_eq!(model.flows[0].name, "h1→h3");
        assert!(model.flows[0].rate_bps > Some(1e9) && model.flows[0].acked > 0, "{:?}", model.flows[0]);
        assert_eq!(model.totals[0], ("flows".to_owned(), "2".to_owned()));
    }
}
