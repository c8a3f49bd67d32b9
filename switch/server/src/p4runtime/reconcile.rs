//! RECONCILE_AND_COMMIT: copies the state of a pipeline to another one.

use super::forwarding_pipeline::StagedPipeline;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, CounterData, CounterEntry, DigestEntry,
    Entity, MeterConfig, MeterEntry, MulticastGroupEntry, PacketReplicationEngineEntry, RegisterEntry,
    TableEntry, Update, ValueSetEntry,
};
use p4runtime::p4info::{Index, Object};
use std::sync::Arc;
use weir_switch::control::{Control, ControlError};
use weir_switch::engine::{CloneSession, Switch, SwitchConfig};

/// The state of a pipeline that its program does not define, as updates in a valid order.
pub(super) struct PipelineState {
    index: Arc<Index>,
    updates: Vec<Update>,
    /// Sessions that no P4Runtime entry describes completely: those with a multicast group, and session 0. Thrift
    /// can create both.
    sessions: Vec<(u16, CloneSession)>,
}

impl PipelineState {
    /// Reads the state of a pipeline.
    ///
    /// # Errors
    ///
    /// INTERNAL: an entity cannot be read, which is a bug of the switch.
    pub(super) fn capture(control: &Control, switch: &Switch) -> Result<PipelineState, ControlError> {
        let index = Arc::clone(control.p4info());
        // Cells (elements of register, counter and meter arrays), default actions and const entries exist in every
        // switch with this program. Only differences from a fresh switch are state; writing the rest would restore
        // defaults that the new program may have changed.
        let program = Arc::clone(switch.pipeline().program());
        let fresh_switch = Switch::new(program, SwitchConfig::new([1]), 0)
            .map_err(|error| ControlError::new(Code::Internal, error.to_string()))?;
        let fresh_control = Control::new(Arc::clone(&index), &fresh_switch)?;
        let mut updates = Vec::new();
        for (kind, request) in state_read_requests() {
            let request = Entity { entity: Some(request) };
            let current = control.read(switch, &request)?;
            let initial = fresh_control.read(&fresh_switch, &request)?;
            // Cells and default actions exist from the start. Cells are compared by position; default actions by
            // content, since a table that gained one shifts the positions of those after it.
            let compares_content = matches!(request.entity, Some(Kind::TableEntry(_)));
            let to_update = |(index, entity): (usize, Entity)| {
                let is_unchanged =
                    initial.get(index) == Some(&entity) || compares_content && initial.contains(&entity);
                match kind {
                    Type::Modify if is_unchanged => None,
                    _ => Some(Update { r#type: kind.into(), entity: Some(entity) }),
                }
            };
            updates.extend(
                current.into_iter().enumerate().filter_map(to_update).filter(|update| !is_const(update)),
            );
        }
        // P4Runtime cannot write session 0; `sessions` has it.
        updates.retain(|update| clone_session(update).is_none_or(|session| session.session_id > 0));
        let sessions = switch.clone_sessions().iter();
        let sessions = sessions.filter(|&(&id, session)| id == 0 || session.group.is_some());
        let sessions = sessions.map(|(&id, session)| (id, session.clone())).collect();
        Ok(PipelineState { index, updates, sessions })
    }

    /// Writes the state to another pipeline.
    ///
    /// # Errors
    ///
    /// INVALID_ARGUMENT: the other program lacks an entity, or its ids have another meaning.
    pub(super) fn restore(self, candidate: &mut StagedPipeline) -> Result<(), ControlError> {
        let not_preserved = |error: ControlError| {
            let message = format!("the switch's state cannot be preserved: {}", error.message);
            ControlError::new(Code::InvalidArgument, message)
        };
        for update in &self.updates {
            let checked = self.check_compatible(candidate.control.p4info(), update);
            let written = checked.and_then(|()| candidate.control.apply(&mut candidate.switch, update));
            written.map_err(not_preserved)?;
        }
        for (id, session) in self.sessions {
            let written = candidate.switch.set_clone_session(id, session);
            written.map_err(|error| not_preserved(error.into()))?;
        }
        Ok(())
    }

    /// Checks that ids mean the same in both programs. p4c derives ids from names, but programmers can choose them.
    fn check_compatible(&self, other: &Index, update: &Update) -> Result<(), ControlError> {
        let incompatible = |kind: &str, name: &str| {
            ControlError::new(
                Code::InvalidArgument,
                format!("{kind} {name} is missing or different in the new program"),
            )
        };
        match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
            Some(Kind::TableEntry(entry)) => {
                let Some(table) = self.index.tables.id(entry.table_id) else { return Ok(()) };
                let is_same_table = other.tables.id(entry.table_id).is_some_and(|other| {
                    other.preamble().name == table.preamble().name && other.match_fields == table.match_fields
                });
                let permitted =
                    table.action_refs.iter().filter_map(|action| self.index.actions.id(action.id));
                let different_action = permitted.into_iter().find(|action| {
                    let counterpart = other.actions.id(action.preamble().id);
                    counterpart.is_some_and(|other| {
                        other.preamble().name != action.preamble().name || other.params != action.params
                    })
                });
                match (is_same_table, different_action) {
                    (false, _) => Err(incompatible("table", &table.preamble().name)),
                    (_, Some(action)) => Err(incompatible("action", &action.preamble().name)),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }
}

/// Returns the requests that read all state, each with the type of the update that restores an entity. Entities to
/// which others refer come first.
fn state_read_requests() -> [(Type, Kind); 11] {
    let pre = |kind| Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) });
    let entries = TableEntry {
        counter_data: Some(CounterData::default()),
        meter_config: Some(MeterConfig::default()),
        ..TableEntry::default()
    };
    let defaults = TableEntry { is_default_action: true, ..TableEntry::default() };
    [
        (Type::Insert, Kind::ActionProfileMember(ActionProfileMember::default())),
        (Type::Insert, Kind::ActionProfileGroup(ActionProfileGroup::default())),
        (Type::Insert, Kind::TableEntry(entries)),
        (Type::Modify, Kind::TableEntry(defaults)),
        (Type::Modify, Kind::CounterEntry(CounterEntry::default())),
        (Type::Modify, Kind::MeterEntry(MeterEntry::default())),
        (Type::Modify, Kind::RegisterEntry(RegisterEntry::default())),
        (Type::Modify, Kind::ValueSetEntry(ValueSetEntry::default())),
        (Type::Insert, pre(Pre::MulticastGroupEntry(MulticastGroupEntry::default()))),
        (Type::Insert, pre(Pre::CloneSessionEntry(CloneSessionEntry::default()))),
        (Type::Insert, Kind::DigestEntry(DigestEntry::default())),
    ]
}

fn clone_session(update: &Update) -> Option<&CloneSessionEntry> {
    match update.entity.as_ref()?.entity.as_ref()? {
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Pre::CloneSessionEntry(session) => Some(session),
            Pre::MulticastGroupEntry(_) => None,
        },
        _ => None,
    }
}

fn is_const(update: &Update) -> bool {
    match update.entity.as_ref().and_then(|entity| entity.entity.as_ref()) {
        Some(Kind::TableEntry(entry)) => entry.is_const,
        _ => false,
    }
}
