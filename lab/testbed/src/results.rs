//! Computes the results of a run from what the agents, the queue sampler and the switches' counters have measured. The
//! definitions are those of runs in virtual time (`docs/summary.md`).

use super::queue_sampler::{PortSamples, QueueSamples};
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_agent::results::{AgentResults, FlowResult, FlowState, SeriesResult};
use weir_controller::Routes;
use weir_experiment::counts::Counts;
use weir_experiment::histogram::QueueHistogram;
use weir_experiment::observations::{Observations, PortObservation};
use weir_experiment::results::{
    FlowRecord, PortSeries, RateSeries, SchemeSummary, SchemeTrace, SenderSeries,
};
use weir_experiment::slowdown::FirstSlowdown;
use weir_experiment::{Experiment, Flow};
use weir_experiment::{fct, fct_statistics, paths};
use weir_host::FlowInfo;
use weir_units::{Bandwidth, Bytes, Time};

/// All measurements of the run of one scheme.
pub(crate) struct Measurements<'a> {
    /// The experiment, with its rates and times already scaled to what the testbed can run.
    pub experiment: &'a Experiment,
    pub routes: &'a Routes,
    /// Results of the agents by host.
    pub agents: &'a BTreeMap<String, AgentResults>,
    /// Samples of all switch ports.
    pub samples: &'a QueueSamples,
    /// Counters of switches; [`results`](Self::results) adds those of hosts.
    pub counts: Counts,
    /// Quantities of senders to report.
    pub quantities: Vec<&'static str>,
    /// Sampling interval.
    pub sample_interval: Time,
    /// Base RTT `T` of all senders.
    pub base_rtt: Time,
}

impl<'a> Measurements<'a> {
    /// Returns the summary and the time series of the run.
    pub(crate) fn results(mut self) -> (SchemeSummary, SchemeTrace) {
        for agent in self.agents.values() {
            let count = |name: &str| agent.transport.get(name).copied().unwrap_or(0);
            self.counts.retransmits += count("retransmits");
            self.counts.timeouts += count("timeouts");
            self.counts.suppressions += count("suppressions");
            self.counts.add_telemetry(agent.transport.iter().map(|(name, &count)| (&**name, count)));
            for (reason, packets) in &agent.drops {
                *self.counts.drops.entry(format!("host_{reason}")).or_default() += packets;
            }
        }
        let flows: Vec<(&Flow, &FlowResult)> = self.started().collect();
        let records: Vec<FlowRecord> = flows.iter().map(|(flow, result)| self.record(flow, result)).collect();
        let recorded = self.experiment.flows.iter().take(self.experiment.recorded_flow_count());
        let observe = &self.experiment.spec.observe;
        let senders = recorded.clone().flat_map(|flow| self.senders(flow)).collect();
        let rates = if observe.rates { recorded.map(|flow| self.rates(flow)).collect() } else { Vec::new() };
        // No PFC, and no jobs, packets, policies and weighted queues are measured.
        let observations = Observations {
            end: self.end(),
            ports: self.samples.ports.iter().filter_map(|port| self.port(port)).collect(),
            flows: &records,
            goodputs: self.goodputs_in_window(&flows),
            first_slowdown: self.first_slowdown(),
            counts: std::mem::take(&mut self.counts),
            ..Observations::default()
        };
        let summary = observations.summarise(self.experiment);
        let fct = fct_statistics::statistics(
            &fct::measured(&records, observe.warmup),
            &observe.size_classes,
            self.experiment.workload_names(),
        );
        let trace = SchemeTrace {
            interval: self.sample_interval,
            end: self.end(),
            ports: self.port_series(),
            rates,
            senders,
            fct,
            flows: records,
            pauses: Vec::new(),
            // Packets are traced only in virtual time.
            packets: Vec::new(),
        };
        (summary, trace)
    }

    /// Returns the number of queue samples; 0 if queues were not observed.
    fn sample_count(&self) -> usize {
        self.samples.ports.iter().map(|port| port.queue.len()).max().unwrap_or(0)
    }

    /// Returns the time of the last sample.
    fn end(&self) -> Time {
        self.sample_interval * self.sample_count() as u64
    }

    /// Returns the sender's result of a flow. An agent reports its flows in the order of the experiment.
    pub(crate) fn flow_result(&self, flow: &Flow) -> Option<&'a FlowResult> {
        let flows_of_host = self.experiment.flows.iter().filter(|other| other.from == flow.from);
        let position = flows_of_host.into_iter().position(|other| std::ptr::eq(other, flow))?;
        self.agents.get(&self.experiment.topology.host(flow.from).name)?.flows.get(position)
    }

    /// Returns the flows that started.
    pub(crate) fn started(&self) -> impl Iterator<Item = (&'a Flow, &'a FlowResult)> + '_ {
        let results = self.experiment.flows.iter().filter_map(|flow| Some((flow, self.flow_result(flow)?)));
        results.filter(|(_, result)| result.state != FlowState::NotStarted)
    }

    /// Returns the record of a flow that has started.
    fn record(&self, flow: &Flow, result: &FlowResult) -> FlowRecord {
        let topology = &self.experiment.topology;
        FlowRecord {
            from: topology.host(flow.from).name.as_str().into(),
            to: topology.host(flow.to).name.as_str().into(),
            ordinal: flow.ordinal,
            port: flow.entropy_port,
            incast: flow.incast,
            workload: Arc::clone(&flow.workload),
            size: flow.size,
            start: flow.start,
            fct: result.fct_ns.filter(|_| result.state == FlowState::Finished).map(Time::from_ns),
            error: result.error.as_deref().map(Into::into),
            ideal: flow
                .size
                .and_then(|size| paths::ideal_completion_time(self.experiment, self.routes, flow, size)),
            acked: Bytes::new(result.acked_bytes),
            retransmits: result.retransmits,
        }
    }

    /// Aligns a time series of a flow to the samples of the run: the agent's series begins when the flow starts.
    /// Samples before and after it are 0.
    fn align_to_run(&self, flow: &Flow, values: impl Fn(&SeriesResult) -> &Vec<u64>) -> Vec<u64> {
        let mut aligned = vec![0; self.sample_count()];
        let series = self.flow_result(flow).and_then(|result| result.series.as_ref());
        let Some(series) = series else { return aligned };
        for (slot, value) in aligned.iter_mut().skip(series.first as usize).zip(values(series)) {
            *slot = *value;
        }
        aligned
    }

    /// Returns the sending rate of a flow at each sample, in bit/s.
    fn sending_rates_bps(&self, flow: &Flow) -> Vec<u64> {
        self.align_to_run(flow, |series| &series.rate_bps)
    }

    /// Returns the goodput of a flow in the interval before each sample, in bit/s.
    fn goodputs_bps(&self, flow: &Flow) -> Vec<u64> {
        self.align_to_run(flow, |series| &series.goodput_bps)
    }

    fn rates(&self, flow: &Flow) -> RateSeries {
        let rates = |values: Vec<u64>| values.into_iter().map(Bandwidth::from_bps).collect();
        RateSeries {
            flow: flow.name.clone(),
            rate: rates(self.sending_rates_bps(flow)),
            goodput: rates(self.goodputs_bps(flow)),
        }
    }

    /// Returns the quantities of `observe.sender` of a flow that its agent has recorded.
    fn senders(&self, flow: &Flow) -> Vec<SenderSeries> {
        let series = self.flow_result(flow).and_then(|result| result.series.as_ref());
        let values = |quantity: &str| -> Option<Vec<Option<f64>>> {
            let counts = |values: &[u64]| values.iter().map(|&value| Some(value as f64)).collect();
            let SeriesResult { rate_bps, window_bytes, rtt_ns, gauges, .. } = series?;
            Some(match quantity {
                "rtt" => rtt_ns.iter().map(|&ns| (ns > 0).then_some(ns as f64 / 1e3)).collect(),
                "window" => {
                    let limit = |&bytes: &u64| FlowInfo::window_limit(Bytes::new(bytes)).map(Bytes::as_f64);
                    window_bytes.iter().map(limit).collect()
                }
                "rate" => counts(rate_bps),
                gauge => gauges.get(gauge)?.iter().copied().map(Some).collect(),
            })
        };
        let align = |quantity: &'static str| {
            let mut aligned = vec![None; self.sample_count()];
            let first = series.map_or(0, |series| series.first as usize);
            let recorded = values(quantity).unwrap_or_default();
            aligned.iter_mut().skip(first).zip(recorded).for_each(|(slot, value)| *slot = value);
            SenderSeries { flow: flow.name.clone(), quantity: quantity.to_owned(), values: aligned }
        };
        self.quantities.iter().copied().map(align).collect()
    }

    fn port_rate(&self, port: &PortSamples) -> Bandwidth {
        let topology = &self.experiment.topology;
        topology.peer(port.switch, port.port).map_or(Bandwidth::ZERO, |(link, _)| topology.link(link).rate)
    }

    fn port_name(&self, port: &PortSamples) -> String {
        format!("{}:{}", self.experiment.topology.switch(port.switch).name, port.port)
    }

    /// Returns what was observed of a port; `None` without samples.
    fn port(&self, port: &PortSamples) -> Option<PortObservation> {
        let sent = port.sent.last()?.saturating_sub(*port.sent.first()?);
        let mut fresh = QueueHistogram::default();
        self.samples.fresh(port).for_each(|bytes| fresh.add(bytes));
        let (name, rate) = (self.port_name(port), self.port_rate(port));
        // The peak is the switch's own, or includes polls between two samples.
        Some(PortObservation::new(name, &fresh, port.peak, Bytes::new(sent), rate))
    }

    fn port_series(&self) -> Vec<PortSeries> {
        let observed_ports = paths::observed_ports(self.experiment, self.routes);
        let observed =
            self.samples.ports.iter().filter(|port| observed_ports.contains(&(port.switch, port.port)));
        observed
            .map(|port| {
                let rate = self.port_rate(port);
                let utilisation =
                    |bytes| PortSeries::utilisation_in(self.sample_interval, Bytes::new(bytes), rate);
                let topology = &self.experiment.topology;
                let towards =
                    topology.peer(port.switch, port.port).map(|(_, end)| topology.node_name(end.node));
                // `sent` has one entry more than `queue`, at the start: each sample covers the interval before it.
                let sent_per_interval = port.sent.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
                PortSeries {
                    port: self.port_name(port),
                    towards: towards.unwrap_or_default().to_owned(),
                    queue_bytes: port.queue.clone(),
                    utilisation: sent_per_interval.map(utilisation).collect(),
                }
            })
            .collect()
    }

    /// Returns the sum of the goodput samples in the fairness window for each flow that ran during the whole window.
    /// This is proportional to the payload acknowledged in it, which suffices for Jain's index.
    fn goodputs_in_window(&self, flows: &[(&Flow, &FlowResult)]) -> Vec<f64> {
        let window_start = self.experiment.fairness_window_start();
        let ran_throughout = flows
            .iter()
            .filter(|(flow, result)| flow.start < window_start && result.state == FlowState::Unfinished);
        let first_sample = (window_start / self.sample_interval) as usize;
        ran_throughout
            .map(|(flow, _)| self.goodputs_bps(flow).iter().skip(first_sample).map(|&bps| bps as f64).sum())
            .collect()
    }

    /// Returns the time at which the first flow slowed down after another flow had joined, rounded up to a sample;
    /// `None` if no flow joins, or the first one did not slow down.
    fn first_slowdown(&self) -> Option<Time> {
        let mut slowdown = FirstSlowdown::new(self.experiment.first_join()?, self.base_rtt);
        for (i, bps) in self.sending_rates_bps(self.experiment.flows.first()?).into_iter().enumerate() {
            // 0: the flow has not started or has ended.
            if bps > 0 {
                slowdown.observe(self.sample_interval * (i as u64 + 1), Bandwidth::from_bps(bps));
            }
        }
        slowdown.time()
    }
}
