use super::check;
use crate::bfrt_proto::data_field::Value;
use crate::bfrt_proto::{
    Entity, Error, TableData, TableEntry, TableKey, Update, entity, table_entry, update,
};
use crate::info::{BfrtInfo, Table};
use p4runtime::google::rpc::Code;
use prost::Message;
use std::collections::BTreeMap;

/// The tables of a switch in memory. Every update is checked against the description of its table.
#[derive(Clone, Debug)]
pub struct Tables {
    info: BfrtInfo,
    /// Entries by table id, then by encoded key.
    entries: BTreeMap<u32, BTreeMap<Vec<u8>, TableEntry>>,
    defaults: BTreeMap<u32, TableData>,
}

impl Tables {
    /// Creates empty tables with these descriptions: those of the program and of the driver.
    pub fn new(info: BfrtInfo) -> Tables {
        Tables { info, entries: BTreeMap::new(), defaults: BTreeMap::new() }
    }

    pub fn info(&self) -> &BfrtInfo {
        &self.info
    }

    /// Returns the number of entries of a table, without the default entry.
    pub fn len(&self, table_id: u32) -> usize {
        self.entries.get(&table_id).map_or(0, BTreeMap::len)
    }

    /// Returns whether no table has entries or a default entry that a client has set.
    pub fn is_empty(&self) -> bool {
        self.entries.values().all(BTreeMap::is_empty) && self.defaults.is_empty()
    }

    /// Applies an update.
    ///
    /// # Errors
    ///
    /// The update does not match the table's description (INVALID_ARGUMENT), the entry exists already or does not
    /// exist (ALREADY_EXISTS, NOT_FOUND), the table is full (RESOURCE_EXHAUSTED), another entry refers to it
    /// (FAILED_PRECONDITION), or the kind of update is not supported (UNIMPLEMENTED).
    pub fn write(&mut self, update: &Update) -> Result<(), Error> {
        let Some(entity::Entity::TableEntry(entry)) =
            update.entity.as_ref().and_then(|it| it.entity.as_ref())
        else {
            return Err(error(Code::Unimplemented, "only table entries can be written"));
        };
        let invalid = |reason: String| error(Code::InvalidArgument, &reason);
        let table = self.info.id(entry.table_id);
        let table = table.ok_or_else(|| invalid(format!("no table {:#010x}", entry.table_id)))?.clone();
        check::writable(&table, entry).map_err(invalid)?;
        if entry.is_default_entry {
            return self.write_default(&table, update.r#type(), entry);
        }
        let key = check::key(&table, entry).map_err(invalid)?;
        let encoded = sorted(key).encode_to_vec();
        let existing = self.entries.get(&table.id).and_then(|all| all.get(&encoded));
        let kind = update.r#type();
        match (kind, existing) {
            (update::Type::Insert, Some(_)) => {
                return Err(error(Code::AlreadyExists, &format!("{}: the entry exists", table.name)));
            }
            (update::Type::Modify | update::Type::Delete, None) => {
                return Err(error(Code::NotFound, &format!("{}: no such entry", table.name)));
            }
            (update::Type::Insert | update::Type::Modify | update::Type::Delete, _) => {}
            _ => return Err(error(Code::Unimplemented, "only INSERT, MODIFY and DELETE are supported")),
        }
        if kind == update::Type::Delete {
            self.check_unused(&table, &encoded)?;
            if let Some(all) = self.entries.get_mut(&table.id) {
                all.remove(&encoded);
            }
            return Ok(());
        }
        check::data(&table, entry, kind == update::Type::Insert).map_err(invalid)?;
        self.check_references(&table, entry)?;
        if kind == update::Type::Insert && self.len(table.id) as u64 >= table.size {
            let reason = format!("{}: the table is full ({} entries)", table.name, table.size);
            return Err(error(Code::ResourceExhausted, &reason));
        }
        let mut stored = entry.clone();
        if let Some(old) = existing.filter(|_| kind == update::Type::Modify) {
            stored.data = stored.data.map(|new| merged_data(old.data.as_ref(), new));
        }
        self.entries.entry(table.id).or_default().insert(encoded, stored);
        Ok(())
    }

    fn write_default(&mut self, table: &Table, kind: update::Type, entry: &TableEntry) -> Result<(), Error> {
        match kind {
            update::Type::Modify => {
                let data = check::data(table, entry, true)
                    .map_err(|reason| error(Code::InvalidArgument, &reason))?;
                self.defaults.insert(table.id, data.clone());
                Ok(())
            }
            update::Type::Delete => {
                self.defaults.remove(&table.id);
                Ok(())
            }
            _ => Err(error(Code::Unimplemented, "a default entry is written with MODIFY")),
        }
    }

    /// Checks that all nodes of a multicast group exist.
    fn check_references(&self, table: &Table, entry: &TableEntry) -> Result<(), Error> {
        let nodes = self.nodes(table, entry);
        let missing = nodes.into_iter().find(|node| !self.has_node(*node));
        missing.map_or(Ok(()), |node| {
            Err(error(Code::InvalidArgument, &format!("{}: no node {node}", table.name)))
        })
    }

    /// Checks that no multicast group refers to a node that is deleted.
    fn check_unused(&self, table: &Table, key: &[u8]) -> Result<(), Error> {
        let (Some(groups), "$pre.node") = (self.info.named("$pre.mgid"), table.name.as_str()) else {
            return Ok(());
        };
        let all = self.entries.get(&groups.id).into_iter().flat_map(BTreeMap::values);
        let used = all.flat_map(|group| self.nodes(groups, group)).any(|node| self.node_key(node) == key);
        match used {
            true => Err(error(Code::FailedPrecondition, "$pre.node: a group refers to the node")),
            false => Ok(()),
        }
    }

    fn nodes(&self, table: &Table, entry: &TableEntry) -> Vec<u32> {
        let field = table.field("$MULTICAST_NODE_ID").filter(|_| table.name == "$pre.mgid");
        let data = entry.data.as_ref().map(|data| data.fields.as_slice()).unwrap_or_default();
        let given = field.and_then(|field| data.iter().find(|given| given.field_id == field.id));
        match given.and_then(|given| given.value.as_ref()) {
            Some(Value::IntArrVal(all)) => all.val.clone(),
            _ => Vec::new(),
        }
    }

    fn has_node(&self, node: u32) -> bool {
        let nodes = self.info.named("$pre.node").and_then(|table| self.entries.get(&table.id));
        nodes.is_some_and(|nodes| nodes.contains_key(&self.node_key(node)))
    }

    fn node_key(&self, node: u32) -> Vec<u8> {
        use crate::bfrt_proto::KeyField;
        use crate::bfrt_proto::key_field::{Exact, MatchType};
        let id = self.info.named("$pre.node").and_then(|table| table.key.first()).map_or(0, |field| field.id);
        let value = node.to_be_bytes().to_vec();
        let field = KeyField { field_id: id, match_type: Some(MatchType::Exact(Exact { value })) };
        TableKey { fields: vec![field] }.encode_to_vec()
    }

    /// Returns all entries of a table, a single entry, or the default entry, as requested.
    ///
    /// # Errors
    ///
    /// The table does not exist (INVALID_ARGUMENT), the entry does not exist (NOT_FOUND), or the kind of entity is not
    /// supported (UNIMPLEMENTED).
    pub fn read(&self, entity: &Entity) -> Result<Vec<Entity>, Error> {
        let Some(entity::Entity::TableEntry(requested)) = &entity.entity else {
            return Err(error(Code::Unimplemented, "only table entries can be read"));
        };
        let invalid = |reason: String| error(Code::InvalidArgument, &reason);
        let table = self.info.id(requested.table_id);
        let table = table.ok_or_else(|| invalid(format!("no table {:#010x}", requested.table_id)))?;
        let found = |entry: TableEntry| Entity { entity: Some(entity::Entity::TableEntry(entry)) };
        if requested.is_default_entry {
            let data = self.defaults.get(&table.id).cloned().or_else(|| initial_default(table));
            let entry = data.map(|data| TableEntry {
                table_id: table.id,
                data: Some(data),
                is_default_entry: true,
                ..TableEntry::default()
            });
            return Ok(entry.into_iter().map(found).collect());
        }
        let all = self.entries.get(&table.id);
        match &requested.value {
            Some(table_entry::Value::Key(_)) => {
                let key = sorted(check::key(table, requested).map_err(invalid)?).encode_to_vec();
                let entry = all.and_then(|all| all.get(&key)).cloned();
                let entry = entry.ok_or_else(|| error(Code::NotFound, &table.name))?;
                Ok(vec![found(entry)])
            }
            _ => Ok(all.into_iter().flat_map(BTreeMap::values).cloned().map(found).collect()),
        }
    }
}

/// Merges the data of a MODIFY: omitted fields keep their values if the action is the same.
fn merged_data(old: Option<&TableData>, mut new: TableData) -> TableData {
    let Some(old) = old.filter(|old| old.action_id == new.action_id) else { return new };
    for field in &old.fields {
        if new.fields.iter().all(|given| given.field_id != field.field_id) {
            new.fields.push(field.clone());
        }
    }
    new
}

/// Returns the default entry as the description defines it, before a client has set one.
fn initial_default(table: &Table) -> Option<TableData> {
    use crate::bfrt_proto::DataField;
    use crate::info::{Scope, TableType};
    use crate::value::resize;
    if table.table_type == TableType::RegisterParam {
        let fields = table.fields.iter().map(|field| {
            let value = resize(&field.default?.to_be_bytes(), field.kind.bits()?)?;
            Some(DataField { field_id: field.id, value: Some(Value::Stream(value)) })
        });
        return Some(TableData { action_id: 0, fields: fields.collect::<Option<_>>()? });
    }
    let action = table.actions.iter().find(|it| it.scope == Scope::DefaultOnly && it.fields.is_empty())?;
    Some(TableData { action_id: action.id, fields: Vec::new() })
}

fn sorted(key: &TableKey) -> TableKey {
    let mut key = key.clone();
    key.fields.sort_by_key(|field| field.field_id);
    key
}

pub(super) fn error(code: Code, message: &str) -> Error {
    Error { canonical_code: code.into(), message: message.to_owned(), ..Error::default() }
}
