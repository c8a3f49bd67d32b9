//! Test support: the conformance tests that every congestion control scheme must pass, and the harnesses that they
//! use. No production code depends on this crate.
//!
//! A crate that defines a scheme runs the [`mod@conformance`] tests with one macro call:
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
//! [`sender_harness::SenderHarness`] drives a single sender half. [`net::TestNetwork`] is a network of hosts around
//! one ideal switch in virtual time.

#![warn(missing_docs)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod conformance;
#[allow(missing_docs)]
pub mod frames;
pub mod harness;
#[allow(missing_docs)]
pub mod net;
#[allow(missing_docs)]
pub mod reference_port;
#[allow(missing_docs)]
pub mod sender_harness;
