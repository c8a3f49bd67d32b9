//! Writes and reads the packet replication engine: multicast groups and clone sessions.

use super::error::ControlError;
use super::state::Control;
use super::value::port;
use crate::Switch;
use crate::engine::{CloneSession, Replica};
use p4runtime::p4::v1::entity::Entity;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Kind;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{self, CloneSessionEntry, MulticastGroupEntry, PacketReplicationEngineEntry, Update};
use p4runtime::value::from_uint;

/// The highest class of service: `standard_metadata.priority` has three bits.
const MAX_CLASS_OF_SERVICE: u32 = 7;

impl Control {
    pub(super) fn write_replication(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &PacketReplicationEngineEntry,
    ) -> Result<(), ControlError> {
        match &entry.r#type {
            Some(Kind::MulticastGroupEntry(group)) => self.write_multicast(switch, kind, group),
            Some(Kind::CloneSessionEntry(session)) => self.write_clone(switch, kind, session),
            None => Err(ControlError::invalid("the entry is neither a multicast group nor a clone session")),
        }
    }

    fn write_multicast(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        group: &MulticastGroupEntry,
    ) -> Result<(), ControlError> {
        let id = to_u16_id(group.multicast_group_id, "multicast group")?;
        check_presence(
            kind,
            switch.multicast_groups().contains_key(&id),
            format_args!("multicast group {id}"),
        )?;
        if kind == Type::Delete {
            switch.delete_multicast_group(id);
            self.multicast.remove(&id);
        } else {
            switch.set_multicast_group(id, from_replicas(&group.replicas)?)?;
            self.multicast.insert(id, group.clone());
        }
        Ok(())
    }

    pub(super) fn read_replication(
        &self,
        switch: &Switch,
        request: &PacketReplicationEngineEntry,
    ) -> Result<Vec<PacketReplicationEngineEntry>, ControlError> {
        let wrap = |kind| PacketReplicationEngineEntry { r#type: Some(kind) };
        Ok(match &request.r#type {
            Some(Kind::MulticastGroupEntry(request)) => {
                let is_requested = |id: u16| [0, u32::from(id)].contains(&request.multicast_group_id);
                let groups = switch.multicast_groups().iter().filter(|(id, _)| is_requested(**id));
                groups
                    .map(|(&id, replicas)| {
                        wrap(Kind::MulticastGroupEntry(self.multicast_entry(id, replicas)))
                    })
                    .collect()
            }
            Some(Kind::CloneSessionEntry(request)) => {
                let is_requested = |id: u16| [0, u32::from(id)].contains(&request.session_id);
                let sessions = switch.clone_sessions().iter().filter(|(id, _)| is_requested(**id));
                sessions
                    .map(|(&id, session)| wrap(Kind::CloneSessionEntry(self.clone_entry(id, session))))
                    .collect()
            }
            None => {
                return Err(ControlError::invalid(
                    "the entry is neither a multicast group nor a clone session",
                ));
            }
        })
    }

    fn multicast_entry(&self, id: u16, replicas: &[Replica]) -> MulticastGroupEntry {
        let written = self.multicast.get(&id);
        let metadata = written.map(|group| group.metadata.clone()).unwrap_or_default();
        let replicas = to_replicas(replicas, written.is_some_and(|group| uses_egress_port(&group.replicas)));
        MulticastGroupEntry { multicast_group_id: id.into(), replicas, metadata }
    }

    fn write_clone(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &CloneSessionEntry,
    ) -> Result<(), ControlError> {
        let id = write_session(switch, kind, entry)?;
        let is_legacy = kind != Type::Delete && uses_egress_port(&entry.replicas);
        match is_legacy {
            true => self.legacy_clone_sessions.insert(id),
            false => self.legacy_clone_sessions.remove(&id),
        };
        Ok(())
    }

    fn clone_entry(&self, id: u16, session: &CloneSession) -> CloneSessionEntry {
        let length = session.truncate.and_then(|length| i32::try_from(length).ok());
        CloneSessionEntry {
            session_id: id.into(),
            replicas: to_replicas(&session.replicas, self.legacy_clone_sessions.contains(&id)),
            class_of_service: session.priority.unwrap_or(0).into(),
            packet_length_bytes: length.unwrap_or(0),
        }
    }
}

fn write_session(switch: &mut Switch, kind: Type, entry: &CloneSessionEntry) -> Result<u16, ControlError> {
    let id = to_u16_id(entry.session_id, "clone session")?;
    check_presence(kind, switch.clone_sessions().contains_key(&id), format_args!("clone session {id}"))?;
    if kind == Type::Delete {
        switch.delete_clone_session(id);
        return Ok(id);
    }
    if entry.class_of_service > MAX_CLASS_OF_SERVICE {
        return Err(ControlError::invalid(format!(
            "class of service {} is above {MAX_CLASS_OF_SERVICE}",
            entry.class_of_service
        )));
    }
    let length = u32::try_from(entry.packet_length_bytes).map_err(|_| {
        ControlError::invalid(format!("packet length {} is negative", entry.packet_length_bytes))
    })?;
    let session = CloneSession {
        // P4Runtime's entry has no group: MODIFY keeps the one that Thrift set.
        group: switch.clone_sessions().get(&id).and_then(|session| session.group),
        replicas: from_replicas(&entry.replicas)?,
        // Clients send class 0 by default, so it keeps the priority that the program set, as in BMv2.
        priority: (entry.class_of_service > 0).then_some(entry.class_of_service as u8),
        truncate: (length > 0).then_some(length),
    };
    switch.set_clone_session(id, session)?;
    Ok(id)
}

/// Returns the clone session that an update deletes and its multicast group, if it has one. P4Runtime's entries have
/// no group, so the inverse of the update does not restore it.
pub(super) fn deleted_session_group(switch: &Switch, update: &Update) -> Option<(u16, u16)> {
    let entity = update.entity.as_ref().filter(|_| update.r#type() == Type::Delete)?;
    let Some(Entity::PacketReplicationEngineEntry(PacketReplicationEngineEntry {
        r#type: Some(Kind::CloneSessionEntry(entry)),
    })) = &entity.entity
    else {
        return None;
    };
    let id = u16::try_from(entry.session_id).ok()?;
    Some((id, switch.clone_sessions().get(&id)?.group?))
}

/// Sets the multicast group of a clone session, if the session exists.
pub(super) fn set_session_group(switch: &mut Switch, id: u16, group: u16) -> Result<(), ControlError> {
    let Some(session) = switch.clone_sessions().get(&id).cloned() else { return Ok(()) };
    Ok(switch.set_clone_session(id, CloneSession { group: Some(group), ..session })?)
}

/// Converts the id of a group or session. v1model's ids have 16 bits, and 0 is the wildcard of reads.
fn to_u16_id(id: u32, what: &str) -> Result<u16, ControlError> {
    match u16::try_from(id) {
        Ok(0) => Err(ControlError::invalid(format!("{what} 0 is the wildcard of reads; use 1 or higher"))),
        Ok(id) => Ok(id),
        Err(_) => Err(ControlError::invalid(format!("{what} {id} does not fit 16 bits"))),
    }
}

/// Checks that the object does not exist for INSERT, and exists for MODIFY and DELETE.
fn check_presence(kind: Type, exists: bool, what: std::fmt::Arguments<'_>) -> Result<(), ControlError> {
    match (kind, exists) {
        (Type::Insert, true) => Err(ControlError::exists(format!("{what} exists"))),
        (Type::Modify | Type::Delete, false) => Err(ControlError::not_found(format!("there is no {what}"))),
        _ => Ok(()),
    }
}

fn from_replicas(entries: &[v1::Replica]) -> Result<Vec<Replica>, ControlError> {
    let convert = |entry: &v1::Replica| {
        if !entry.backup_replicas.is_empty() {
            return Err(ControlError::unimplemented("backup replicas are not supported"));
        }
        #[allow(deprecated)] // older clients still send it
        let port = match &entry.port_kind {
            Some(PortKind::Port(value)) => port(value)?,
            Some(PortKind::EgressPort(number)) => port(&number.to_be_bytes())?,
            None => return Err(ControlError::invalid("a replica has no port")),
        };
        let instance = u16::try_from(entry.instance).map_err(|_| {
            ControlError::invalid(format!("instance {} does not fit 16 bits", entry.instance))
        })?;
        Ok(Replica { port, instance })
    };
    entries.iter().map(convert).collect()
}

/// Returns whether replicas use the deprecated `egress_port`. Clients that write it do not understand its
/// successor `port`, so reads return `egress_port` too.
fn uses_egress_port(replicas: &[v1::Replica]) -> bool {
    #[allow(deprecated)]
    replicas.iter().any(|replica| matches!(replica.port_kind, Some(PortKind::EgressPort(_))))
}

fn to_replicas(replicas: &[Replica], use_egress_port: bool) -> Vec<v1::Replica> {
    let convert = |replica: &Replica| {
        #[allow(deprecated)]
        let port_kind = match use_egress_port {
            true => PortKind::EgressPort(replica.port.into()),
            false => PortKind::Port(from_uint(replica.port.into())),
        };
        v1::Replica {
            port_kind: Some(port_kind),
            instance: replica.instance.into(),
            backup_replicas: Vec::new(),
        }
    };
    replicas.iter().map(convert).collect()
}
