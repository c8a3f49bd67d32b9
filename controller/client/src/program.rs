//! The P4 program of a switch.

use super::error::ClientError;
use bfruntime::BfrtInfo;
use crc::{CRC_32_ISO_HDLC, Crc};
use p4runtime::p4::config::v1::P4Info;
use p4runtime::p4::v1::ForwardingPipelineConfig;
use p4runtime::p4::v1::forwarding_pipeline_config::Cookie;
use p4runtime::p4info::{Index, P4InfoError};
use prost::Message;

/// A compiled P4 program.
#[derive(Clone, Debug)]
pub struct Program {
    /// P4Info by name and id.
    pub index: Index,
    pub image: Image,
}

/// The output of the compiler, which determines the protocol.
#[derive(Clone, Debug)]
pub enum Image {
    /// P4Info, device config and cookie, as pushed over P4Runtime.
    P4Runtime(Box<ForwardingPipelineConfig>),
    /// Tables of a Tofino program, which the switch's driver must already run.
    BfRuntime(BfrtInfo),
}

impl Program {
    /// Creates a program from its P4Info and the JSON of p4c for BMv2 (the device config). The cookie is a CRC of
    /// both and never 0.
    ///
    /// # Errors
    ///
    /// Two objects of one kind have the same id, or an object has none.
    pub fn new(p4info: P4Info, json: Vec<u8>) -> Result<Program, P4InfoError> {
        let index = Index::new(p4info.clone())?;
        let crc = Crc::<u32>::new(&CRC_32_ISO_HDLC);
        let halves = [crc.checksum(&p4info.encode_to_vec()), crc.checksum(&json)];
        let cookie = u64::from(halves[0]) << u32::BITS | u64::from(halves[1]);
        // Cookie 0 means that the controller set none.
        let cookie = Some(Cookie { cookie: cookie.max(1) });
        let config = ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config: json, cookie };
        Ok(Program { index, image: Image::P4Runtime(Box::new(config)) })
    }

    /// Creates a program from the bfrt.json of p4c for Tofino.
    ///
    /// # Errors
    ///
    /// Two objects of one kind have the same id, or an object has none.
    pub fn tofino(bfrt_json: BfrtInfo) -> Result<Program, P4InfoError> {
        let index = Index::new(bfrt_json.p4info())?;
        Ok(Program { index, image: Image::BfRuntime(bfrt_json) })
    }

    /// Returns whether the program is for Tofino, whose tables are written over BF Runtime.
    pub fn is_for_tofino(&self) -> bool {
        matches!(self.image, Image::BfRuntime(_))
    }

    /// Returns the configuration that P4Runtime pushes.
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
