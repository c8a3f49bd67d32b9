//! For tests only: the rules that every congestion control scheme must keep, and the bench to test it on.
//!
//! A crate with a scheme of its own runs the [`mod@conformance`] tests with one line:
//!
//! ```text
//! weir_testkit::conformance!(mine: Mine, Expectations {
//!     fair_within: Time::from_ms(2),
//!     recovers_within: Time::from_ms(1),
//!     peak: Bytes::from_kb(400),
//!     steady: Bytes::from_kb(100),
//! });
//! ```
//!
//! [`probe::SenderHarness`] feeds one sender half by hand. [`net::TestNetwork`] is a network of hosts around one ideal switch in virtual
//! time.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod conformance;
#[allow(missing_docs)] // The names of a test bench say enough.
pub mod frames;
pub mod harness;
#[allow(missing_docs)]
pub mod net;
#[allow(missing_docs)]
pub mod reference_port;
#[allow(missing_docs)]
pub mod sender_harness;
