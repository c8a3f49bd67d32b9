//! Reads a register of a running P4Runtime switch by its name in the P4 program:
//!
//! ```text
//! cargo run -p p4runtime --features client --example read_register -- 127.0.0.1:9559 queue_bytes
//! ```

#![allow(clippy::print_stdout)] // an executable

use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::p4_data::Data;
use p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::p4::v1::{Entity, GetForwardingPipelineConfigRequest, ReadRequest, RegisterEntry};
use p4runtime::{p4info::Index, value};
use std::error::Error;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let usage = "usage: read_register ADDRESS REGISTER, such as 127.0.0.1:9559 queue_bytes";
    let (address, name) = (std::env::args().nth(1).ok_or(usage)?, std::env::args().nth(2).ok_or(usage)?);
    // The default device id of BMv2.
    let device_id = 0;
    let mut client = P4RuntimeClient::connect(format!("http://{address}")).await?;

    // The switch returns the P4Info of its program, so no file is needed.
    let request = GetForwardingPipelineConfigRequest { device_id, ..Default::default() };
    let config = client.get_forwarding_pipeline_config(request).await?.into_inner().config;
    let p4info = Index::new(config.and_then(|config| config.p4info).ok_or("the switch runs no program")?)?;
    let register_id = p4info.registers.named(&name)?.preamble.as_ref().map_or(0, |preamble| preamble.id);

    // A request without an index reads all cells. Reading needs no arbitration.
    let register = RegisterEntry { register_id, ..Default::default() };
    let entities = vec![Entity { entity: Some(Kind::RegisterEntry(register)) }];
    let mut responses =
        client.read(ReadRequest { device_id, entities, ..Default::default() }).await?.into_inner();
    while let Some(response) = responses.message().await? {
        for entity in response.entities {
            let Some(Kind::RegisterEntry(cell)) = entity.entity else { continue };
            let index = cell.index.map_or(0, |index| index.index);
            if let Some(Data::Bitstring(bytes)) = cell.data.and_then(|data| data.data) {
                println!("{name}[{index}] = {}", value::to_u64(&bytes).unwrap_or(u64::MAX));
            }
        }
    }
    Ok(())
}
