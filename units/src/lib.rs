//! Quantities of the fabric, as types.
//!
//! [`Time`] counts picoseconds, [`Bytes`] bytes and [`Bandwidth`] bits per second, all in integers,
//! so that the same experiment gives the same numbers on any machine. Only operators that make
//! sense between units exist; a float leaves a type by a named method (`as_secs_f64`).
//!
//! All of them parse and print as people write them: `1.5us`, `500KB`, `100Gbps`. Decimal
//! prefixes are powers of 1000; `KiB`, `MiB`, `GiB` are powers of 1024. A number without a unit is
//! refused (only a bare `0` is not ambiguous, and is taken).
//!
//! This crate depends on nothing.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

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
