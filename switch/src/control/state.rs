//! The state behind P4Runtime that a switch does not have.

use super::error::ControlError;
use super::widths::check_widths;
use crate::Switch;
use crate::pipeline::{EntryHandle, GroupHandle, MemberHandle, Pipeline};
use crate::program::{ActionId, ActionInfo, TableId, TableInfo};
use p4runtime::p4::config::v1::{ActionProfile, ActionRef};
use p4runtime::p4::v1::{ActionProfileActionSet, ActionProfileGroup, MulticastGroupEntry, digest_entry};
use p4runtime::p4info::{Index, Object};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The P4Runtime view of one switch: writes and reads its entities.
#[derive(Clone, Debug)]
pub struct Control {
    pub(super) index: Arc<Index>,
    /// The pipeline's table ids, by P4Runtime table id.
    pub(super) tables: BTreeMap<u32, TableId>,
    pub(super) actions: Arc<ActionIds>,
    /// The attributes of entries that the pipeline does not store; most entries have none.
    pub(super) entry_extras: BTreeMap<EntryRef, EntryExtras>,
    /// Number of entries with an idle timeout.
    pub(super) entries_with_timeout: usize,
    pub(super) profiles: BTreeMap<u32, ProfileEntities>,
    /// Multicast groups as written, for their metadata.
    pub(super) multicast: BTreeMap<u16, MulticastGroupEntry>,
    /// Clone sessions whose replicas were written with the deprecated `egress_port`.
    pub(super) legacy_clone_sessions: BTreeSet<u16>,
    /// Configurations of the enabled digests, by id.
    pub(super) digests: BTreeMap<u32, digest_entry::Config>,
}

impl Control {
    /// Creates the view of a switch that runs the program with this P4Info.
    ///
    /// # Errors
    ///
    /// The P4Info does not belong to the switch's program, or has a field wider than p4c supports.
    pub fn new(index: Arc<Index>, switch: &Switch) -> Result<Control, ControlError> {
        let mismatch = |e| ControlError::invalid(format!("the P4Info is not of the switch's program: {e}"));
        let mut tables = BTreeMap::new();
        check_widths(&index)?;
        for table in &index.tables {
            let preamble = table.preamble();
            let id = switch.pipeline().table_by_name(&preamble.name).map_err(|e| mismatch(e.to_string()))?;
            tables.insert(preamble.id, id);
        }
        let profiles =
            index.action_profiles.iter().map(|p| (p.preamble().id, ProfileEntities::default())).collect();
        Ok(Control {
            actions: Arc::new(ActionIds::new(&index, switch.pipeline())),
            index,
            tables,
            profiles,
            entry_extras: BTreeMap::new(),
            entries_with_timeout: 0,
            multicast: BTreeMap::new(),
            legacy_clone_sessions: BTreeSet::new(),
            digests: BTreeMap::new(),
        })
    }

    pub fn p4info(&self) -> &Arc<Index> {
        &self.index
    }
}

/// The pipeline's ids of the actions in the P4Info.
#[derive(Clone, Debug)]
pub(super) struct ActionIds {
    /// By the P4Runtime ids of a table or action profile, and of its action.
    pub pipeline: BTreeMap<(u32, u32), ActionId>,
    pub p4runtime: BTreeMap<ActionId, u32>,
}

impl ActionIds {
    fn new(index: &Index, pipeline: &Pipeline) -> ActionIds {
        let mut ids = BTreeMap::new();
        let mut insert = |owner: u32, refs: &[ActionRef], actions: &[ActionId]| {
            let named: BTreeMap<&str, ActionId> = actions
                .iter()
                .rev()
                .map(|&action| (pipeline.program().action_name(action), action))
                .collect();
            for &ActionRef { id, .. } in refs {
                let name = index.actions.id(id).map_or("", |info| &info.preamble().name);
                ids.extend(named.get(name).map(|&action| ((owner, id), action)));
            }
        };
        let tables: BTreeMap<&str, &TableInfo> =
            pipeline.program().tables().map(|(_, info)| (info.name.as_str(), info)).collect();
        for table in &index.tables {
            let actions = tables.get(table.preamble().name.as_str()).map_or(&[][..], |info| &info.actions);
            insert(table.preamble().id, &table.action_refs, actions);
        }
        for profile in &index.action_profiles {
            let actions = pipeline.member_actions(&profile.preamble().name).unwrap_or_default();
            insert(profile.preamble().id, &profile_actions(index, profile), &actions);
        }
        let known = |(id, info): (ActionId, &ActionInfo)| {
            Some((id, index.actions.named(&info.name).ok()?.preamble().id))
        };
        ActionIds { pipeline: ids, p4runtime: pipeline.program().actions().filter_map(known).collect() }
    }
}

/// Returns the actions that are allowed in members of a profile: the actions of its tables.
pub(super) fn profile_actions(index: &Index, profile: &ActionProfile) -> Vec<ActionRef> {
    let tables = profile.table_ids.iter().filter_map(|&id| index.tables.id(id));
    tables.flat_map(|table| table.action_refs.iter().cloned()).collect()
}

/// Identifies an entry, or a default action, in a map over all tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EntryRef {
    /// P4Runtime id of the table.
    pub table_id: u32,
    /// `None`: the default action.
    pub handle: Option<EntryHandle>,
}

/// The attributes of an entry that the pipeline does not store.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct EntryExtras {
    pub controller_metadata: u64,
    pub metadata: Vec<u8>,
    pub idle_timeout_ns: i64,
    pub one_shot: Option<OneShot>,
}

/// The members and groups of one action profile, by the controller's ids.
#[derive(Clone, Debug, Default)]
pub(super) struct ProfileEntities {
    pub members: BTreeMap<u32, MemberHandle>,
    pub groups: BTreeMap<u32, Group>,
    /// Number of one-shot sets in use. A profile has either one-shot sets or members and groups with ids.
    pub one_shots: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Group {
    pub handle: GroupHandle,
    pub entry: ActionProfileGroup,
}

/// A one-shot action set, with the group and members created for it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct OneShot {
    /// The set as written.
    pub set: ActionProfileActionSet,
    pub group: GroupHandle,
    pub members: Vec<MemberHandle>,
}
