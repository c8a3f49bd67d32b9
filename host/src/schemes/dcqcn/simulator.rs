use super::super::pacing::RateLimits;
use super::Dcqcn;
use crate::scheme::{Decision, FlowParams, GaugeReporter, SendingRate};
use weir_units::Time;

/// The reaction point of the HPCC simulator (`rdma-hw.cc:618-739`): a mark sets two flags. The timers for alpha and for
/// the decrease each evaluate and clear one of them; a third timer increases the rate.
#[derive(Debug)]
pub(super) struct Simulator {
    pacing: RateLimits,
    g: f64,
    alpha_timer: Time,
    decrease_timer: Time,
    increase_timer: Time,
    /// The paper's F: number of increases in fast recovery.
    stages: u32,
    /// Additive increase in bit/s.
    r_ai: f64,
    /// Hyper increase in bit/s.
    r_hai: f64,
    clamp_target: bool,
    /// `R_C` in bit/s.
    current: f64,
    /// `R_T` in bit/s.
    target: f64,
    alpha: f64,
    /// Number of increases since the last cut.
    stage: u32,
    /// `None` before the first mark.
    timers: Option<Timers>,
}

#[derive(Clone, Copy, Debug)]
struct Timers {
    alpha_at: Time,
    decrease_at: Time,
    /// `None` before the first cut.
    increase_at: Option<Time>,
    /// True if a mark arrived since the last evaluation of alpha.
    has_mark_for_alpha: bool,
    /// True if a mark arrived since the last evaluation of the decrease.
    has_mark_for_decrease: bool,
}

/// Delay of the decrease timer against the alpha timer, so that alpha is evaluated first whenever both would be due at
/// the same time, as in the simulator.
const DECREASE_OFFSET: Time = Time::from_ns(1);

impl Simulator {
    pub(super) fn new(config: &Dcqcn, flow: &FlowParams) -> Simulator {
        let pacing = RateLimits::new(&config.pacing, flow);
        Simulator {
            pacing,
            g: config.g,
            alpha_timer: config.alpha_timer(),
            decrease_timer: config.decrease_timer,
            increase_timer: config.increase_timer(),
            stages: config.stages(),
            r_ai: config.r_ai(flow.nic_rate),
            r_hai: config.r_hai(flow.nic_rate),
            clamp_target: config.clamp_target,
            current: pacing.line_rate(),
            target: pacing.line_rate(),
            alpha: 1.0,
            stage: 0,
            timers: None,
        }
    }

    /// Continues a running flow at the rate left by another scheme, as after a cut.
    pub(super) fn resume(&mut self, now: Time, from: &SendingRate) {
        self.current = self.pacing.clamp(from.rate);
        self.target = self.current;
        if self.current < self.pacing.line_rate() {
            self.timers = Some(Timers {
                alpha_at: now.saturating_add(self.alpha_timer),
                decrease_at: now.saturating_add(self.decrease_timer).saturating_add(DECREASE_OFFSET),
                increase_at: Some(now.saturating_add(self.increase_timer)),
                has_mark_for_alpha: false,
                has_mark_for_decrease: false,
            });
        }
    }

    /// Reports alpha and the target rate in bit/s.
    pub(super) fn gauges(&self, report: &mut GaugeReporter<'_>) {
        report("alpha", self.alpha);
        report("target_rate", self.target);
    }

    pub(super) fn decision(&self) -> Decision {
        let timer = self.timers.map(|t| {
            let next = t.alpha_at.min(t.decrease_at);
            t.increase_at.map_or(next, |at| next.min(at))
        });
        self.pacing.decide(self.current, timer)
    }

    /// Handles an ACK with a mark. The first one also starts the timers.
    pub(super) fn on_mark(&mut self, now: Time) {
        let timers = self.timers.get_or_insert(Timers {
            alpha_at: now.saturating_add(self.alpha_timer),
            decrease_at: now.saturating_add(self.decrease_timer).saturating_add(DECREASE_OFFSET),
            increase_at: None,
            has_mark_for_alpha: true,
            has_mark_for_decrease: true,
        });
        timers.has_mark_for_alpha = true;
        timers.has_mark_for_decrease = true;
    }

    pub(super) fn on_timer(&mut self, now: Time) {
        let Some(timers) = &mut self.timers else { return };
        if timers.alpha_at <= now {
            timers.alpha_at = now.saturating_add(self.alpha_timer);
            let sample = if timers.has_mark_for_alpha { self.g } else { 0.0 };
            self.alpha = (1.0 - self.g) * self.alpha + sample;
            timers.has_mark_for_alpha = false;
        }
        if timers.increase_at.is_some_and(|at| at <= now) {
            timers.increase_at = Some(now.saturating_add(self.increase_timer));
            if self.stage > self.stages {
                self.target += self.r_hai;
            } else if self.stage == self.stages {
                self.target += self.r_ai;
            }
            self.stage = self.stage.saturating_add(1);
            self.target = self.target.min(self.pacing.line_rate());
            self.current = self.pacing.clamp((self.target + self.current) / 2.0);
        }
        if timers.decrease_at <= now {
            timers.decrease_at = now.saturating_add(self.decrease_timer);
            if timers.has_mark_for_decrease {
                if self.clamp_target || self.stage != 0 {
                    self.target = self.current;
                }
                self.current = self.pacing.clamp(self.current * (1.0 - self.alpha / 2.0));
                self.stage = 0;
                timers.has_mark_for_decrease = false;
                timers.increase_at = Some(now.saturating_add(self.increase_timer));
            }
        }
    }
}
