//! A reference implementation of port algorithms in floating point, written from the papers. The ideal switch of
//! [`net`](crate::net) uses it.

use std::collections::HashSet;
use weir_host::port_algorithm::{GRANT_UNIT_BPS, PortAlgorithm, RcpParams, RoccParams};
use weir_units::{Bandwidth, Time};

/// State of one port. Rates in bit/s, sizes in bytes.
#[derive(Default)]
pub struct ReferencePort {
    rate: Option<f64>,
    at: Time,
    queue: f64,
    sent: f64,
    notified: HashSet<(usize, u32)>,
}

impl ReferencePort {
    /// Updates the rate after a packet has left: `queue` bytes remain, and `sent` bytes were sent in total. No effect
    /// before the period of `law` is over.
    pub fn on_departure(&mut self, law: &PortAlgorithm, line: Bandwidth, now: Time, queue: u64, sent: u64) {
        let (period, line) = match law {
            PortAlgorithm::Rocc(law) => (law.period, line.as_bps_f64()),
            PortAlgorithm::Rcp(law) => (law.period, line.as_bps_f64()),
            // The ideal switch reads its counters directly, so its table is always fresh.
            PortAlgorithm::IntRefresh(_) => return,
            // With one switch, only the receivers' links limit credits, and hosts limit those themselves.
            PortAlgorithm::Credits(_) => return,
            // A threshold needs no state.
            PortAlgorithm::Congestion(_) => return,
        };
        let elapsed = now.saturating_sub(self.at);
        if elapsed < period {
            return;
        }
        let (queue, sent) = (queue as f64, sent as f64);
        let mut rate = self.rate.unwrap_or(line);
        match law {
            PortAlgorithm::IntRefresh(_) | PortAlgorithm::Congestion(_) => {}
            PortAlgorithm::Rocc(law) => {
                // The port was idle since the last packet: catch up the periods in between.
                let periods = if queue == 0.0 { (elapsed / period).clamp(1, 10_000) } else { 1 };
                for _ in 0..periods {
                    rate = rocc(law, line, rate, queue, self.queue);
                    self.queue = queue;
                }
            }
            PortAlgorithm::Rcp(law) => {
                let arrived = sent - self.sent + queue - self.queue;
                rate = rcp(law, line, rate, arrived / elapsed.as_secs_f64() * 8.0, queue, elapsed);
            }
            PortAlgorithm::Credits(_) => {}
        }
        *self = ReferencePort { rate: Some(rate), at: now, queue, sent, notified: HashSet::new() };
    }

    /// Returns the fair rate in units of the grant field; `None` before the first period.
    pub fn grant(&self) -> Option<u32> {
        self.rate.map(|rate| (rate / GRANT_UNIT_BPS as f64) as u32)
    }

    /// Returns the rate to notify the flow of, at most once per period; `None` if it has been notified.
    pub fn notice(&mut self, flow: (usize, u32)) -> Option<u32> {
        let grant = self.grant()?;
        self.notified.insert(flow).then_some(grant)
    }
}

/// RoCC's controller (docs/algorithms/rocc.md#switch).
pub fn rocc(law: &RoccParams, line: f64, rate: f64, queue: f64, old: f64) -> f64 {
    let unit = line / 8.0 * law.period.as_secs_f64() * RoccParams::QUEUE_UNIT;
    let sent = line / 8.0 * law.period.as_secs_f64();
    let next = if queue >= law.q_max * sent && rate > line / 8.0 {
        law.min_share * line
    } else if queue - old >= law.q_mid * sent && rate > line / 8.0 {
        rate / 2.0
    } else {
        let mut level = 2.0;
        while rate < line / level && level < 64.0 {
            level *= 2.0;
        }
        let gain = |gain: f64, bytes: f64| gain / (level / 2.0) * bytes / unit * line * RoccParams::RATE_UNIT;
        rate - gain(law.alpha, queue - law.q_ref * sent) - gain(law.beta, queue - old)
    };
    next.clamp(law.min_share * line, line)
}

/// RCP's equation (docs/algorithms/rcp.md#switch), with `elapsed` as T.
pub fn rcp(law: &RcpParams, line: f64, rate: f64, arrivals: f64, queue: f64, elapsed: Time) -> f64 {
    let capacity = law.target * line;
    let d = law.rtt.as_secs_f64();
    let error = law.alpha * (capacity - arrivals) - law.beta * queue * 8.0 / d;
    (rate * (1.0 + elapsed.as_secs_f64() / d * error / capacity)).clamp(law.floor * line, capacity)
}
