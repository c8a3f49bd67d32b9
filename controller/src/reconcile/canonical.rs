//! The canonical form of entities, in which equal entities have equal bytes, and their identity.

use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::{
    Action, ActionProfileGroup, ActionProfileMember, Entity, FieldMatch, MulticastGroupEntry,
    PacketReplicationEngineEntry, Replica, TableEntry,
};
use p4runtime::p4info::Index;
use p4runtime::value;
use prost::Message;

/// The identity of an entity, as opposed to its content. A switch holds at most one entity of each identity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identity {
    /// A multicast group, by its id.
    Multicast(u32),
    /// A clone session, by its id.
    Clone(u32),
    Member {
        profile: u32,
        member: u32,
    },
    Group {
        profile: u32,
        group: u32,
    },
    /// The default action of a table, by table id.
    Default(u32),
    Entry {
        table: u32,
        /// Encoded match fields in canonical form.
        key: Vec<u8>,
        /// 0 in tables without priorities.
        priority: i32,
    },
}

/// Returns the identity of an entity in canonical form, or `None` if entities of this type are not compared.
pub fn identity(entity: &Entity) -> Option<Identity> {
    Some(match entity.entity.as_ref()? {
        Kind::TableEntry(entry) if entry.is_default_action => Identity::Default(entry.table_id),
        Kind::TableEntry(entry) => Identity::Entry {
            table: entry.table_id,
            key: TableEntry { r#match: entry.r#match.clone(), ..TableEntry::default() }.encode_to_vec(),
            priority: entry.priority,
        },
        Kind::ActionProfileMember(member) => {
            Identity::Member { profile: member.action_profile_id, member: member.member_id }
        }
        Kind::ActionProfileGroup(group) => {
            Identity::Group { profile: group.action_profile_id, group: group.group_id }
        }
        Kind::PacketReplicationEngineEntry(entry) => match entry.r#type.as_ref()? {
            Pre::MulticastGroupEntry(group) => Identity::Multicast(group.multicast_group_id),
            Pre::CloneSessionEntry(session) => Identity::Clone(session.session_id),
        },
        _ => return None,
    })
}

/// Returns the identities of entries with shorter prefixes that cover the prefix of this entry, longest first. Empty if
/// the entity, which must be in canonical form, is not an entry with a prefix.
pub(super) fn shorter_prefixes(entity: &Entity, p4info: &Index) -> impl Iterator<Item = Identity> + use<> {
    let prefix = || {
        let Kind::TableEntry(entry) = entity.entity.as_ref()? else { return None };
        let prefix_len = |field: &FieldMatch| match &field.field_match_type {
            Some(FieldMatchType::Lpm(lpm)) => Some(lpm.prefix_len),
            _ => None,
        };
        let (index, len) =
            entry.r#match.iter().enumerate().find_map(|(index, field)| Some((index, prefix_len(field)?)))?;
        let fields = &p4info.tables.id(entry.table_id)?.match_fields;
        let width = fields.iter().find(|field| field.id == entry.r#match[index].field_id)?.bitwidth;
        Some((entry.clone(), index, len, width))
    };
    prefix().into_iter().flat_map(|(entry, index, len, width)| {
        (0..len).rev().filter_map(move |len| {
            let mut shorter = entry.clone();
            if let Some(FieldMatchType::Lpm(lpm)) = &mut shorter.r#match[index].field_match_type {
                lpm.prefix_len = len;
                clear_low_bits(&mut lpm.value, (width - len).unsigned_abs());
            }
            identity(&canonical(&Entity { entity: Some(Kind::TableEntry(shorter)) }))
        })
    })
}

/// Clears the lowest `count` bits of a big-endian number.
fn clear_low_bits(value: &mut [u8], count: u32) {
    for (byte, lowest_bit) in value.iter_mut().rev().zip((0..).step_by(8)) {
        *byte &= 0xff_u8.checked_shl(count.saturating_sub(lowest_bit)).unwrap_or(0);
    }
}

/// Returns the entity in canonical form: canonical byte strings, fields and members in order, don't-care fields
/// omitted. Counters and metadata are removed, since they are not compared.
pub fn canonical(entity: &Entity) -> Entity {
    let kind = entity.entity.as_ref().map(|kind| match kind {
        Kind::TableEntry(entry) => Kind::TableEntry(table_entry(entry)),
        Kind::ActionProfileMember(member) => Kind::ActionProfileMember(ActionProfileMember {
            action: member.action.as_ref().map(action),
            ..member.clone()
        }),
        Kind::ActionProfileGroup(group) => {
            let mut members = group.members.clone();
            members.sort_by_key(|member| (member.member_id, member.weight));
            Kind::ActionProfileGroup(ActionProfileGroup { members, ..group.clone() })
        }
        Kind::PacketReplicationEngineEntry(entry) => {
            let r#type = entry.r#type.clone().map(|kind| match kind {
                Pre::MulticastGroupEntry(group) => Pre::MulticastGroupEntry(MulticastGroupEntry {
                    replicas: replicas(&group.replicas),
                    metadata: Vec::new(),
                    ..group
                }),
                Pre::CloneSessionEntry(mut session) => {
                    session.replicas = replicas(&session.replicas);
                    Pre::CloneSessionEntry(session)
                }
            });
            Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type })
        }
        other => other.clone(),
    });
    Entity { entity: kind }
}

fn table_entry(entry: &TableEntry) -> TableEntry {
    let mut fields: Vec<FieldMatch> = entry.r#match.iter().filter_map(field).collect();
    fields.sort_by_key(|field| field.field_id);
    let mut table_action = entry.action.clone();
    if let Some(ActionType::Action(call)) =
        table_action.as_mut().and_then(|table_action| table_action.r#type.as_mut())
    {
        *call = action(call);
    }
    if let Some(ActionType::ActionProfileActionSet(set)) =
        table_action.as_mut().and_then(|table_action| table_action.r#type.as_mut())
    {
        for member in &mut set.action_profile_actions {
            member.action = member.action.as_ref().map(action);
        }
    }
    TableEntry {
        table_id: entry.table_id,
        r#match: fields,
        action: table_action,
        priority: entry.priority,
        is_default_action: entry.is_default_action,
        idle_timeout_ns: entry.idle_timeout_ns,
        meter_config: entry.meter_config,
        ..TableEntry::default()
    }
}

/// Returns the canonical form of a match field, or `None` if it matches any value.
fn field(field: &FieldMatch) -> Option<FieldMatch> {
    let mut field = field.clone();
    let make_canonical = |value: &mut Vec<u8>| *value = value::canonical(value);
    match field.field_match_type.as_mut()? {
        FieldMatchType::Exact(exact) => make_canonical(&mut exact.value),
        FieldMatchType::Lpm(lpm) if lpm.prefix_len == 0 => return None,
        FieldMatchType::Lpm(lpm) => make_canonical(&mut lpm.value),
        FieldMatchType::Ternary(ternary) => {
            make_canonical(&mut ternary.value);
            make_canonical(&mut ternary.mask);
            if ternary.mask == [0] {
                return None;
            }
        }
        FieldMatchType::Range(range) => {
            make_canonical(&mut range.low);
            make_canonical(&mut range.high);
        }
        FieldMatchType::Optional(optional) => make_canonical(&mut optional.value),
        FieldMatchType::Other(_) => {}
    }
    Some(field)
}

fn action(action: &Action) -> Action {
    let mut action = action.clone();
    action.params.sort_by_key(|param| param.param_id);
    for param in &mut action.params {
        param.value = value::canonical(&param.value);
    }
    action
}

/// Sorts replicas and converts ports to numbers: P4Runtime before 1.4, and therefore BMv2, has no other form.
#[allow(deprecated)]
fn replicas(replicas: &[Replica]) -> Vec<Replica> {
    let mut replicas = replicas.to_vec();
    for replica in &mut replicas {
        if let Some(PortKind::Port(bytes)) = &replica.port_kind {
            let port = value::to_u64(bytes).and_then(|port| u32::try_from(port).ok());
            replica.port_kind = port.map(PortKind::EgressPort).or(replica.port_kind.take());
        }
    }
    replicas.sort_by_key(|replica| (replica_port(replica), replica.instance));
    replicas
}

/// Returns the port of a replica, or 0 if it has no numeric port.
#[allow(deprecated)]
pub(crate) fn replica_port(replica: &Replica) -> u32 {
    match &replica.port_kind {
        Some(PortKind::EgressPort(port)) => *port,
        _ => 0,
    }
}
