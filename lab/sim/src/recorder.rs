//! Samples queues and rates during a run and turns the samples into time series and summaries.

use crate::network::View;
use crate::nodes::UNCONNECTED;
use weir_controller::topology::{SwitchIx, Topology};
use weir_experiment::histogram::QueueHistogram;
use weir_experiment::observations::PortObservation;
use weir_experiment::results::{PortSeries, RateSeries, SenderSeries};
use weir_units::{Bandwidth, Bytes, Time};

/// A sampled switch port.
struct PortProbe {
    switch: SwitchIx,
    port: u16,
    /// Number of the outgoing link direction.
    direction: u32,
    histogram: QueueHistogram,
    /// Bytes sent up to the previous sample; kept only for ports with a time series.
    sent_before: Bytes,
    /// Index into `port_series`, if a time series of this port is kept.
    series: Option<usize>,
}

/// Progress of a flow at a sample.
#[derive(Clone, Debug, Default)]
pub struct FlowSample {
    /// Sending rate; 0 before the start and after the end.
    pub rate: Bandwidth,
    /// Payload acknowledged so far.
    pub acked: Bytes,
    /// Values of [`Recorder::quantities`], in this order.
    pub sender: Vec<Option<f64>>,
}

/// The flows to sample.
pub struct SampledFlows {
    /// Names of the flows.
    pub names: Vec<String>,
    /// True to keep time series of rates.
    pub rates: bool,
    /// Quantities of senders of which to keep time series.
    pub quantities: Vec<&'static str>,
}

/// Samples every switch port and selected flows.
pub struct Recorder {
    interval: Time,
    ports: Vec<PortProbe>,
    port_series: Vec<PortSeries>,
    rate_series: Vec<RateSeries>,
    /// By flow, and for each flow by quantity.
    sender_series: Vec<SenderSeries>,
    quantities: Vec<&'static str>,
    /// Number of samples taken.
    sample_count: usize,
    /// For each flow whose rate is sampled, the payload acknowledged up to the previous sample.
    acked_before: Vec<Bytes>,
}

impl Recorder {
    /// Creates a recorder for all switch ports of `network`. `interval` is the time between samples. Time series are
    /// kept of `kept_ports` and of `flows`.
    pub fn new(
        topology: &Topology,
        network: &View<'_>,
        interval: Time,
        kept_ports: &[(SwitchIx, u16)],
        flows: SampledFlows,
    ) -> Recorder {
        let mut port_series = Vec::new();
        let mut ports = Vec::new();
        for node in network.switches() {
            let switch = node.ix;
            for (port, &direction) in node.directions.iter().enumerate() {
                if direction == UNCONNECTED {
                    continue;
                }
                let port = port as u16;
                let series = kept_ports.contains(&(switch, port)).then(|| {
                    port_series.push(PortSeries {
                        port: port_name(topology, switch, port),
                        towards: topology.node_name(network.far_end(direction)).to_owned(),
                        queue_bytes: Vec::new(),
                        utilisation: Vec::new(),
                    });
                    port_series.len() - 1
                });
                ports.push(PortProbe {
                    switch,
                    port,
                    direction,
                    histogram: QueueHistogram::default(),
                    sent_before: Bytes::ZERO,
                    series,
                });
            }
        }
        let SampledFlows { names, rates, quantities } = flows;
        let sender_of = |flow: &String| {
            let flow = flow.clone();
            let series = move |quantity: &&str| {
                let quantity = (*quantity).to_owned();
                SenderSeries { flow: flow.clone(), quantity, values: Vec::new() }
            };
            quantities.iter().map(series).collect::<Vec<_>>()
        };
        let sender_series = names.iter().flat_map(sender_of).collect();
        let acked_before = vec![Bytes::ZERO; names.len()];
        let rate_series = if rates { names } else { Vec::new() }
            .into_iter()
            .map(|flow| RateSeries { flow, rate: Vec::new(), goodput: Vec::new() })
            .collect();
        Recorder {
            interval,
            ports,
            port_series,
            rate_series,
            sender_series,
            quantities,
            sample_count: 0,
            acked_before,
        }
    }

    /// Adds a flow that has started since the last sample. Only its sender is recorded, not its rate.
    pub fn add_flow(&mut self, flow: String) {
        let values = vec![None; self.sample_count];
        self.sender_series.extend(self.quantities.iter().map(|quantity| SenderSeries {
            flow: flow.clone(),
            quantity: (*quantity).to_owned(),
            values: values.clone(),
        }));
    }

    /// Returns the sampled quantities of senders.
    pub fn quantities(&self) -> &[&'static str] {
        &self.quantities
    }

    /// Takes a sample. `flows` has one entry per sampled flow, in the order given to [`Recorder::new`], then in the order of
    /// [`add_flow`](Self::add_flow).
    pub fn sample(&mut self, network: &View<'_>, flows: &[FlowSample]) {
        for probe in &mut self.ports {
            let queued = network.switch(probe.switch).switch.queue_bytes(probe.port);
            probe.histogram.add(queued);
            if let Some(series) = probe.series {
                let transmitter = network.transmitter(probe.direction);
                let series = &mut self.port_series[series];
                series.queue_bytes.push(queued);
                let sent = transmitter.sent - probe.sent_before;
                series.utilisation.push(PortSeries::utilisation_in(self.interval, sent, transmitter.rate));
                probe.sent_before = transmitter.sent;
            }
        }
        for (i, (series, flow)) in self.rate_series.iter_mut().zip(flows).enumerate() {
            let delta = flow.acked.saturating_sub(self.acked_before[i]);
            series.rate.push(flow.rate);
            series.goodput.push(Bandwidth::from_bps_f64(delta.as_f64() * 8.0 / self.interval.as_secs_f64()));
            self.acked_before[i] = flow.acked.max(self.acked_before[i]);
        }
        let senders = flows.iter().flat_map(|flow| &flow.sender);
        self.sender_series.iter_mut().zip(senders).for_each(|(series, value)| series.values.push(*value));
        self.sample_count += 1;
    }

    /// Returns the time series of ports, of flows and of senders so far.
    pub fn series(&self) -> (Vec<PortSeries>, Vec<RateSeries>, Vec<SenderSeries>) {
        (self.port_series.clone(), self.rate_series.clone(), self.sender_series.clone())
    }

    /// Returns what was observed of every port so far, with the bytes that its transmitter counts.
    pub fn ports(&self, topology: &Topology, network: &View<'_>) -> Vec<PortObservation> {
        let observation = |probe: &PortProbe| {
            let transmitter = network.transmitter(probe.direction);
            let name = port_name(topology, probe.switch, probe.port);
            let peak = network.switch(probe.switch).switch.queues().port_occupancy(probe.port).peak_bytes;
            PortObservation::new(name, &probe.histogram, peak, transmitter.sent, transmitter.rate)
        };
        self.ports.iter().map(observation).collect()
    }
}

/// Returns `<switch>:<port>`.
pub fn port_name(topology: &Topology, switch: SwitchIx, port: u16) -> String {
    format!("{}:{port}", topology.switches[switch.0 as usize].name)
}
