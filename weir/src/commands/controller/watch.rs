//! `weir controller watch`: keeps switches as planned.

use super::fabric::{FabricArgs, ProgramArgs};
use super::metrics::Totals;
use super::switches::{Protocol, SwitchArgs, block_on};
use crate::console::{Console, Failure};
use crate::interrupt;
use crate::metrics::{self, MetricsOptions};
use crate::output::QueryOutput;
use serde_json::json;
use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;
use weir_client::watch::{FabricPlan, WatchEvent, WatchOptions, watch};
use weir_controller::watch::MonitorConfig;
use weir_report::format;
use weir_units::Time;

/// Capacity of the queue of output lines. If a slow terminal fills it, lines are dropped rather than blocking
/// the watcher.
const LINE_QUEUE_LEN: usize = 1024;

/// Keep switches as planned: restore, repair, and route around failed links
///
/// Probes every link between switches in both directions, with packets through the switches' CPU ports (start
/// the switches with --cpu-port 255). Routes avoid failed links and use them again after recovery, without
/// transient loops. The entries of a switch that restarts are restored, and changes by others are reverted. A
/// second `watch` with a larger --election-id takes over; the first one stands by.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Each line begins with the time in UTC. Ctrl-C stops the command; the switches keep their entries."
)]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,

    /// Interval between probes of a link
    #[arg(long, value_name = "TIME", default_value = "100ms")]
    probe_interval: Time,

    /// Consecutive lost probes after which a link is down, and consecutive received probes after which it is
    /// up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    probe_loss: u32,

    /// Do not probe; assume that all links are up
    #[arg(long)]
    no_probes: bool,

    /// Thrift port of the first switch, others consecutive; used to read port states when a switch or all its
    /// links are silent
    #[arg(long, value_name = "PORT", default_value_t = 9090)]
    thrift_base_port: u16,

    /// Interval between reads of the tables
    #[arg(long, value_name = "TIME", default_value = "5s")]
    check_interval: Time,

    /// Exit after this time
    #[arg(long = "for", value_name = "TIME")]
    duration: Option<Time>,
    #[command(flatten)]
    metrics: MetricsOptions,
    #[command(flatten)]
    output: QueryOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let min_interval = Time::from_ms(1);
    for (name, time) in [("--probe-interval", args.probe_interval), ("--check-interval", args.check_interval)]
    {
        if time < min_interval {
            return Err(Failure::Input(format!("{name} {time}: must be at least {min_interval}")));
        }
    }
    let fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    let program = args.program.load()?;
    if program.is_for_tofino() {
        return Err(Failure::input(
            "`watch` does not support Tofino: BF Runtime has no packet I/O for probes; run \
             `weir controller apply` again to write the differences",
        ));
    }
    let targets = args.switches.targets(&fabric.topology, fabric.imported(), Protocol::P4Runtime)?;
    let config = MonitorConfig {
        interval: args.probe_interval,
        loss_threshold: args.probe_loss,
        recovery_threshold: args.probe_loss,
    };
    let options = WatchOptions {
        client: args.switches.options()?,
        monitor: (!args.no_probes).then_some(config),
        thrift_base_port: args.thrift_base_port,
        check_interval: to_std(args.check_interval),
        random_seed: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64),
    };
    let fabric = FabricPlan {
        topology: fabric.topology,
        method: fabric.method,
        routes: fabric.routes,
        options: fabric.options,
    };
    let totals = Arc::new(Mutex::new(Totals::new(targets.iter().map(|target| target.name.clone()))));
    let served_totals = totals.clone();
    let metrics_listener = args.metrics.open()?;
    let serve = |listener| metrics::serve(listener, move || lock(&served_totals).page());
    let _metrics_server = metrics_listener.map(serve).transpose()?;
    let (quit_tx, mut quit_rx) = mpsc::channel(1);
    interrupt::on_signal(move || {
        // Fails only if a signal is already queued; a second one has no effect.
        let _ = quit_tx.try_send(());
    })?;

    let is_json = console.style.json;
    let (line_tx, mut line_rx) = mpsc::channel::<String>(LINE_QUEUE_LEN);
    let run_duration = args.duration.map(to_std);
    block_on(async {
        let stop = async move {
            match run_duration {
                Some(run_duration) => {
                    let _ = tokio::time::timeout(run_duration, quit_rx.recv()).await;
                }
                None => {
                    let _ = quit_rx.recv().await;
                }
            }
        };
        let on_event = move |event: WatchEvent| {
            lock(&totals).record(&event);
            // Fails if the queue is full.
            let _ = line_tx.try_send(log_line(&event.to_string(), SystemTime::now(), is_json));
        };
        let watcher =
            tokio::spawn(async move { watch(fabric, program, targets, options, on_event, stop).await });
        while let Some(line) = line_rx.recv().await {
            writeln!(console.out, "{line}")?;
            console.out.flush()?;
        }
        match watcher.await {
            Ok(result) => result.map_err(Failure::input),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    })?
}

fn lock(totals: &Mutex<Totals>) -> MutexGuard<'_, Totals> {
    totals.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Formats a line of the log.
fn log_line(event: &str, time: SystemTime, is_json: bool) -> String {
    let time = format::utc(time);
    if is_json { json!({"time": time, "notice": event}).to_string() } else { format!("{time} {event}") }
}

fn to_std(time: Time) -> Duration {
    Duration::from_nanos(time.as_ns())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_begin_with_the_utc_time() {
        let time = UNIX_EPOCH + Duration::from_millis(1_795_433_346_120);
        assert_eq!(log_line("s1 is lost", time, false), "2026-11-23T11:29:06.120Z s1 is lost");
        let parsed: serde_json::Value = serde_json::from_str(&log_line("a \"b\"", time, true)).unwrap();
        assert_eq!(parsed, json!({"time": "2026-11-23T11:29:06.120Z", "notice": "a \"b\""}));
    }
}
