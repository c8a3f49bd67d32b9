//! `weir top`: polls all switches of a fabric and shows their state.

mod reader;

use super::controller::{Protocol, SwitchArgs, ThriftArgs, model_topology, runtime};
use super::policy;
use crate::console::{Console, Failure};
use crate::interrupt::catch_ctrl_c;
use crate::live::{Colours, PortRow, SwitchRow, UserAction, View, ViewModel, WebView};
use crate::output::{QueryOutput, ServeOptions};
use reader::{Reading, SwitchReader};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use weir_client::{ClientOptions, Target, ThriftClient, ThriftError};
use weir_controller::topology::{SwitchIx, Topology};
use weir_units::{Bandwidth, Bytes, Time};

/// Time to wait for a key before new readings are checked.
const KEY_POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Time limit for the two readings of `--json`.
const READ_TIMEOUT: Duration = Duration::from_secs(30);
/// Polling interval of the policies held by the local agents, which needs a connection to each of them.
const POLICY_POLL_INTERVAL: Duration = Duration::from_secs(3);
/// Time limit for the poller to finish a read when it is dropped.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);
/// Minimum polling interval. Reading 80 switches takes about 50 ms, so a shorter interval would not be kept.
const MIN_INTERVAL: Time = Time::from_ms(50);

/// Monitor a running fabric: queues, rates, drops, marks, routes and policies, with links coloured by load
///
/// Reads the switches over P4Runtime, without being their primary controller: registers `queue_bytes` and
/// `tx_bytes`, counters `drops` and `events`, and the table `forward`. Values that a program does not provide
/// are shown as "-". Port states are read over Thrift. The key `d` takes the link of the selected port down
/// or up, also over Thrift.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Keys: arrows select a port, o orders by topology, load or queue, d takes its
link down or up, space pauses the display, q quits.

Examples:
  weir top --topology fabric.yaml
  weir top --topology fabric.yaml --json
  weir top --topology experiments/quickstart.yaml --rate 10Mbps
  weir top --topology fabric.yaml --serve 127.0.0.1:8080

Exit status: 0 success; 1 the terminal or a switch failed; 2 invalid input.")]
pub(super) struct Args {
    /// Topology file in any format that `weir controller --topology` accepts
    #[arg(long, short, value_name = "FILE")]
    topology: PathBuf,

    /// Polling interval
    #[arg(long, value_name = "TIME", default_value = "500ms")]
    interval: Time,

    /// Rate of the slowest hosts, if the switches run a scale model [default: the file's `model_rate`]
    ///
    /// `weir run --backend mininet` runs an experiment whose hosts are faster than 100Mbps at 10Mbps.
    #[arg(long, value_name = "RATE")]
    rate: Option<Bandwidth>,

    #[command(flatten)]
    switches: SwitchArgs,
    #[command(flatten)]
    thrift: ThriftArgs,
    #[command(flatten)]
    serve: ServeOptions,
    #[command(flatten)]
    output: QueryOutput,
}

/// One reading of every switch, in topology order.
pub(super) struct PollResult {
    /// Time at which the last switch was read.
    time: Instant,
    readings: Vec<Result<Reading, String>>,
    /// Policies held by the agents on this machine, with the number of hosts that hold each.
    policies: BTreeMap<String, usize>,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    if args.interval < MIN_INTERVAL {
        return Err(Failure::Input(format!("--interval {}: must be at least {MIN_INTERVAL}", args.interval)));
    }
    let kinds = &console.extensions.catalogue.topologies;
    let (topology, imported) = model_topology(&args.topology, kinds, args.rate)?;
    let targets = args.switches.targets(&topology, imported.as_ref(), Protocol::P4Runtime)?;
    let options = args.switches.options()?;
    let thrift_address = |ix| args.thrift.address(ix);
    let poller = SwitchPoller::start(&topology, targets, &options, thrift_address, args.interval)?;
    if console.style.json {
        print_state(&poller, &topology, console)
    } else {
        watch(&poller, &topology, args, console)
    }
}

/// Polls all switches in the background. Dropping it stops the polling.
pub(super) struct SwitchPoller {
    results: Option<Receiver<PollResult>>,
    runtime: Option<Runtime>,
}

impl SwitchPoller {
    /// Starts polling. `thrift_address` returns the address of a switch's Thrift server.
    pub(super) fn start(
        topology: &Topology,
        targets: Vec<Target>,
        options: &ClientOptions,
        thrift_address: impl Fn(SwitchIx) -> String,
        interval: Time,
    ) -> Result<SwitchPoller, Failure> {
        let readers = targets.into_iter().zip(topology.switch_ixs()).map(|(target, ix)| {
            let ports = topology.switch(ix).ports().map(|(port, _)| port).collect();
            SwitchReader::new(target, options.clone(), ports, thrift_address(ix))
        });
        let mut readers: Vec<SwitchReader> = readers.collect();
        let interval = Duration::from_nanos(interval.as_ns());
        // At most one result is queued while another is shown; the poller blocks until there is room.
        let (sender, results) = sync_channel(1);
        let runtime = runtime(2)?;
        runtime.spawn(async move {
            let mut tick = tokio::time::interval(interval);
            tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            let (mut policies, mut last_request) = (BTreeMap::new(), None::<Instant>);
            loop {
                tick.tick().await;
                let request =
                    last_request.is_none_or(|time| time.elapsed() >= POLICY_POLL_INTERVAL).then(|| {
                        last_request = Some(Instant::now());
                        tokio::task::spawn_blocking(policy::held_policies)
                    });
                let readings = reader::read_all(&mut readers).await;
                if let Some(request) = request {
                    policies = request.await.unwrap_or_default();
                }
                let result = PollResult { time: Instant::now(), readings, policies: policies.clone() };
                // Fails if the poller was dropped.
                if tokio::task::block_in_place(|| sender.send(result)).is_err() {
                    return;
                }
            }
        });
        Ok(SwitchPoller { results: Some(results), runtime: Some(runtime) })
    }

    /// Returns the next result; `None` if there is none within `timeout`.
    pub(super) fn next(&self, timeout: Duration) -> Option<PollResult> {
        self.results.as_ref()?.recv_timeout(timeout).ok()
    }
}

impl Drop for SwitchPoller {
    fn drop(&mut self) {
        // The channel is closed first, because the poller may block on a full channel.
        self.results = None;
        if let Some(runtime) = self.runtime.take() {
            // A read in progress may take as long as its own timeout, so it is abandoned.
            runtime.shutdown_timeout(SHUTDOWN_TIMEOUT);
        }
    }
}

/// Prints the state between two readings as JSON.
fn print_state(poller: &SwitchPoller, topology: &Topology, console: &mut Console) -> Result<(), Failure> {
    let next =
        || poller.next(READ_TIMEOUT).ok_or_else(|| Failure::work("the switches did not respond in time"));
    let (before, now) = (next()?, next()?);
    let model = view_model(topology, "", Some(&before), &now);
    let ports: Map<String, Value> = model
        .ports
        .iter()
        .map(|port| {
            let value = json!({
                "peer": port.peer, "up": port.is_up, "load": port.load, "rate_bps": port.rate_bps,
                "queue_bytes": port.queue,
            });
            (port.name.clone(), value)
        })
        .collect();
    let switches = model.switches.iter().map(|switch| {
        let value = json!({
            "routes": switch.routes, "marks": switch.marks, "drops": switch.drops, "trouble": switch.error,
        });
        (switch.name.clone(), value)
    });
    let switches: Map<String, Value> = switches.collect();
    console.print_json(&json!({"ports": ports, "switches": switches, "policies": now.policies}))?;
    let failed: Vec<String> = model
        .switches
        .iter()
        .filter_map(|switch| Some(format!("{}: {}", switch.name, switch.error.as_ref()?)))
        .collect();
    if failed.is_empty() { Ok(()) } else { Err(Failure::Work(failed.join("; "))) }
}

/// Shows the fabric on the terminal or in browsers until the user quits.
fn watch(poller: &SwitchPoller, topology: &Topology, args: &Args, console: &Console) -> Result<(), Failure> {
    let title = args.topology.display().to_string();
    let web = WebView::open(args.serve)?;
    if let Some(web) = &web {
        let _ = writeln!(io::stderr(), "Live view {}", web.url());
    }
    // With a browser view no terminal is required, so that the command can run as a service.
    let on_terminal = web.is_none() || (io::stdin().is_terminal() && io::stdout().is_terminal());
    if !on_terminal {
        catch_ctrl_c()?;
    }
    let mut view = View::open(on_terminal.then(|| Colours::of(console)), web.as_ref())?;
    let (mut last, mut shown): (Option<PollResult>, ViewModel) = (None, ViewModel::default());
    shown.title.clone_from(&title);
    shown.status = "waiting for the switches".to_owned();
    let (mut note, mut is_paused) = (String::new(), false);
    let mut peaks: Vec<u64> = Vec::new();
    view.show(&shown)?;
    loop {
        if let Some(result) = poller.next(Duration::ZERO) {
            // While the display is paused, polling continues, so that rates are correct afterwards.
            if !is_paused {
                shown = view_model(topology, &title, last.as_ref(), &result);
                update_peaks(&mut peaks, &mut shown);
                shown.note.clone_from(&note);
                view.show(&shown)?;
            }
            last = Some(result);
        }
        match view.next_action(&shown, KEY_POLL_INTERVAL)? {
            // Real time cannot be stepped.
            None | Some(UserAction::Step) => continue,
            Some(UserAction::Quit) => {
                if let Some(web) = &web {
                    web.end(String::new());
                }
                return Ok(());
            }
            Some(UserAction::Pause) => is_paused = !is_paused,
            Some(UserAction::ToggleLink(index)) => {
                let result = toggle_link(topology, |ix| args.thrift.connect(ix), &shown, index);
                note = result.unwrap_or_else(|reason| reason);
            }
        }
        shown.is_paused = is_paused;
        shown.note.clone_from(&note);
        view.show(&shown)?;
    }
}

/// Updates the maximum queue length of each port since the start of the view.
pub(super) fn update_peaks(peaks: &mut Vec<u64>, model: &mut ViewModel) {
    peaks.resize(model.ports.len(), 0);
    for (port, peak) in model.ports.iter_mut().zip(peaks) {
        *peak = (*peak).max(port.queue.unwrap_or(0));
        port.peak = port.queue.map(|_| *peak);
    }
}

/// Takes the link of a port down, or up if it is down. `index` is that of the port in [`ViewModel::ports`]. Returns a
/// description of the change, or the error.
pub(super) fn toggle_link(
    topology: &Topology,
    connect: impl Fn(SwitchIx) -> Result<ThriftClient, ThriftError>,
    model: &ViewModel,
    index: usize,
) -> Result<String, String> {
    let Some((switch, port)) = ports(topology).nth(index) else { return Err(String::new()) };
    let row = &model.ports[index];
    let interface = format!("{}-eth{port}", topology.switch(switch).name);
    let result = connect(switch).and_then(|mut client| match row.is_up {
        true => client.remove_port(port),
        false => client.add_port(port, &interface),
    });
    match result {
        Ok(()) => Ok(format!("{}: link {}", row.name, if row.is_up { "down" } else { "up" })),
        Err(error) => Err(format!("{}: {error}", row.name)),
    }
}

/// Returns every port of every switch. [`view_model`] lists the ports in the same order, so an index into
/// [`ViewModel::ports`] is also the position here.
fn ports(topology: &Topology) -> impl Iterator<Item = (SwitchIx, u16)> + '_ {
    topology.switch_ixs().flat_map(|ix| topology.switch(ix).ports().map(move |(port, _)| (ix, port)))
}

/// Computes the view from the current readings and, for rates, the previous ones.
pub(super) fn view_model(
    topology: &Topology,
    title: &str,
    before: Option<&PollResult>,
    now: &PollResult,
) -> ViewModel {
    let reading = |result: &PollResult, ix: SwitchIx| result.readings[ix.0 as usize].clone().ok();
    let seconds = before.map_or(0.0, |before| (now.time - before.time).as_secs_f64());
    let mut model = ViewModel { title: title.to_owned(), ..ViewModel::default() };
    for (ix, port) in ports(topology) {
        let current = reading(now, ix).unwrap_or_default();
        let previous = before.and_then(|before| reading(before, ix)).unwrap_or_default();
        // `tx_bytes` has 32 bits and wraps around.
        let sent = match (previous.sent_bytes.get(&port), current.sent_bytes.get(&port)) {
            (Some(&previous), Some(&current)) => {
                Bytes::new(u64::from((current as u32).wrapping_sub(previous as u32)))
            }
            _ => Bytes::ZERO,
        };
        let rate_bps = if seconds > 0.0 { sent.as_f64() * 8.0 / seconds } else { 0.0 };
        let (capacity_bps, peer) = match topology.peer(ix, port) {
            Some((link, peer)) => (topology.link(link).rate.as_bps() as f64, peer),
            None => continue,
        };
        model.ports.push(PortRow {
            name: format!("{}:{port}", topology.switch(ix).name),
            peer: topology.end_name(peer),
            is_up: !current.ports_down.contains(&port),
            load: rate_bps / capacity_bps.max(1.0),
            rate_bps,
            queue: current.queue_bytes.get(&port).copied(),
            peak: None,
        });
    }
    for ix in topology.switch_ixs() {
        let (name, reading) = (topology.switch(ix).name.clone(), &now.readings[ix.0 as usize]);
        model.switches.push(match reading {
            Ok(reading) => SwitchRow {
                name,
                error: None,
                routes: reading.routes,
                marks: reading.marks,
                drops: reading.drops,
            },
            Err(reason) => SwitchRow { name, error: Some(reason.clone()), ..SwitchRow::default() },
        });
    }
    let sum = |value: fn(&SwitchRow) -> Option<u64>| model.switches.iter().filter_map(value).sum::<u64>();
    let (drops, marks, routes) =
        (sum(|switch| switch.drops), sum(|switch| switch.marks), sum(|switch| switch.routes));
    let responding = model.switches.iter().filter(|switch| switch.error.is_none()).count();
    let ports_down = model.ports.iter().filter(|port| !port.is_up).count();
    model.status = format!("{responding} of {} switches respond", model.switches.len());
    let totals = [("drops", drops), ("marks", marks), ("routes", routes), ("ports down", ports_down as u64)];
    model.totals = totals.map(|(label, value)| (label.to_owned(), weir_report::format::count(value))).into();
    let hosts: usize = now.policies.values().sum();
    let policies = now.policies.iter();
    model
        .totals
        .extend(policies.map(|(policy, n)| (format!("policy {policy}"), format!("{n} of {hosts} hosts"))));
    model.keys = vec![("space", "pause"), ("d", "link down/up")];
    model
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_controller::topology::build;

    #[test]
    fn rates_are_computed_from_two_readings_despite_wraparound() {
        let spec = "{kind: dumbbell, switches: 2, senders: 1, receivers: 1, rate: 10Mbps}";
        let topology = build(&serde_yaml::from_str(spec).unwrap()).unwrap();
        let start = Instant::now();
        let reading = |sent: u64, queue: u64| Reading {
            sent_bytes: [(1, 0), (2, sent)].into(),
            queue_bytes: [(1, 0), (2, queue)].into(),
            routes: Some(2),
            ..Reading::default()
        };
        let before = PollResult {
            time: start,
            readings: vec![Ok(reading(0xffff_ff00, 9)), Ok(reading(0, 0))],
            policies: BTreeMap::new(),
        };
        let now = PollResult {
            time: start + Duration::from_secs(1),
            readings: vec![Ok(reading(1_000_000 - 0x100, 5)), Err("no answer".into())],
            policies: [("3 by 10.0.1.1".to_owned(), 2), ("none".to_owned(), 1)].into(),
        };
        let model = view_model(&topology, "x", Some(&before), &now);
        let port = &model.ports[1];
        assert_eq!((port.rate_bps, port.load, port.queue), (8e6, 0.8, Some(5)));
        assert_eq!(model.ports.len(), 4);
        assert_eq!(model.switches[1].error.as_deref(), Some("no answer"));
        assert_eq!(model.status, "1 of 2 switches respond");
        assert!(model.totals.contains(&("policy 3 by 10.0.1.1".into(), "2 of 3 hosts".into())));
    }
}
