use super::super::pacing::RateLimits;
use super::Dcqcn;
use crate::scheme::{Decision, FlowParams, SendingRate};
use weir_units::{Bytes, Time};

/// The reaction point of DCQCN §3.3, Algorithm 1.
#[derive(Debug)]
pub(in crate::schemes) struct ReactionPoint {
    pacing: RateLimits,
    g: f64,
    alpha_timer: Time,
    increase_timer: Time,
    byte_counter: Bytes,
    stages: u32,
    r_ai: f64,
    r_hai: f64,
    /// `R_C` and `R_T`, in bit/s.
    current: f64,
    target: f64,
    alpha: f64,
    /// State of the increase; `None` before the first CNP, at line rate.
    limiter: Option<IncreaseState>,
}

#[derive(Clone, Copy, Debug)]
struct IncreaseState {
    alpha_at: Time,
    increase_at: Time,
    by_time: u32,
    by_bytes: u32,
    bytes: Bytes,
}

impl ReactionPoint {
    pub fn new(config: &Dcqcn, flow: &FlowParams) -> ReactionPoint {
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
            limiter: None,
        }
    }

    /// Continues a running flow at the rate left by another scheme, as after a CNP but without a cut.
    pub fn resume(&mut self, now: Time, from: &SendingRate) {
        self.current = self.pacing.clamp(from.rate);
        self.target = self.current;
        if self.current < self.pacing.line_rate() {
            self.restart_timers(now);
        }
    }

    pub fn decision(&self) -> Decision {
        self.pacing.decide(self.current, self.timer())
    }

    /// Returns the decision with the rate limited to `cap`, in bit/s.
    pub fn capped_decision(&self, cap: f64) -> Decision {
        self.pacing.decide(self.current.min(cap), self.timer())
    }

    /// Returns the time of the next timer event; `None` before the first CNP.
    fn timer(&self) -> Option<Time> {
        self.limiter.map(|limiter| limiter.alpha_at.min(limiter.increase_at))
    }

    pub fn on_cnp(&mut self, now: Time) {
        self.target = self.current;
        self.current = self.pacing.clamp(self.current * (1.0 - self.alpha / 2.0));
        self.alpha = (1.0 - self.g) * self.alpha + self.g;
        self.restart_timers(now);
    }

    fn restart_timers(&mut self, now: Time) {
        self.limiter = Some(IncreaseState {
            alpha_at: now.saturating_add(self.alpha_timer),
            increase_at: now.saturating_add(self.increase_timer),
            by_time: 0,
            by_bytes: 0,
            bytes: Bytes::ZERO,
        });
    }

    /// Advances the byte counter by `bytes`. The paper counts bytes sent; a sender half learns of them when they are
    /// acknowledged.
    pub fn on_bytes_acked(&mut self, bytes: Bytes) {
        let Some(limiter) = &mut self.limiter else { return };
        limiter.bytes += bytes;
        if limiter.bytes >= self.byte_counter {
            limiter.bytes = Bytes::ZERO;
            limiter.by_bytes = limiter.by_bytes.saturating_add(1);
            self.increase();
        }
    }

    pub fn on_timer(&mut self, now: Time) {
        let Some(limiter) = &mut self.limiter else { return };
        if limiter.alpha_at <= now {
            limiter.alpha_at = now.saturating_add(self.alpha_timer);
            self.alpha *= 1.0 - self.g;
        }
        if limiter.increase_at <= now {
            limiter.increase_at = now.saturating_add(self.increase_timer);
            limiter.by_time = limiter.by_time.saturating_add(1);
            self.increase();
        }
    }

    /// Fast recovery, then additive, then hyper increase. The paper does not define the factor `i` of hyper increase:
    /// here it counts the hyper increases from 1, as in QCN; the authors' ns-3 is one ahead.
    fn increase(&mut self) {
        let Some(IncreaseState { by_time, by_bytes, .. }) = self.limiter else { return };
        if by_time.min(by_bytes) > self.stages {
            self.target += f64::from(by_time.min(by_bytes) - self.stages) * self.r_hai;
        } else if by_time.max(by_bytes) >= self.stages {
            self.target += self.r_ai;
        }
        self.target = self.target.min(self.pacing.line_rate());
        self.current = self.pacing.clamp((self.target + self.current) / 2.0);
    }
}
