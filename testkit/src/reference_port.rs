//! A reference implementation of port algorithms in floating point, written from the papers. The ideal switch of
//! [`net`](crate::net) uses it.

use std::collections::HashSet;
use weir_host::port_algorithm::{GRANT_UNIT_BPS, PortAlgorithm, RcpParams, RoccParams};
use weir_units::{Bandwidth, Time};

/// State of one port. Rates are in bit/s, sizes in bytes.
#[derive(Default)]
pub struct ReferencePort {
    /// The fair rate; `None` before the first period.
    rate: Option<f64>,
    /// Time of the last computation.
    computed_at: Time,
    /// Bytes in the queue at the last computation.
    queue: f64,
    /// Total of sent bytes at the last computation.
    sent: f64,
    /// Flows (sender, message id) to which a RATE packet was sent since the last computation.
    notified_flows: HashSet<(usize, u32)>,
}

impl ReferencePort {
    /// Updates the fair rate after a packet has left a port of rate `line_rate`: `queue` bytes remain, and `sent` bytes
    /// were sent in total. No effect before the algorithm's period is over.
    pub fn on_departure(
        &mut self,
        algorithm: &PortAlgorithm,
        line_rate: Bandwidth,
        now: Time,
        queue: u64,
        sent: u64,
    ) {
        let period = match algorithm {
            PortAlgorithm::Rocc(params) => params.period,
            PortAlgorithm::Rcp(params) => params.period,
            // The ideal switch reads its counters directly, so its table is always fresh.
            PortAlgorithm::IntRefresh(_) => return,
            // With one switch, only the receivers' links limit credits, and hosts limit those themselves.
            PortAlgorithm::Credits(_) => return,
            // A threshold needs no state.
            PortAlgorithm::Congestion(_) => return,
        };
        let elapsed = now.saturating_sub(self.computed_at);
        if elapsed < period {
            return;
        }
        let (queue, sent, line_rate) = (queue as f64, sent as f64, line_rate.as_bps_f64());
        let mut rate = self.rate.unwrap_or(line_rate);
        match algorithm {
            PortAlgorithm::Rocc(params) => {
                // With an empty queue the port may have been idle, so run the periods since the last packet. The rate
                // is at its maximum long before 10,000 periods.
                let periods = if queue == 0.0 { (elapsed / period).clamp(1, 10_000) } else { 1 };
                for _ in 0..periods {
                    rate = rocc(params, line_rate, rate, queue, self.queue);
                    self.queue = queue;
                }
            }
            PortAlgorithm::Rcp(params) => {
                let arrived = sent - self.sent + queue - self.queue;
                let arrival_rate = arrived / elapsed.as_secs_f64() * 8.0;
                rate = rcp(params, line_rate, rate, arrival_rate, queue, elapsed);
            }
            // Unreachable: these have returned above.
            PortAlgorithm::IntRefresh(_) | PortAlgorithm::Credits(_) | PortAlgorithm::Congestion(_) => {}
        }
        *self =
            ReferencePort { rate: Some(rate), computed_at: now, queue, sent, notified_flows: HashSet::new() };
    }

    /// Returns the fair rate in units of the grant field; `None` before the first period.
    pub fn grant(&self) -> Option<u32> {
        self.rate.map(|rate| (rate / GRANT_UNIT_BPS as f64) as u32)
    }

    /// Returns the grant of a RATE packet to the flow; `None` if the flow was notified in this period already.
    pub fn rate_notification(&mut self, flow: (usize, u32)) -> Option<u32> {
        let grant = self.grant()?;
        self.notified_flows.insert(flow).then_some(grant)
    }
}

/// RoCC's controller (docs/algorithms/rocc.md#switch): returns the rate that follows `rate`. `previous_queue` is the
/// queue one period before.
pub fn rocc(params: &RoccParams, line_rate: f64, rate: f64, queue: f64, previous_queue: f64) -> f64 {
    let bytes_per_period = line_rate / 8.0 * params.period.as_secs_f64();
    let queue_unit = bytes_per_period * RoccParams::QUEUE_UNIT;
    let growth = queue - previous_queue;
    let next = if queue >= params.q_max * bytes_per_period && rate > line_rate / 8.0 {
        params.min_share * line_rate
    } else if growth >= params.q_mid * bytes_per_period && rate > line_rate / 8.0 {
        rate / 2.0
    } else {
        // The gains are halved each time that the rate is below half of the previous limit, at most LEVELS times.
        let mut level = 2.0;
        while rate < line_rate / level && level < 64.0 {
            level *= 2.0;
        }
        let term = |gain: f64, bytes: f64| {
            gain / (level / 2.0) * bytes / queue_unit * line_rate * RoccParams::RATE_UNIT
        };
        rate - term(params.alpha, queue - params.q_ref * bytes_per_period) - term(params.beta, growth)
    };
    next.clamp(params.min_share * line_rate, line_rate)
}

/// RCP's equation (docs/algorithms/rcp.md#switch), with `elapsed` as T: returns the rate that follows `rate`.
pub fn rcp(
    params: &RcpParams,
    line_rate: f64,
    rate: f64,
    arrival_rate: f64,
    queue: f64,
    elapsed: Time,
) -> f64 {
    let capacity = params.target * line_rate;
    let d = params.rtt.as_secs_f64();
    let error = params.alpha * (capacity - arrival_rate) - params.beta * queue * 8.0 / d;
    (rate * (1.0 + elapsed.as_secs_f64() / d * error / capacity))
        .clamp(params.min_share * line_rate, capacity)
}
