//! Multicast groups and clone sessions: P4Runtime's packet replication engine.

use std::collections::BTreeMap;
use thiserror::Error;

/// One copy of a replicated packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Replica {
    /// The egress port.
    pub port: u16,
    /// `standard_metadata.egress_rid`, which distinguishes copies of one packet.
    pub instance: u16,
}

/// The destinations of the clones of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloneSession {
    /// A multicast group whose replicas get copies too, before `replicas` (BMv2's `mirroring_add_mc`).
    pub group: Option<u16>,
    /// Replicas that get copies (P4Runtime's replicas, BMv2's `mirroring_add`).
    pub replicas: Vec<Replica>,
    /// The priority of the clones; `None`: the priority that the program sets.
    pub priority: Option<u8>,
    /// The maximum length of a clone in bytes; `None`: clones are not truncated.
    pub truncate: Option<u32>,
}

/// An invalid group or session. Nothing was changed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReplicationError {
    /// Group 0 means "no multicast" in a program. Session 0 is valid.
    #[error("multicast group 0 is reserved; use 1 or higher")]
    GroupZero,
    /// Session ids have 15 bits (register_access.h).
    #[error("clone session {0} exceeds the maximum of {MAX_SESSION}")]
    SessionTooHigh(u16),
    /// Two copies would be indistinguishable.
    #[error("{kind} {id} names port {} with instance {} twice; give each copy its own instance", .replica.port, .replica.instance)]
    Duplicate { kind: &'static str, id: u16, replica: Replica },
    #[error("clone session {0} truncates clones to 0 bytes; omit the length to send whole clones")]
    EmptyClones(u16),
}

/// The highest clone session (register_access.h, MAX_MIRROR_SESSION_ID).
const MAX_SESSION: u16 = (1 << 15) - 1;

/// The groups and sessions of a switch.
#[derive(Clone, Debug, Default)]
pub(super) struct Replication {
    groups: BTreeMap<u16, Vec<Replica>>,
    sessions: BTreeMap<u16, CloneSession>,
}

/// Checks that no replica occurs twice.
fn check_distinct(kind: &'static str, id: u16, replicas: &[Replica]) -> Result<(), ReplicationError> {
    let mut seen = std::collections::BTreeSet::new();
    match replicas.iter().find(|replica| !seen.insert(**replica)) {
        Some(&replica) => Err(ReplicationError::Duplicate { kind, id, replica }),
        None => Ok(()),
    }
}

impl Replication {
    /// Returns the replicas of a group in order; an empty slice for an unknown group.
    pub(super) fn group(&self, group: u16) -> &[Replica] {
        self.groups.get(&group).map_or(&[], Vec::as_slice)
    }

    pub(super) fn groups(&self) -> &BTreeMap<u16, Vec<Replica>> {
        &self.groups
    }

    pub(super) fn sessions(&self) -> &BTreeMap<u16, CloneSession> {
        &self.sessions
    }

    pub(super) fn set_group(&mut self, group: u16, replicas: Vec<Replica>) -> Result<(), ReplicationError> {
        if group == 0 {
            return Err(ReplicationError::GroupZero);
        }
        check_distinct("multicast group", group, &replicas)?;
        self.groups.insert(group, replicas);
        Ok(())
    }

    pub(super) fn delete_group(&mut self, group: u16) -> bool {
        self.groups.remove(&group).is_some()
    }

    pub(super) fn set_session(&mut self, id: u16, session: CloneSession) -> Result<(), ReplicationError> {
        if id > MAX_SESSION {
            return Err(ReplicationError::SessionTooHigh(id));
        }
        if session.truncate == Some(0) {
            return Err(ReplicationError::EmptyClones(id));
        }
        check_distinct("clone session", id, &session.replicas)?;
        self.sessions.insert(id, session);
        Ok(())
    }

    pub(super) fn delete_session(&mut self, id: u16) -> bool {
        self.sessions.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_groups_and_sessions_are_rejected_and_the_old_ones_stay() {
        let mut replication = Replication::default();
        let replica = |port, instance| Replica { port, instance };
        replication.set_group(1, vec![replica(1, 0), replica(1, 1)]).unwrap();
        let error = replication.set_group(1, vec![replica(2, 5), replica(2, 5)]).unwrap_err().to_string();
        assert!(error.contains("port 2 with instance 5 twice"), "{error}");
        assert_eq!(replication.group(1), [replica(1, 0), replica(1, 1)]);
        assert!(replication.set_group(0, vec![]).unwrap_err().to_string().contains("use 1 or higher"));
        let empty_clones = CloneSession { truncate: Some(0), ..CloneSession::default() };
        assert_eq!(replication.set_session(1, empty_clones.clone()), Err(ReplicationError::EmptyClones(1)));
        assert_eq!(
            replication.set_session(1 << 15, empty_clones),
            Err(ReplicationError::SessionTooHigh(1 << 15))
        );
        assert!(
            replication.delete_group(1) && !replication.delete_group(1) && !replication.delete_session(1)
        );
    }
}
