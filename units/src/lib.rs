//! Types for the quantities of a network: time, data size, rate, ratio.
//!
//! [`Time`] counts picoseconds, [`Bytes`] bytes and [`Bandwidth`] bits per second, all in integers, so that an
//! experiment gives the same numbers on every machine. Only operators that make sense between units exist;
//! conversions to floats have names (`as_secs_f64`).
//!
//! All types parse and print the usual notation: `1.5us`, `500KB`, `100Gbps`. Decimal prefixes are powers of 1000;
//! `KiB`, `MiB`, `GiB` are powers of 1024. A number without a unit is refused, except `0`.
//!
//! This crate has no dependencies.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]
#![warn(clippy::disallowed_methods, clippy::disallowed_types)]

mod bandwidth;
mod bytes;
mod parse;
mod rate_code;
mod ratio;
mod time;

pub use bandwidth::Bandwidth;
pub use bytes::Bytes;
pub use parse::ParseUnitError;
pub use rate_code::RateCode;
pub use ratio::Ratio;
pub use time::Time;
