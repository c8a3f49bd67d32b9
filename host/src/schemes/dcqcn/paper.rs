use super::super::pacing::RateLimits;
use super::Dcqcn;
use crate::scheme::{Decision, FlowParams, GaugeReporter, SendingRate};
use weir_units::{Bytes, Time};

/// The reaction point of DCQCN §3.3, Algorithm 1.
#[derive(Debug)]
pub(in crate::schemes) struct ReactionPoint {
    pacing: RateLimits,
    g: f64,
    alpha_timer: Time,
    increase_timer: Time,
    byte_counter: Bytes,
    /// The paper's F: number of increases in fast recovery.
    stages: u32,
    /// Additive increase in bit/s.
    r_ai: f64,
    /// Hyper increase in bit/s.
    r_hai: f64,
    /// `R_C` in bit/s.
    current: f64,
    /// `R_T` in bit/s.
    target: f64,
    alpha: f64,
    /// State of the increase; `None` before the first CNP, at line rate.
    increase_state: Option<IncreaseState>,
}

#[derive(Clone, Copy, Debug)]
struct IncreaseState {
    /// Time of the next decay of alpha.
    decay_at: Time,
    /// Time of the next increase by the timer.
    increase_at: Time,
    /// Number of increases by the timer since the last CNP: the paper's T.
    timer_increases: u32,
    /// Number of increases by the byte counter since the last CNP: the paper's BC.
    byte_increases: u32,
    /// Bytes since the last increase by the byte counter.
    bytes: Bytes,
}

impl ReactionPoint {
    pub(crate) fn new(config: &Dcqcn, flow: &FlowParams) -> ReactionPoint {
        let pacing = RateLimits::new(&config.pacing, flow);
        ReactionPoint {
            pacing,
            g: config.g,
            alpha_timer: config.alpha_timer(),
            increase_timer: config.increase_timer(),
            byte_counter: config.byte_counter,
            stages: config.stages(),
            r_ai: config.r_ai(flow.nic_rate),
            r_hai: config.r_hai(flow.nic_rate),
            current: pacing.line_rate(),
            target: pacing.line_rate(),
            alpha: 1.0,
            increase_state: None,
        }
    }

    /// Continues a running flow at the rate left by another scheme, as after a CNP but without a cut.
    pub(crate) fn resume(&mut self, now: Time, from: &SendingRate) {
        self.current = self.pacing.clamp(from.rate);
        self.target = self.current;
        if self.current < self.pacing.line_rate() {
            self.restart_timers(now);
        }
    }

    /// Reports alpha and the target rate in bit/s.
    pub(crate) fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("alpha", self.alpha);
        report("target_rate", self.target);
    }

    pub(crate) fn decision(&self) -> Decision {
        self.pacing.decide(self.current, self.timer())
    }

    /// Returns the decision with the rate limited to `cap`, in bit/s.
    pub(crate) fn capped_decision(&self, cap: f64) -> Decision {
        self.pacing.decide(self.current.min(cap), self.timer())
    }

    /// Returns the time of the next timer event; `None` before the first CNP.
    fn timer(&self) -> Option<Time> {
        self.increase_state.map(|increase_state| increase_state.decay_at.min(increase_state.increase_at))
    }

    pub(crate) fn on_cnp(&mut self, now: Time) {
        self.target = self.current;
        self.current = self.pacing.clamp(self.current * (1.0 - self.alpha / 2.0));
        self.alpha = (1.0 - self.g) * self.alpha + self.g;
        self.restart_timers(now);
    }

    fn restart_timers(&mut self, now: Time) {
        self.increase_state = Some(IncreaseState {
            decay_at: now.saturating_add(self.alpha_timer),
            increase_at: now.saturating_add(self.increase_timer),
            timer_increases: 0,
            byte_increases: 0,
            bytes: Bytes::ZERO,
        });
    }

    /// Advances the byte counter by `bytes`. The paper counts bytes when they are sent; a sender half sees them only
    /// when they are acknowledged.
    pub(crate) fn on_bytes_acked(&mut self, bytes: Bytes) {
        let Some(increase_state) = &mut self.increase_state else { return };
        increase_state.bytes += bytes;
        if increase_state.bytes >= self.byte_counter {
            increase_state.bytes = Bytes::ZERO;
            increase_state.byte_increases = increase_state.byte_increases.saturating_add(1);
            self.increase();
        }
    }

    pub(crate) fn on_timer(&mut self, now: Time) {
        let Some(increase_state) = &mut self.increase_state else { return };
        if increase_state.decay_at <= now {
            increase_state.decay_at = now.saturating_add(self.alpha_timer);
            self.alpha *= 1.0 - self.g;
        }
        if increase_state.increase_at <= now {
            increase_state.increase_at = now.saturating_add(self.increase_timer);
            increase_state.timer_increases = increase_state.timer_increases.saturating_add(1);
            self.increase();
        }
    }

    /// Fast recovery, then additive, then hyper increase. The paper does not define the factor `i` of hyper increase:
    /// here it counts the hyper increases from 1, as in QCN; in the authors' ns-3 code it starts at 2.
    fn increase(&mut self) {
        let Some(IncreaseState { timer_increases, byte_increases, .. }) = self.increase_state else { return };
        if timer_increases.min(byte_increases) > self.stages {
            self.target += f64::from(timer_increases.min(byte_increases) - self.stages) * self.r_hai;
        } else if timer_increases.max(byte_increases) >= self.stages {
            self.target += self.r_ai;
        }
        self.target = self.target.min(self.pacing.line_rate());
        self.current = self.pacing.clamp((self.target + self.current) / 2.0);
    }
}
