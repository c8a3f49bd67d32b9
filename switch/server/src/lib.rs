//! The servers of a switch's data plane: [`p4runtime`] for controllers, [`thrift`] for the tools of BMv2.
//!
//! Both are thin: what they are asked becomes a command of a [`DataplaneHandle`](weir_switch::driver::DataplaneHandle).

pub mod p4runtime;
pub mod thrift;
