//! Converts multicast groups and clone sessions to entries of the driver's fixed tables.

use super::driver_fields::{
    DEV_PORT, EGRESS_PORT, ENABLE, LAG_ID, LENGTH, MGID, MIRROR, NO_TRUNCATION, NODE, NODE_ID, RID,
};
use super::message::{number, updated};
use super::translator::{TranslateError, Translator, invalid_value, no_field};
use crate::bfrt_proto::data_field::{BoolArray, IntArray, Value};
use crate::bfrt_proto::key_field::{Exact, MatchType};
use crate::bfrt_proto::{DataField, KeyField, TableData, TableEntry, TableKey, Update, table_entry};
use crate::info::{Kind, Table};
use crate::value::resize;
use p4runtime::p4::v1 as p4;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::update::Type as P4Type;
use p4runtime::value::to_u64;

/// Action of a mirror session that sends each packet separately.
const NORMAL: &str = "$normal";

impl Translator<'_> {
    /// Converts a multicast group to a node and a group. The node is created before the group that refers to it, and
    /// deleted after it.
    pub(super) fn multicast(
        &self,
        kind: P4Type,
        group: &p4::MulticastGroupEntry,
    ) -> Result<Vec<Update>, TranslateError> {
        let (mgid, node) = (self.fixed(MGID)?, self.fixed(NODE)?);
        let id = group.multicast_group_id;
        if kind == P4Type::Delete {
            return Ok(vec![updated(kind, entry(mgid, id, None)?), updated(kind, entry(node, id, None)?)]);
        }
        if group.replicas.iter().any(|it| it.instance != 0 || !it.backup_replicas.is_empty()) {
            return Err(TranslateError::Unsupported("a multicast group with instances or backups"));
        }
        let ports: Option<Vec<u32>> = group.replicas.iter().map(port).collect();
        let ports = ports.ok_or_else(|| invalid_value(node, DEV_PORT, "not a number"))?;
        let fields = vec![
            integer(node, RID, 0)?,
            field(node, LAG_ID, Value::IntArrVal(IntArray::default()))?,
            field(node, DEV_PORT, Value::IntArrVal(IntArray { val: ports }))?,
        ];
        let mut updates = vec![updated(kind, entry(node, id, Some(TableData { action_id: 0, fields }))?)];
        // On MODIFY the group already refers to the node, and only the node's ports change.
        if kind == P4Type::Insert {
            let fields = vec![
                field(mgid, NODE_ID, Value::IntArrVal(IntArray { val: vec![id] }))?,
                field(
                    mgid,
                    "$MULTICAST_NODE_L1_XID_VALID",
                    Value::BoolArrVal(BoolArray { val: vec![false] }),
                )?,
                field(mgid, "$MULTICAST_NODE_L1_XID", Value::IntArrVal(IntArray { val: vec![0] }))?,
            ];
            updates.push(updated(kind, entry(mgid, id, Some(TableData { action_id: 0, fields }))?));
        }
        Ok(updates)
    }

    pub(super) fn mirror(
        &self,
        kind: P4Type,
        session: &p4::CloneSessionEntry,
    ) -> Result<Update, TranslateError> {
        let table = self.fixed(MIRROR)?;
        let id = session.session_id;
        if kind == P4Type::Delete {
            return Ok(updated(kind, entry(table, id, None)?));
        }
        let [replica] = session.replicas.as_slice() else {
            return Err(TranslateError::Unsupported("a clone session with other than one port"));
        };
        if session.class_of_service != 0 || replica.instance != 0 {
            return Err(TranslateError::Unsupported(
                "a clone session with a class of service or an instance",
            ));
        }
        let port = port(replica).ok_or_else(|| invalid_value(table, EGRESS_PORT, "not a number"))?;
        let action = table.actions.iter().find(|action| action.name == NORMAL);
        let action = action.ok_or_else(|| no_field(table, NORMAL.to_owned()))?;
        let length = match session.packet_length_bytes {
            0 => NO_TRUNCATION,
            bytes => u64::try_from(bytes).map_err(|_| invalid_value(table, LENGTH, "negative"))?,
        };
        let fields = vec![
            field(table, ENABLE, Value::BoolVal(true))?,
            field(table, "$direction", Value::StrVal("BOTH".to_owned()))?,
            integer(table, EGRESS_PORT, port.into())?,
            field(table, "$ucast_egress_port_valid", Value::BoolVal(true))?,
            integer(table, LENGTH, length)?,
        ];
        Ok(updated(kind, entry(table, id, Some(TableData { action_id: action.id, fields }))?))
    }
}

/// Returns an entry of a table whose key is a single number.
fn entry(table: &Table, key: u32, data: Option<TableData>) -> Result<TableEntry, TranslateError> {
    let [only] = table.key.as_slice() else { return Err(invalid_value(table, "key", "not one field")) };
    let Kind::Bits(bits) = only.kind else { return Err(invalid_value(table, &only.name, "not a number")) };
    let value =
        resize(&key.to_be_bytes(), bits).ok_or_else(|| invalid_value(table, &only.name, "too wide"))?;
    let fields = vec![KeyField { field_id: only.id, match_type: Some(MatchType::Exact(Exact { value })) }];
    let value = Some(table_entry::Value::Key(TableKey { fields }));
    Ok(TableEntry { table_id: table.id, value, data, ..TableEntry::default() })
}

fn field(table: &Table, name: &str, value: Value) -> Result<DataField, TranslateError> {
    let field = table.field(name).ok_or_else(|| no_field(table, name.to_owned()))?;
    Ok(DataField { field_id: field.id, value: Some(value) })
}

fn integer(table: &Table, name: &str, value: u64) -> Result<DataField, TranslateError> {
    let field = table.field(name).ok_or_else(|| no_field(table, name.to_owned()))?;
    number(table, field, &value.to_be_bytes())
}

/// Returns the port of a replica in either representation.
#[allow(deprecated)] // the form that BMv2 supports
fn port(replica: &p4::Replica) -> Option<u32> {
    match replica.port_kind.as_ref()? {
        PortKind::EgressPort(port) => Some(*port),
        PortKind::Port(bytes) => to_u64(bytes).and_then(|port| u32::try_from(port).ok()),
    }
}
