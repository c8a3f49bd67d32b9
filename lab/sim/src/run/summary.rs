//! Builds [`weir_experiment::results`] from the state of a run, at its end or for a snapshot.

use super::flow_schedule::flow_info;
use super::scheme_run::SchemeRun;
use crate::counts;
use crate::flows::ActiveFlow;
use crate::network::View;
use crate::observers::{PathTrace, PauseWatchdog, PfcLog, RxStats};
use weir_controller::topology::HostIx;
use weir_experiment::observations::Observations;
use weir_experiment::results::{PacketSummary, SchemeSnapshot, SchemeSummary, SchemeTrace};
use weir_experiment::{fct, fct_statistics};
use weir_units::{Bytes, Time};

impl SchemeRun<'_> {
    /// Returns the results of scheme `index` up to now.
    pub(super) fn snapshot(&self, index: usize) -> SchemeSnapshot {
        self.snapshot_of(index, &self.network.view())
    }

    pub(super) fn snapshot_of(&self, index: usize, network: &View<'_>) -> SchemeSnapshot {
        let (summary, trace) = self.summarise(network);
        let label = self.experiment.schemes[index].label.clone();
        let (packet_hops, fingerprint) = (network.counters().packet_hops, network.fingerprint());
        let routes = self.routes.switches.iter().map(|switch| switch.forward.len()).sum();
        SchemeSnapshot { index, label, summary, trace, now: self.now, packet_hops, routes, fingerprint }
    }

    fn summarise(&self, network: &View<'_>) -> (SchemeSummary, SchemeTrace) {
        let topology = &self.experiment.topology;
        let flows = self
            .flows
            .table
            .records(|flow| flow_info(flow, network).map(|view| (view.acked, view.retransmits)));
        let pauses = PfcLog::merge(network.observers().map(|observers| &observers.basic.pfc_log), topology);
        let first_slowdown = network.observers().find_map(|observers| observers.slowdown.as_ref()?.time());
        let mut counts = counts::collect_counts(network);
        counts.add(&self.changes.pre_restart_counts);
        let goodputs = self.goodputs_in_window(network);
        let observations = Observations {
            end: self.now,
            ports: self.recorder.ports(topology, network),
            flows: &flows,
            goodputs: goodputs.iter().map(|(_, bytes)| *bytes).collect(),
            first_slowdown,
            counts,
            pauses: pauses.iter().filter(|pause| pause.is_pause).count() as u64,
            jobs: fct::job_times(self.flows.feed.job_times()),
            deadlock: self.deadlock.clone(),
            long_pauses: PauseWatchdog::merge(
                network.observers().map(|observers| &observers.basic.pause_watchdog),
                topology,
                self.now,
            ),
            policy: self.changes.summarise(self.now, network),
            packets: self.packets(network),
            queue_gbps: self.queue_gbps(&goodputs),
        };
        let summary = observations.summarise(self.experiment);
        let interval = self.experiment.spec.observe.interval;
        let end = self.now;
        let (ports, rates, senders) = self.recorder.series();
        let traces = network.observers().filter_map(|observers| observers.path_trace.as_deref());
        let packets = PathTrace::merge(traces, topology);
        let size_classes = &self.experiment.spec.observe.size_classes;
        let fct = fct_statistics::statistics(
            &fct::measured(&flows, self.experiment.spec.observe.warmup),
            size_classes,
            self.experiment.workload_names(),
        );
        (summary, SchemeTrace { interval, end, ports, rates, senders, pauses, flows, fct, packets })
    }

    /// Returns the totals of `observe.packets`; `None` if it is off.
    fn packets(&self, network: &View<'_>) -> Option<PacketSummary> {
        let all = network.observers().filter_map(|observers| observers.rx_stats.as_deref());
        let rx_stats = RxStats::merge(all)?;
        Some(PacketSummary {
            packet_hops: network.counters().packet_hops,
            link_bytes: network.directions().map(|direction| network.transmitter(direction).sent.get()).sum(),
            classes: rx_stats.summarise(),
        })
    }

    /// Returns the sender of each active flow that started before the fairness window, and the payload in bytes
    /// acknowledged within it.
    fn goodputs_in_window(&self, network: &View<'_>) -> Vec<(HostIx, f64)> {
        let goodput = |flow: &ActiveFlow| {
            let acked = flow_info(flow, network).map_or(Bytes::ZERO, |view| view.acked);
            Some((flow.from, acked.saturating_sub(flow.acked_before_window?).as_f64()))
        };
        self.flows.table.all_active().filter_map(|(_, flow)| goodput(flow)).collect()
    }

    /// Returns the sums of `goodputs` by weighted queue, in Gbit/s; empty if the experiment has no `queues`.
    fn queue_gbps(&self, goodputs: &[(HostIx, f64)]) -> Vec<f64> {
        let window = self.now.saturating_sub(self.experiment.fairness_window_start());
        let gbps =
            |bytes: f64| if window > Time::ZERO { bytes * 8.0 / window.as_us_f64() / 1e3 } else { 0.0 };
        let queues = 1..=self.experiment.spec.queues.len();
        let of_queue = |queue: usize| {
            goodputs.iter().filter(move |(from, _)| usize::from(self.experiment.data_class(*from)) == queue)
        };
        queues.map(|queue| gbps(of_queue(queue).fold(0.0, |sum, (_, bytes)| sum + bytes))).collect()
    }
}
