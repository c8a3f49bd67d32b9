//! The parameters of a link and changes to them, written as `rate=10Mbps,delay=5ms,loss=1%`.

use std::fmt;
use std::str::FromStr;
use weir_units::{Bandwidth, Bytes, Ratio, Time};

/// The parameters of a link, the same in both directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkParameters {
    /// Rate of the transmitter, counting the bits of frames only; `None`: serialisation takes no time.
    pub rate: Option<Bandwidth>,
    /// Propagation delay.
    pub delay: Time,
    /// Bytes that may wait for the transmitter, including the frame in transmission.
    pub queue: Bytes,
    /// Maximum additional delay, uniformly distributed. Frames stay in order.
    pub jitter: Time,
    /// Probability that a frame is lost.
    pub loss: Ratio,
    /// Probability that a frame is reordered. A reordered frame arrives without delay and jitter, so that it overtakes
    /// others; if `reorder_by` is not 0, it arrives later by that time, so that others overtake it.
    pub reorder: Ratio,
    /// Additional delay of a reordered frame; 0: reordered frames overtake.
    pub reorder_by: Time,
    /// Probability that a frame arrives twice.
    pub duplicate: Ratio,
    /// Probability that one bit of a frame is inverted.
    pub corrupt: Ratio,
    /// False if every frame is lost.
    pub up: bool,
}

impl LinkParameters {
    /// Maximum delay, jitter and `reorder_by`, because frames in flight take memory.
    pub const MAX_DELAY: Time = Time::from_secs(60);
    /// The default queue: 1,000 full frames, as in Linux' `pfifo`.
    pub const QUEUE: Bytes = Bytes::new(1_518_000);
}

impl Default for LinkParameters {
    /// A link without delay and faults.
    fn default() -> LinkParameters {
        LinkParameters {
            rate: None,
            delay: Time::ZERO,
            queue: LinkParameters::QUEUE,
            jitter: Time::ZERO,
            loss: Ratio::default(),
            reorder: Ratio::default(),
            reorder_by: Time::ZERO,
            duplicate: Ratio::default(),
            corrupt: Ratio::default(),
            up: true,
        }
    }
}

/// Declares [`LinkChange`] from one list of keys with their types.
macro_rules! keys {
    ($($field:ident: $kind:ty,)+) => {
        /// A change to a link's parameters; `None` keeps a parameter.
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        pub struct LinkChange {
            $(
                #[doc = concat!("The new [`LinkParameters::", stringify!($field), "`].")]
                pub $field: Option<$kind>,
            )+
        }

        impl LinkChange {
            /// The names of the keys.
            pub const KEYS: &'static [&'static str] = &[$(stringify!($field),)+];

            /// Sets the new value of one key.
            ///
            /// # Errors
            ///
            /// Unknown key, or the value is invalid for it.
            pub fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
                match key {
                    $(stringify!($field) => {
                        self.$field = Some(<$kind>::parse(value).map_err(|reason| format!("{key}: {reason}"))?);
                    })+
                    _ => return Err(format!(
                        "unknown link property \"{key}\"; expected one of {}", LinkChange::KEYS.join(", ")
                    )),
                }
                Ok(())
            }

            /// Returns `link` with the change applied.
            #[must_use]
            pub fn apply(&self, mut link: LinkParameters) -> LinkParameters {
                $(if let Some(value) = self.$field { link.$field = value; })+
                link
            }

            pub fn is_empty(&self) -> bool {
                *self == LinkChange::default()
            }
        }

        impl fmt::Display for LinkChange {
            /// Formats the change in the syntax that [`FromStr`] parses.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut comma = "";
                $(if let Some(value) = self.$field {
                    write!(f, "{comma}{}={}", stringify!($field), value.to_text())?;
                    comma = ",";
                })+
                let _ = comma;
                Ok(())
            }
        }
    };
}

keys! {
    rate: LinkRate,
    delay: Time,
    queue: Bytes,
    jitter: Time,
    loss: Ratio,
    reorder: Ratio,
    reorder_by: Time,
    duplicate: Ratio,
    corrupt: Ratio,
    up: bool,
}

/// A rate; `None` is written as `unlimited`.
pub(super) type LinkRate = Option<Bandwidth>;

/// A value in the syntax of a change.
trait LinkValue: Sized {
    fn parse(text: &str) -> Result<Self, String>;
    fn to_text(&self) -> String;
}

impl LinkValue for LinkRate {
    fn parse(text: &str) -> Result<LinkRate, String> {
        if text == "unlimited" {
            return Ok(None);
        }
        let rate: Bandwidth = text.parse().map_err(|reason| format!("{reason}, or unlimited"))?;
        if rate == Bandwidth::ZERO {
            return Err("the rate must be greater than zero; use up=false to drop every frame".to_owned());
        }
        Ok(Some(rate))
    }
    fn to_text(&self) -> String {
        self.map_or_else(|| "unlimited".to_owned(), |rate| rate.to_string())
    }
}

impl LinkValue for Time {
    fn parse(text: &str) -> Result<Time, String> {
        let time: Time = text.parse().map_err(|reason| format!("{reason}"))?;
        if time > LinkParameters::MAX_DELAY {
            return Err(format!("{time} exceeds the maximum of {}", LinkParameters::MAX_DELAY));
        }
        Ok(time)
    }
    fn to_text(&self) -> String {
        format!("{}ps", self.as_ps())
    }
}

impl LinkValue for Bytes {
    fn parse(text: &str) -> Result<Bytes, String> {
        text.parse().map_err(|reason| format!("{reason}"))
    }
    fn to_text(&self) -> String {
        format!("{}B", self.get())
    }
}

impl LinkValue for Ratio {
    fn parse(text: &str) -> Result<Ratio, String> {
        let ratio: Ratio = text.parse()?;
        if ratio > Ratio::ONE {
            return Err(format!("{text} exceeds 100%"));
        }
        Ok(ratio)
    }
    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl LinkValue for bool {
    fn parse(text: &str) -> Result<bool, String> {
        text.parse().map_err(|_| format!("expected true or false, found \"{text}\""))
    }
    fn to_text(&self) -> String {
        self.to_string()
    }
}

impl FromStr for LinkChange {
    type Err = String;
    fn from_str(text: &str) -> Result<LinkChange, String> {
        let mut change = LinkChange::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part
                .split_once('=')
                .ok_or_else(|| format!("\"{part}\": write key=value, such as delay=5ms"))?;
            change.set(key.trim(), value.trim())?;
        }
        Ok(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_survive_formatting_and_parsing() {
        let text = "rate=10Mbps,delay=5ms,loss=1%,up=false";
        let change: LinkChange = text.parse().unwrap();
        assert_eq!(change.to_string().parse(), Ok(change));
        let link = change.apply(LinkParameters::default());
        assert_eq!((link.rate, link.delay), (Some(Bandwidth::from_mbps(10)), Time::from_ms(5)));
        assert_eq!(
            (link.loss, link.up, link.queue),
            (Ratio::new(0.01).unwrap(), false, LinkParameters::QUEUE)
        );
        let unlimited = LinkChange::from_str("rate=unlimited").unwrap().apply(link);
        assert_eq!((unlimited.rate, unlimited.delay), (None, link.delay));
        assert!(LinkChange::from_str("").unwrap().is_empty());
    }

    #[test]
    fn errors_name_the_key_and_the_problem() {
        let wrong = |text: &str| text.parse::<LinkChange>().unwrap_err();
        assert!(wrong("latency=5ms").contains("expected one of rate, delay, queue"));
        assert!(wrong("delay").contains("write key=value"));
        assert!(
            wrong("delay=61s").contains("delay: 61s exceeds the maximum of 60s"),
            "{}",
            wrong("delay=61s")
        );
        assert!(wrong("loss=2").contains("loss: 2 exceeds 100%"));
        assert!(wrong("rate=0bps").contains("up=false"), "{}", wrong("rate=0bps"));
        assert!(wrong("up=yes").contains("expected true or false"));
    }
}
