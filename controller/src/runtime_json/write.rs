//! Converts entities to the entries of a file: ids to names, byte strings to numbers and addresses.

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
    /// Converts entities to a file. `index` is the P4Info of the program; `p4info` and `bmv2_json` are the paths that
    /// the file contains.
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
                Kind::PacketReplicationEngineEntry(entry) => {
                    match entry.r#type.as_ref().ok_or_else(unsupported)? {
                        Pre::MulticastGroupEntry(group) => file.multicast_group_entries.push(MulticastJson {
                            multicast_group_id: group.multicast_group_id,
                            replicas: replicas(&group.replicas).ok_or_else(unsupported)?,
                        }),
                        Pre::CloneSessionEntry(session) => file.clone_session_entries.push(CloneJson {
                            clone_session_id: session.session_id,
                            replicas: replicas(&session.replicas).ok_or_else(unsupported)?,
                            packet_length_bytes: Some(session.packet_length_bytes)
                                .filter(|&bytes| bytes != 0),
                        }),
                    }
                }
                _ => return Err(unsupported()),
            }
        }
        Ok(file)
    }
}

/// Returns `None` if a port is not a number.
#[allow(deprecated)] // `canonical` converts ports to this form
fn replicas(list: &[Replica]) -> Option<Vec<ReplicaJson>> {
    let replica = |replica: &Replica| match replica.port_kind {
        Some(PortKind::EgressPort(egress_port)) => {
            Some(ReplicaJson { egress_port, instance: replica.instance })
        }
        _ => None,
    };
    list.iter().map(replica).collect()
}

/// Returns `None` if the format cannot express the entry.
fn table_entry(entry: &TableEntry, index: &Index) -> Option<TableEntryJson> {
    let table = index.tables.id(entry.table_id)?;
    let mut json = TableEntryJson {
        table: table.preamble().name.clone(),
        default_action: entry.is_default_action,
        priority: Some(entry.priority).filter(|&priority| priority != 0),
        meter_config: entry.meter_config.map(|rates| MeterJson {
            cir: rates.cir,
            cburst: rates.cburst,
            pir: rates.pir,
            pburst: rates.pburst,
        }),
        ..TableEntryJson::default()
    };
    for field in &entry.r#match {
        let info = table.match_field_by_id(field.field_id)?;
        let formatted = |bytes: &[u8]| value::write(bytes, info.bitwidth);
        let value: Value = match field.field_match_type.as_ref()? {
            FieldMatchType::Exact(exact) => formatted(&exact.value),
            FieldMatchType::Optional(optional) => formatted(&optional.value),
            FieldMatchType::Lpm(lpm) => json!([formatted(&lpm.value), lpm.prefix_len]),
            FieldMatchType::Ternary(ternary) => json!([formatted(&ternary.value), formatted(&ternary.mask)]),
            FieldMatchType::Range(range) => json!([formatted(&range.low), formatted(&range.high)]),
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
