//! The control-plane servers of a switch: [`p4runtime`] for controllers, [`thrift`] for the tools of BMv2.
//!
//! Both convert each request to a command of a [`DataplaneHandle`](weir_switch::driver::DataplaneHandle).

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

pub mod p4runtime;
pub mod runtime;
pub mod thrift;
