use super::AgentError;
use rustix::time::{ClockId, Timespec, clock_gettime};
use std::str::FromStr;
use weir_units::Time;

/// The host's clock: CLOCK_MONOTONIC since the agent was created.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    origin_ns: u64,
}

impl Clock {
    /// Returns a clock whose present time is zero.
    pub fn start() -> Clock {
        Clock { origin_ns: read(ClockId::Monotonic) }
    }
    pub fn now(&self) -> Time {
        Time::from_ns(read(ClockId::Monotonic).saturating_sub(self.origin_ns))
    }
    /// Returns CLOCK_MONOTONIC at `time`, in ns. All agents of one machine share that clock.
    pub fn monotonic_ns(&self, time: Time) -> u64 {
        self.origin_ns.saturating_add(time.as_ns())
    }
    /// Returns the Unix time at `time`, in ns.
    pub fn wall_ns(&self, time: Time) -> u64 {
        (read(ClockId::Realtime) + time.as_ns()).saturating_sub(self.now().as_ns())
    }

    /// Converts the start of a run to this clock.
    pub(super) fn resolve(&self, start: StartAt) -> Result<Time, AgentError> {
        let (now, target) = match start {
            StartAt::Now => return Ok(self.now()),
            StartAt::In(time) => return Ok(self.now().saturating_add(time)),
            StartAt::Monotonic(ns) => (read(ClockId::Monotonic), ns),
            StartAt::Wall(ns) => (read(ClockId::Realtime), ns),
        };
        match target.checked_sub(now) {
            Some(ahead) => Ok(self.now().saturating_add(Time::from_ns(ahead))),
            None => Err(AgentError::StartInPast { late_ms: (now - target).div_ceil(1_000_000) }),
        }
    }
}

/// Returns the time of a clock in ns.
fn read(clock: ClockId) -> u64 {
    let Timespec { tv_sec, tv_nsec } = clock_gettime(clock);
    (tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(tv_nsec as u64)
}

/// The start of a run; the times of its flows are relative to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StartAt {
    /// As soon as the agent is ready.
    #[default]
    Now,
    /// This long after the agent is ready.
    In(Time),
    /// CLOCK_MONOTONIC in ns, which all agents of one machine share.
    Monotonic(u64),
    /// Unix time in ns.
    Wall(u64),
}

/// A start time that does not parse.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid start time \"{text}\", expected now, +2s, mono:SECONDS (CLOCK_MONOTONIC) or wall:SECONDS (Unix time), \
     with up to nine decimals"
)]
pub struct StartAtError {
    text: String,
}

impl FromStr for StartAt {
    type Err = StartAtError;

    fn from_str(text: &str) -> Result<StartAt, StartAtError> {
        let error = || StartAtError { text: text.to_owned() };
        if text == "now" {
            return Ok(StartAt::Now);
        }
        if let Some(ahead) = text.strip_prefix('+') {
            return ahead.parse().map(StartAt::In).map_err(|_| error());
        }
        if let Some(seconds) = text.strip_prefix("mono:") {
            return seconds_to_ns(seconds).map(StartAt::Monotonic).ok_or_else(error);
        }
        if let Some(seconds) = text.strip_prefix("wall:") {
            return seconds_to_ns(seconds).map(StartAt::Wall).ok_or_else(error);
        }
        Err(error())
    }
}

/// Converts decimal seconds to nanoseconds, in integers because an `f64` cannot hold a Unix time to the nanosecond.
fn seconds_to_ns(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 9 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let nanos: u64 = format!("{fraction:0<9}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_parse() {
        assert_eq!("now".parse(), Ok(StartAt::Now));
        assert_eq!("+1.5s".parse(), Ok(StartAt::In(Time::from_ms(1_500))));
        assert_eq!("mono:12.000000001".parse(), Ok(StartAt::Monotonic(12_000_000_001)));
        assert_eq!("wall:1700000000.25".parse(), Ok(StartAt::Wall(1_700_000_000_250_000_000)));
    }

    #[test]
    fn invalid_start_times_are_rejected() {
        for text in [
            "",
            "soon",
            "+",
            "+5",
            "mono:",
            "mono:1e3",
            "mono:-1",
            "wall:1.0000000001",
            "mono:99999999999999999999",
        ] {
            assert!(text.parse::<StartAt>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_start_in_the_past_is_rejected() {
        let clock = Clock::start();
        let late = clock.resolve(StartAt::Monotonic(read(ClockId::Monotonic) - 3_000_000));
        assert!(matches!(late, Err(AgentError::StartInPast { late_ms: 4 })), "{late:?}");
        let ahead = clock.resolve(StartAt::Wall(read(ClockId::Realtime) + 1_000_000_000)).unwrap();
        assert!(ahead > Time::from_ms(900) && ahead < Time::from_ms(1_100), "{ahead}");
    }
}
