//! Inverse updates: they restore the objects that an update changes to their current state.

use super::error::ControlError;
use super::state::Control;
use crate::Switch;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{
    CloneSessionEntry, CounterData, Entity, MeterConfig, MulticastGroupEntry, PacketReplicationEngineEntry,
    TableEntry, Update,
};

impl Control {
    /// Returns the updates that undo `update`; call it before applying `update`. An invalid update may fail
    /// here already.
    pub(super) fn inverse_updates(
        &self,
        switch: &Switch,
        update: &Update,
    ) -> Result<Vec<Update>, ControlError> {
        let kind = update.r#type();
        let Some(entity) = update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) else {
            return Ok(Vec::new());
        };
        if kind == Type::Insert {
            return Ok(vec![new_update(Type::Delete, entity.clone())]);
        }
        let inverse_type = if kind == Type::Delete { Type::Insert } else { Type::Modify };
        if let Kind::TableEntry(entry) = entity
            && !entry.is_default_action
        {
            let current = self.current_entry(switch, entry, kind)?;
            return Ok(vec![new_update(inverse_type, Kind::TableEntry(current))]);
        }
        let mut found = self.read(switch, &Entity { entity: Some(read_request(entity)) })?;
        if let Kind::DirectCounterEntry(_) | Kind::DirectMeterEntry(_) = entity {
            // A request with an empty match reads all entries of its table.
            let target = self.find(switch, key(entity).unwrap_or(&TableEntry::default()))?;
            found.retain(|entity| {
                let key = entity.entity.as_ref().and_then(key);
                key.and_then(|key| self.find(switch, key).ok()) == Some(target)
            });
        }
        let mut undo: Vec<Update> =
            found.into_iter().filter_map(|entity| Some(new_update(inverse_type, entity.entity?))).collect();
        if let Kind::TableEntry(entry) = entity
            && entry.is_default_action
            && undo.is_empty()
        {
            // The program declares no default action for the table; the undo restores that.
            undo.push(new_update(
                inverse_type,
                Kind::TableEntry(TableEntry { action: None, ..entry.clone() }),
            ));
        }
        Ok(undo)
    }

    /// Returns the entry that an update of type `kind` changes, with the attributes to restore.
    fn current_entry(
        &self,
        switch: &Switch,
        entry: &TableEntry,
        kind: Type,
    ) -> Result<TableEntry, ControlError> {
        let (table, _) = self.table(entry.table_id)?;
        let (id, handle) = self.find(switch, entry)?;
        // Packets are counted while a batch is applied, so a counter is restored only if the update writes or
        // deletes it.
        let restores_counter = kind == Type::Delete || entry.counter_data.is_some();
        let request = TableEntry {
            counter_data: restores_counter.then(CounterData::default),
            meter_config: Some(MeterConfig::default()),
            ..TableEntry::default()
        };
        self.read_entry(switch, table, id, &request, &switch.pipeline().table_entry(id, handle)?)
    }
}

fn new_update(kind: Type, entity: Kind) -> Update {
    Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) }
}

/// Returns the entry to which a direct resource belongs.
fn key(entity: &Kind) -> Option<&TableEntry> {
    match entity {
        Kind::DirectCounterEntry(entry) => entry.table_entry.as_ref(),
        Kind::DirectMeterEntry(entry) => entry.table_entry.as_ref(),
        _ => None,
    }
}

/// Returns the request that reads the objects that an update changes.
fn read_request(entity: &Kind) -> Kind {
    match entity {
        Kind::TableEntry(entry) => Kind::TableEntry(TableEntry {
            table_id: entry.table_id,
            is_default_action: entry.is_default_action,
            ..TableEntry::default()
        }),
        Kind::PacketReplicationEngineEntry(entry) => {
            let key = entry.r#type.as_ref().map(|kind| match kind {
                Pre::MulticastGroupEntry(group) => Pre::MulticastGroupEntry(MulticastGroupEntry {
                    multicast_group_id: group.multicast_group_id,
                    ..MulticastGroupEntry::default()
                }),
                Pre::CloneSessionEntry(session) => Pre::CloneSessionEntry(CloneSessionEntry {
                    session_id: session.session_id,
                    ..CloneSessionEntry::default()
                }),
            });
            Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: key })
        }
        // Reads of other kinds ignore everything but the key.
        other => other.clone(),
    }
}
