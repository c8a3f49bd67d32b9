//! Schemes that control the windows of a message's subflows together, in packets as TCP does.
//!
//! `windows` contains the common parts: slow start, the end of a window of data, the reaction to loss. A
//! [`ControlLaw`](windows::ControlLaw) determines how a window grows and by how much it is cut.

mod amp;
mod dcm;
mod mptcp;
mod uncoupled;
mod windows;
mod xmp;

pub(super) use amp::Amp;
pub(super) use dcm::Dcm;
pub(super) use mptcp::Mptcp;
pub(super) use uncoupled::{DctcpLaw, Uncoupled};
pub(super) use windows::WindowsConfig;
pub(super) use xmp::Xmp;
