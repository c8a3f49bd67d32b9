//! Combines measurements of agents, queue sampler and counters to the results of a run, with the same definitions as in
//! virtual time (`docs/summary.md`).

use super::queue_sampler::PortSamples;
use std::collections::BTreeMap;
use weir_agent::results::{AgentResults, FlowResult, FlowState};
use weir_controller::Routes;
use weir_experiment::counts::Counts;
use weir_experiment::histogram::QueueHistogram;
use weir_experiment::results::{
    FlowRecord, PortSeries, QueueSummary, RateSeries, SchemeSummary, SchemeTrace,
};
use weir_experiment::slowdown::FirstSlowdown;
use weir_experiment::{Experiment, Flow};
use weir_experiment::{fct, layers, paths};
use weir_units::{Bandwidth, Bytes, Time};

/// All measurements of the run of one scheme.
pub struct Observations<'a> {
    /// The experiment, scaled to the rate of the run.
    pub experiment: &'a Experiment,
    pub routes: &'a Routes,
    /// Results of the agents by host.
    pub agents: &'a BTreeMap<String, AgentResults>,
    /// Samples of all switch ports.
    pub ports: &'a [PortSamples],
    /// Counters of switches; [`results`](Self::results) adds those of hosts.
    pub counts: Counts,
    /// Sampling interval.
    pub sample_interval: Time,
    /// Base RTT `T` of all senders.
    pub base_rtt: Time,
}

impl<'a> Observations<'a> {
    pub fn results(mut self) -> (SchemeSummary, SchemeTrace) {
        for agent in self.agents.values() {
            let count = |name: &str| agent.transport.get(name).copied().unwrap_or(0);
            self.counts.retransmits += count("retransmits");
            self.counts.timeouts += count("timeouts");
            self.counts.suppressions += count("suppressions");
            for (reason, packets) in &agent.drops {
                *self.counts.drops.entry(format!("host_{reason}")).or_default() += packets;
            }
        }
        let flows: Vec<(&Flow, &FlowResult)> = self.started().collect();
        let records: Vec<FlowRecord> = flows.iter().map(|(flow, result)| self.record(flow, result)).collect();
        let (queues, utilisation) = self.queues_and_utilisation();
        let watched = self.experiment.flows.iter().take(self.experiment.recorded_flow_count());
        let rates: Vec<RateSeries> = watched.map(|flow| self.rates(flow)).collect();
        let observe = &self.experiment.spec.observe;
        let topology = &self.experiment.topology;
        let layers = if observe.layers { layers::summarise(topology, &utilisation) } else { Vec::new() };
        let goodput = observe.goodput.then(|| fct::goodputs(&records, self.end())).flatten();
        let summary = SchemeSummary {
            queues,
            utilisation,
            first_slowdown_us: self.first_slowdown().map(Time::as_us_f64),
            jain: fct::jain(&self.goodputs_in_window(&flows)),
            drops: self.counts.drops.clone(),
            marks: self.counts.marks,
            pauses: 0,
            deflections: self.counts.deflections,
            retransmits: self.counts.retransmits,
            timeouts: self.counts.timeouts,
            suppressions: self.counts.suppressions,
            fct: fct::summarise(&records, &observe.size_classes),
            jobs: None,
            packets: None,
            goodput,
            layers,
            queue_gbps: Vec::new(),
            policy: None,
            deadlock: None,
        };
        let trace = SchemeTrace {
            interval: self.sample_interval,
            end: self.end(),
            ports: self.port_series(),
            rates,
            pauses: Vec::new(),
            flows: records,
            packets: Vec::new(),
        };
        (summary, trace)
    }

    fn sample_count(&self) -> usize {
        self.ports.iter().map(|port| port.queue.len()).max().unwrap_or(0)
    }

    /// Returns the time of the last sample.
    fn end(&self) -> Time {
        self.sample_interval * self.sample_count() as u64
    }

    /// Returns the sender's result of a flow. An agent reports its flows in the order of the experiment.
    pub fn flow_result(&self, flow: &Flow) -> Option<&'a FlowResult> {
        let own = self.experiment.flows.iter().filter(|other| other.from == flow.from);
        let position = own.into_iter().position(|other| std::ptr::eq(other, flow))?;
        self.agents.get(&self.experiment.topology.host(flow.from).name)?.flows.get(position)
    }

    /// Returns the flows that started.
    pub fn started(&self) -> impl Iterator<Item = (&'a Flow, &'a FlowResult)> + '_ {
        let results = self.experiment.flows.iter().filter_map(|flow| Some((flow, self.flow_result(flow)?)));
        results.filter(|(_, result)| result.state != FlowState::NotStarted)
    }

    fn record(&self, flow: &Flow, result: &FlowResult) -> FlowRecord {
        let topology = &self.experiment.topology;
        FlowRecord {
            from: topology.host(flow.from).name.as_str().into(),
            to: topology.host(flow.to).name.as_str().into(),
            ordinal: flow.ordinal,
            port: flow.entropy_port,
            incast: flow.incast,
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

    /// Resamples a series of an agent to the samples of the run.
    fn resample(&self, flow: &Flow, values: impl Fn(&FlowResult) -> Option<&Vec<u64>>) -> Vec<u64> {
        let mut all = vec![0; self.sample_count()];
        let Some(result) = self.flow_result(flow) else { return all };
        let (Some(series), Some(values)) = (&result.series, values(result)) else { return all };
        for (slot, value) in all.iter_mut().skip(series.first as usize).zip(values) {
            *slot = *value;
        }
        all
    }

    fn pacing_rates(&self, flow: &Flow) -> Vec<u64> {
        self.resample(flow, |result| result.series.as_ref().map(|series| &series.rate_bps))
    }

    fn goodputs(&self, flow: &Flow) -> Vec<u64> {
        self.resample(flow, |result| result.series.as_ref().map(|series| &series.goodput_bps))
    }

    fn rates(&self, flow: &Flow) -> RateSeries {
        let rates = |values: Vec<u64>| values.into_iter().map(Bandwidth::from_bps).collect();
        RateSeries {
            flow: flow.name.clone(),
            rate: rates(self.pacing_rates(flow)),
            goodput: rates(self.goodputs(flow)),
        }
    }

    fn port_rate(&self, port: &PortSamples) -> Bandwidth {
        let topology = &self.experiment.topology;
        topology.peer(port.switch, port.port).map_or(Bandwidth::ZERO, |(link, _)| topology.link(link).rate)
    }

    fn port_name(&self, port: &PortSamples) -> String {
        format!("{}:{}", self.experiment.topology.switch(port.switch).name, port.port)
    }

    fn queues_and_utilisation(&self) -> (BTreeMap<String, QueueSummary>, BTreeMap<String, f64>) {
        let (mut queues, mut utilisation) = (BTreeMap::new(), BTreeMap::new());
        for port in self.ports {
            let (Some(first), Some(last)) = (port.sent.first(), port.sent.last()) else { continue };
            if last == first {
                continue;
            }
            let mut histogram = QueueHistogram::default();
            port.queue.iter().for_each(|&bytes| histogram.add(bytes));
            let summary = QueueSummary {
                peak_bytes: histogram.peak().max(port.peak),
                mean_bytes: histogram.mean(),
                p99_bytes: histogram.p99().min(histogram.peak()),
            };
            queues.insert(self.port_name(port), summary);
            let possible = self.port_rate(port).as_bytes_per_sec_f64() * self.end().as_secs_f64();
            let used = (last.saturating_sub(*first) as f64 / possible.max(1.0)).min(1.0);
            utilisation.insert(self.port_name(port), used);
        }
        (queues, utilisation)
    }

    fn port_series(&self) -> Vec<PortSeries> {
        let wanted = paths::observed_ports(self.experiment, self.routes);
        let observed = self.ports.iter().filter(|port| wanted.contains(&(port.switch, port.port)));
        observed
            .map(|port| {
                let possible = self.port_rate(port).bytes_in(self.sample_interval).as_f64().max(1.0);
                let topology = &self.experiment.topology;
                let towards =
                    topology.peer(port.switch, port.port).map(|(_, end)| topology.node_name(end.node));
                let steps = port.sent.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
                PortSeries {
                    port: self.port_name(port),
                    towards: towards.unwrap_or_default().to_owned(),
                    queue_bytes: port.queue.clone(),
                    utilisation: steps.map(|bytes| bytes as f64 / possible).collect(),
                }
            })
            .collect()
    }

    /// Returns the payload acknowledged within the fairness window by each flow that ran during the whole window.
    fn goodputs_in_window(&self, flows: &[(&Flow, &FlowResult)]) -> Vec<f64> {
        let from = self.experiment.fairness_window_start();
        let candidates =
            flows.iter().filter(|(flow, result)| flow.start < from && result.state == FlowState::Unfinished);
        let first = (from / self.sample_interval) as usize;
        candidates
            .map(|(flow, _)| self.goodputs(flow).iter().skip(first).map(|&bps| bps as f64).sum())
            .collect()
    }

    /// Returns the time at which the first flow slowed down after another flow had joined, with the resolution of
    /// samples.
    fn first_slowdown(&self) -> Option<Time> {
        let mut slowdown = FirstSlowdown::new(self.experiment.first_join()?, self.base_rtt);
        for (i, bps) in self.pacing_rates(self.experiment.flows.first()?).into_iter().enumerate() {
            if bps > 0 {
                slowdown.observe(self.sample_interval * (i as u64 + 1), Bandwidth::from_bps(bps));
            }
        }
        slowdown.time()
    }
}
