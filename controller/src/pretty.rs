//! Human-readable form of entities and updates, for messages and diffs: `forward[dst_addr=10.0.1.0/24] -> via(port=3)`.

use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::replica::PortKind;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Action, Entity, Replica, TableEntry, Update};
use p4runtime::p4info::{Index, Object};
use p4runtime::value;
use std::net::{Ipv4Addr, Ipv6Addr};

/// Formats an update with its sign: `+` inserts, `~` modifies, `-` deletes.
pub fn update(update: &Update, p4info: &Index) -> String {
    let sign = match update.r#type() {
        Type::Insert => '+',
        Type::Modify => '~',
        Type::Delete => '-',
        Type::Unspecified => '?',
    };
    let text = update.entity.as_ref().map_or_else(|| "nothing".to_owned(), |updated| entity(updated, p4info));
    format!("{sign} {text}")
}

/// Formats an entity.
pub fn entity(entity: &Entity, p4info: &Index) -> String {
    match &entity.entity {
        Some(Kind::TableEntry(entry)) => table_entry(entry, p4info),
        Some(Kind::ActionProfileMember(member)) => {
            let name = profile(member.action_profile_id, p4info);
            let action =
                member.action.as_ref().map_or_else(|| "nothing".into(), |action| call(action, p4info));
            format!("{name} member {} -> {action}", member.member_id)
        }
        Some(Kind::ActionProfileGroup(group)) => {
            let name = profile(group.action_profile_id, p4info);
            let members: Vec<String> =
                group.members.iter().map(|member| member.member_id.to_string()).collect();
            format!("{name} group {} -> members {}", group.group_id, members.join(", "))
        }
        Some(Kind::PacketReplicationEngineEntry(entry)) => match &entry.r#type {
            Some(Pre::MulticastGroupEntry(group)) => {
                format!("multicast group {} -> ports {}", group.multicast_group_id, ports(&group.replicas))
            }
            Some(Pre::CloneSessionEntry(session)) => {
                format!("clone session {} -> ports {}", session.session_id, ports(&session.replicas))
            }
            None => "a replication entry without a type".into(),
        },
        Some(other) => format!("{other:?}"),
        None => "nothing".into(),
    }
}

/// Returns the name of an action profile.
fn profile(id: u32, p4info: &Index) -> String {
    p4info
        .action_profiles
        .id(id)
        .map_or_else(|| format!("action profile {id:#x}"), |profile| profile.preamble().alias.clone())
}

#[allow(deprecated)] // older servers still send `PortKind::EgressPort`
fn ports(replicas: &[Replica]) -> String {
    let port = |replica: &Replica| match &replica.port_kind {
        Some(PortKind::EgressPort(port)) => port.to_string(),
        Some(PortKind::Port(bytes)) => number(bytes, 0, ""),
        None => "?".into(),
    };
    replicas.iter().map(port).collect::<Vec<_>>().join(", ")
}

fn table_entry(entry: &TableEntry, p4info: &Index) -> String {
    let table = p4info.tables.id(entry.table_id);
    let name =
        table.map_or_else(|| format!("table {:#x}", entry.table_id), |table| table.preamble().alias.clone());
    let key = if entry.is_default_action {
        "default".to_owned()
    } else {
        let fields = entry.r#match.iter().map(|field| {
            let info = table.and_then(|table| table.match_field_by_id(field.field_id));
            let (name, bits) = info.map_or(("?", 0), |info| (info.name.as_str(), info.bitwidth));
            let formatted = |bytes: &[u8]| number(bytes, bits, name);
            let value = match &field.field_match_type {
                Some(FieldMatchType::Exact(exact)) => formatted(&exact.value),
                Some(FieldMatchType::Optional(optional)) => formatted(&optional.value),
                Some(FieldMatchType::Lpm(lpm)) => format!("{}/{}", formatted(&lpm.value), lpm.prefix_len),
                Some(FieldMatchType::Ternary(ternary)) => {
                    format!("{}&&&{}", formatted(&ternary.value), formatted(&ternary.mask))
                }
                Some(FieldMatchType::Range(range)) => {
                    format!("{}..{}", formatted(&range.low), formatted(&range.high))
                }
                Some(FieldMatchType::Other(_)) | None => "?".into(),
            };
            format!("{name}={value}")
        });
        fields.collect::<Vec<_>>().join(" ")
    };
    let action = match entry.action.as_ref().and_then(|action| action.r#type.as_ref()) {
        Some(ActionType::Action(action)) => call(action, p4info),
        Some(ActionType::ActionProfileMemberId(id)) => format!("member {id}"),
        Some(ActionType::ActionProfileGroupId(id)) => format!("group {id}"),
        Some(ActionType::ActionProfileActionSet(set)) => {
            let actions = set.action_profile_actions.iter().filter_map(|member| member.action.as_ref());
            actions.map(|action| call(action, p4info)).collect::<Vec<_>>().join(" | ")
        }
        None => "the program's default".into(),
    };
    let priority = if entry.priority == 0 { String::new() } else { format!(" priority={}", entry.priority) };
    let meter = entry.meter_config.map_or(String::new(), |rates| {
        let peak = if (rates.pir, rates.pburst) == (rates.cir, rates.cburst) {
            String::new()
        } else {
            format!(" peak={}/s:{}", rates.pir, rates.pburst)
        };
        format!(" meter={}/s:{}{peak}", rates.cir, rates.cburst)
    });
    format!("{name}[{key}]{priority} -> {action}{meter}")
}

fn call(action: &Action, p4info: &Index) -> String {
    let info = p4info.actions.id(action.action_id);
    let name = info.map_or_else(
        || format!("{:#x}", action.action_id),
        |info| last_component(&info.preamble().name).to_owned(),
    );
    let params = action.params.iter().map(|param| {
        let info = info.and_then(|info| info.param_by_id(param.param_id));
        let (name, bits) = info.map_or(("?", 0), |info| (info.name.as_str(), info.bitwidth));
        format!("{name}={}", number(&param.value, bits, name))
    });
    format!("{name}({})", params.collect::<Vec<_>>().join(" "))
}

/// Returns the last component of a dotted name.
fn last_component(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Formats a value: 48 and 128 bits as an address, 32 bits as an address if the field name suggests one, all others as
/// numbers.
pub fn number(bytes: &[u8], bits: i32, name: &str) -> String {
    const IPV4_BITS: i32 = 32;
    const MAC_BITS: i32 = 48;
    const IPV6_BITS: i32 = 128;
    let name = name.to_ascii_lowercase();
    let is_address = ["addr", "ip", "dst", "src"].iter().any(|word| name.contains(word));
    // Pads or truncates to `size` bytes.
    let resized = |size: usize| {
        let mut resized = vec![0; size.saturating_sub(bytes.len())];
        resized.extend_from_slice(&bytes[bytes.len().saturating_sub(size)..]);
        resized
    };
    match (bits, value::to_u64(bytes)) {
        (IPV4_BITS, Some(value)) if is_address => Ipv4Addr::from_bits(value as u32).to_string(),
        (MAC_BITS, Some(_)) => {
            resized(6).iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":")
        }
        (IPV6_BITS, _) => {
            let mut octets = [0; 16];
            octets.copy_from_slice(&resized(16));
            Ipv6Addr::from(octets).to_string()
        }
        (_, Some(value)) => value.to_string(),
        (_, None) => bytes.iter().fold("0x".to_owned(), |text, byte| text + &format!("{byte:02x}")),
    }
}
