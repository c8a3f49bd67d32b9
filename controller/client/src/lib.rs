//! The controller's side of P4Runtime, for one switch ([`Session`]) and for many ([`fleet`], which also speaks BF Runtime
//! with Tofino switches), and of the Thrift calls that BMv2 needs beside it ([`ThriftClient`]).
//!
//! A thin driver: what to write and in which order is decided by [`weir_controller::reconcile`] and [`mod@weir_controller::plan`], which
//! know no socket.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod backoff;
mod bfrt;
mod channel;
mod connection;
mod error;
pub mod fleet;
mod session;
mod stream;
mod thrift;
mod tls;
pub mod watch;

pub use self::thrift::{ThriftClient, ThriftError, packets_per_second};
pub use backoff::Backoff;
pub use error::{ClientError, Refused};
pub use session::Session;
pub use stream::{Mastership, PacketSender, Stream, StreamEvent};
pub use tls::ClientTls;

use bfruntime::BfrtInfo;
use crc::{CRC_32_ISO_HDLC, Crc};
use p4runtime::p4::config::v1::P4Info;
use p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime::p4::v1::{ForwardingPipelineConfig, Uint128};
use p4runtime::p4info::{Index, P4InfoError};
use prost::Message;
use std::sync::Arc;
use std::time::Duration;

/// Address of a switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Name in the topology.
    pub name: String,
    /// `host:port` of its P4Runtime or BF Runtime server.
    pub address: String,
    /// The id by which the server knows it.
    pub device_id: u64,
}

/// Options of the connections to switches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientOptions {
    /// Of two controllers the one with the larger id may write. With BF Runtime it is the client's id.
    pub election_id: Uint128,
    /// Time that a call may take.
    pub timeout: Duration,
    /// TLS, if it is to be spoken.
    pub tls: Option<Arc<ClientTls>>,
}

impl Default for ClientOptions {
    /// Election id 1, as p4 tutorials have it.
    fn default() -> Self {
        ClientOptions {
            election_id: Uint128 { high: 0, low: 1 },
            timeout: Duration::from_secs(10),
            tls: None,
        }
    }
}

/// A compiled program, as it goes to the switches.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its P4Info, to find things by name.
    pub index: Index,
    /// The compiler's result.
    pub image: Image,
}

/// The result of a compiler for a target, which decides on the protocol.
#[derive(Clone, Debug)]
pub enum Image {
    /// P4Info, device config and a cookie that follows from both, as P4Runtime pushes them.
    P4Runtime(Box<ForwardingPipelineConfig>),
    /// The tables of a program for Tofino, which the switch's driver has to run already.
    BfRuntime(BfrtInfo),
}

impl Program {
    /// Joins a P4Info to the JSON that p4c made for BMv2 (the device config). The cookie is a CRC of both and
    /// never 0.
    ///
    /// # Errors
    ///
    /// Two objects of one kind have the same id, or one has none.
    pub fn new(p4info: P4Info, json: Vec<u8>) -> Result<Program, P4InfoError> {
        let index = Index::new(p4info.clone())?;
        let crc = Crc::<u32>::new(&CRC_32_ISO_HDLC);
        let halves = [crc.checksum(&p4info.encode_to_vec()), crc.checksum(&json)];
        let cookie = u64::from(halves[0]) << u32::BITS | u64::from(halves[1]);
        // 0 is what a switch says whose controller gave none.
        let cookie = Some(Cookie { cookie: cookie.max(1) });
        let config = ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config: json, cookie };
        Ok(Program { index, image: Image::P4Runtime(Box::new(config)) })
    }

    /// Takes the bfrt.json that p4c made for Tofino.
    ///
    /// # Errors
    ///
    /// Two objects of one kind have the same id, or one has none.
    pub fn tofino(bfrt_json: BfrtInfo) -> Result<Program, P4InfoError> {
        let index = Index::new(bfrt_json.p4info())?;
        Ok(Program { index, image: Image::BfRuntime(bfrt_json) })
    }

    /// Returns whether the program is for Tofino, so that switches are written over BF Runtime.
    pub fn is_for_tofino(&self) -> bool {
        matches!(self.image, Image::BfRuntime(_))
    }

    /// Returns what P4Runtime pushes.
    ///
    /// # Errors
    ///
    /// [`ClientError::ForTofino`]: the program is for Tofino.
    pub fn pipeline_config(&self) -> Result<&ForwardingPipelineConfig, ClientError> {
        match &self.image {
            Image::P4Runtime(config) => Ok(config),
            Image::BfRuntime(_) => Err(ClientError::ForTofino),
        }
    }
}
