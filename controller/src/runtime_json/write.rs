//! Converts entities to names.

use super::{CloneJson, MeterJson, MulticastJson, ReplicaJson, RuntimeJson, TableEntryJson, value};
use crate::pretty;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::{Entity, Replica, TableEntry};
use p4runtime::p4info::{Index, Object};
use serde_json::{Value, json};

impl RuntimeJson {
    /// Converts entities to a file. `p4info` and `bmv2_json` are the paths that the file contains.
    ///
    /// # Errors
    ///
    /// Fails with the first entity that the format cannot express, such as a member of an action profile.
    pub fn from_entities(
        entities: &[Entity],
        index: &Index,
        p4info: &str,
        bmv2_json: &str,
    ) -> Result<RuntimeJson, String> {
        let mut file = RuntimeJson {
            target: "bmv2".to_owned(),
            p4info: p4info.to_owned(),
            bmv2_json: bmv2_json.to_owned(),
            ..RuntimeJson::default()
        };
        for entity in entities {
            let unsupported =
                || format!("a runtime.json cannot express \"{}\"", pretty::entity(entity, index));
            match entity.entity.as_ref().ok_or_else(unsupported)? {
                Kind::TableEntry(entry) => {
                    file.table_entries.push(table_entry(entry, index).ok_or_else(unsupported)?);
                }
                Kind::PacketReplicationEngineEntry(it) => match it.r#type.as_ref().ok_or_else(unsupported)? {
                    Pre::MulticastGroupEntry(it) => file.multicast_group_entries.push(MulticastJson {
                        multicast_group_id: it.multicast_group_id,
                        replicas: replicas(&it.replicas).ok_or_else(unsupported)?,
                    }),
                    Pre::CloneSessionEntry(it) => file.clone_session_entries.push(CloneJson {
                        clone_session_id: it.session_id,
                        replicas: replicas(&it.replicas).ok_or_else(unsupported)?,
                        packet_length_bytes: Some(it.packet_length_bytes).filter(|&bytes| bytes != 0),
                    }),
                },
                _ => return Err(unsupported()),
            }
        }
        Ok(file)
    }
}

#[allow(deprecated)] // the form to which `canonical` converts
fn replicas(list: &[Replica]) -> Option<Vec<ReplicaJson>> {
    let replica = |it: &Replica| match it.port_kind {
        Some(PortKind::EgressPort(egress_port)) => Some(ReplicaJson { egress_port, instance: it.instance }),
        _ => None,
    };
    list.iter().map(replica).collect()
}

fn table_entry(entry: &TableEntry, index: &Index) -> Option<TableEntryJson> {
    let table = index.tables.id(entry.table_id)?;
    let mut json = TableEntryJson {
        table: table.preamble().name.clone(),
        default_action: entry.is_default_action,
        priority: Some(entry.priority).filter(|&priority| priority != 0),
        meter_config: entry.meter_config.map(|it| MeterJson {
            cir: it.cir,
            cburst: it.cburst,
            pir: it.pir,
            pburst: it.pburst,
        }),
        ..TableEntryJson::default()
    };
    for field in &entry.r#match {
        let info = table.match_field_by_id(field.field_id)?;
        let formatted = |bytes: &[u8]| value::write(bytes, info.bitwidth);
        let value: Value = match field.field_match_type.as_ref()? {
            FieldMatchType::Exact(it) => formatted(&it.value),
            FieldMatchType::Optional(it) => formatted(&it.value),
            FieldMatchType::Lpm(it) => json!([formatted(&it.value), it.prefix_len]),
            FieldMatchType::Ternary(it) => json!([formatted(&it.value), formatted(&it.mask)]),
            FieldMatchType::Range(it) => json!([formatted(&it.low), formatted(&it.high)]),
            FieldMatchType::Other(_) => return None,
        };
        json.r#match.insert(info.name.clone(), value);
    }
    let Some(ActionType::Action(action)) = entry.action.as_ref()?.r#type.as_ref() else { return None };
    let info = index.actions.id(action.action_id)?;
    json.action_name = info.preamble().name.clone();
    for param in &action.params {
        let info = info.param_by_id(param.param_id)?;
        json.action_params.insert(info.name.clone(), value::write(&param.value, info.bitwidth));
    }
    Some(json)
}
