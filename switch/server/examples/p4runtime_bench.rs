//! Measures table entries per second over P4Runtime on loopback, with one write at a time:
//! `cargo run --release -p weir-server --example p4runtime_bench -- 50000 1 100 1000`
//! (entries, then updates per write).

#![allow(clippy::print_stdout)] // Prints its results.

use p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::update::Type::{Delete, Insert};
use p4runtime::p4::v1::{
    Action, Entity, FieldMatch, ForwardingPipelineConfig, ReadRequest, SetForwardingPipelineConfigRequest,
    TableAction, TableEntry, Update, WriteRequest, action, entity, table_action, update,
};
use p4runtime::p4info::{self, Index, Object};
use p4runtime::value::from_uint;
use std::error::Error;
use std::time::Instant;
use tonic::transport::Endpoint;
use weir_server::p4runtime::{Server, ServerConfig};
use weir_switch::driver::{Dataplane, DataplaneConfig};

const PROGRAM: &str = include_str!("../../tests/programs/p4runtime.json");
const P4INFO: &str = include_str!("../../tests/programs/p4runtime.p4info.txtpb");

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<usize>());
    let entries = arguments.next().unwrap_or(Ok(50_000))?;
    let batches = arguments.collect::<Result<Vec<_>, _>>()?;
    let batches = if batches.is_empty() { vec![1, 100, 1000] } else { batches };

    let dataplane = Dataplane::start(DataplaneConfig::default(), None, &[])?;
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    let server = Server::start(dataplane.handle(), ServerConfig::default(), listener)?;
    let endpoint = Endpoint::from_shared(format!("http://{}", server.address()))?;
    // Without a primary, writes need no election id.
    let mut client = P4RuntimeClient::new(endpoint.connect().await?);
    let p4info = p4info::parse(P4INFO)?;
    let index = Index::new(p4info.clone())?;
    let config =
        ForwardingPipelineConfig { p4info: Some(p4info), p4_device_config: PROGRAM.into(), cookie: None };
    let request = SetForwardingPipelineConfigRequest {
        action: Set::VerifyAndCommit.into(),
        config: Some(config),
        ..Default::default()
    };
    client.set_forwarding_pipeline_config(request).await?;

    for batch in batches {
        let start = Instant::now();
        write(&mut client, &index, entries, batch, Insert).await?;
        let written = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let read = read(&mut client).await?;
        let took = start.elapsed().as_secs_f64();
        assert_eq!(read, entries, "all entries are read back");
        write(&mut client, &index, entries, 1000, Delete).await?;
        println!(
            "{batch:>6} per write: {:>9.0} entries/s written, {:>9.0} entries/s read",
            entries as f64 / written,
            read as f64 / took
        );
    }
    Ok(())
}

type Client = P4RuntimeClient<tonic::transport::Channel>;

async fn write(
    client: &mut Client,
    index: &Index,
    entries: usize,
    batch: usize,
    kind: update::Type,
) -> Result<(), Box<dyn Error>> {
    let (table, forward) = (index.tables.named("l2")?, index.actions.named("forward")?);
    let numbers: Vec<usize> = (0..entries).collect();
    for numbers in numbers.chunks(batch.max(1)) {
        let update = |&number: &usize| {
            let key = Exact { value: from_uint(number as u128) };
            let key = FieldMatch { field_id: 1, field_match_type: Some(FieldMatchType::Exact(key)) };
            let port = action::Param { param_id: 1, value: from_uint(1 + number as u128 % 8) };
            let action = Action { action_id: forward.preamble().id, params: vec![port] };
            let entry = TableEntry {
                table_id: table.preamble().id,
                r#match: vec![key],
                action: Some(TableAction { r#type: Some(table_action::Type::Action(action)) }),
                ..TableEntry::default()
            };
            Update {
                r#type: kind.into(),
                entity: Some(Entity { entity: Some(entity::Entity::TableEntry(entry)) }),
            }
        };
        client
            .write(WriteRequest { updates: numbers.iter().map(update).collect(), ..Default::default() })
            .await?;
    }
    Ok(())
}

async fn read(client: &mut Client) -> Result<usize, Box<dyn Error>> {
    let all = Entity { entity: Some(entity::Entity::TableEntry(TableEntry::default())) };
    let mut messages =
        client.read(ReadRequest { entities: vec![all], ..Default::default() }).await?.into_inner();
    let mut found = 0;
    while let Some(message) = messages.message().await? {
        found += message.entities.len();
    }
    Ok(found)
}
