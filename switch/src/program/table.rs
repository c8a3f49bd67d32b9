//! Loads tables and action profiles from the JSON.

use super::declarations::Declarations;
use super::error::LoadError;
use super::hash::Calculation;
use super::json::JsonNode;
use super::key_layout::{Key, KeyLayout};
use super::layout::{Layout, SlotRef, VALID_SLOT};
use super::limbs::{and, limb_count, mask_limbs, prefix_mask};
use super::op::Pc;
use super::signatures::{ActionId, KeyInfo, MatchKind, TableInfo};
use std::ops::Deref;

/// A table of a program, with the addresses at which control continues after it.
#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub definition: TableDefinition,
    pub successors: Successors<Pc>,
}

impl Deref for Table {
    type Target = TableDefinition;

    #[inline]
    fn deref(&self) -> &TableDefinition {
        &self.definition
    }
}

impl Table {
    /// Returns whether every key element is matched exactly.
    pub(crate) fn is_exact(&self) -> bool {
        self.key.iter().all(|key| key.kind == MatchKind::Exact)
    }

    /// Returns the successor after an action, which ran for a hit or a miss.
    pub(crate) fn successor(&self, action: ActionId, is_hit: bool) -> Pc {
        let successors = &self.successors;
        let by_action = || {
            let index = self.info.actions.iter().position(|known| *known == action)?;
            successors.actions.get(index).copied()
        };
        // BMv2's `next_tables` has either `__HIT__` and `__MISS__` or one key per action; `base_default_next`
        // applies only if neither gives an address.
        let fixed = if is_hit { successors.hit } else { successors.miss };
        fixed.or_else(by_action).unwrap_or(successors.base)
    }
}

/// The successors of a table in the control flow: addresses or, before code is generated, names of nodes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Successors<T> {
    /// Indexed by the position of the action in [`TableInfo::actions`]; empty if the successor does not
    /// depend on the action.
    pub actions: Vec<T>,
    /// The successor after a hit, if it does not depend on the action.
    pub hit: Option<T>,
    /// The successor after a miss, if it does not depend on the action.
    pub miss: Option<T>,
    /// The successor if none of the above applies, for example after a miss without a default action.
    pub base: T,
}

impl<T> Successors<T> {
    /// Applies `change` to each successor.
    pub(crate) fn map<U>(self, change: impl Fn(T) -> U) -> Successors<U> {
        Successors {
            actions: self.actions.into_iter().map(&change).collect(),
            hit: self.hit.map(&change),
            miss: self.miss.map(&change),
            base: change(self.base),
        }
    }
}

/// A table as the JSON declares it.
#[derive(Clone, Debug)]
pub(crate) struct TableDefinition {
    pub info: TableInfo,
    pub key: Vec<Key>,
    pub key_layout: KeyLayout,
    /// Length in words of the longest arguments of any action of the table.
    pub max_arg_words: usize,
    /// Whether applying the table involves more than a lookup and an action: direct counters or meters, an
    /// action profile or idle timeouts.
    pub needs_slow_apply: bool,
    /// The default action and its arguments.
    pub default: Option<(ActionId, Vec<u64>)>,
    pub entries: Vec<ConstEntry>,
    /// The index of the direct meter, and the field to which its colour is written.
    pub meter: Option<(u16, SlotRef)>,
    /// The index of the action profile.
    pub profile: Option<u16>,
}

/// A constant entry of the program.
#[derive(Clone, Debug)]
pub(crate) struct ConstEntry {
    /// For each key element: value and mask, or the lower and upper bound of a range. Each is a list of limbs (64-bit
    /// words, least significant first).
    pub key: Vec<(Vec<u64>, Vec<u64>)>,
    /// For each key element, whether `key` has a range.
    pub ranges: Vec<bool>,
    /// Length of the prefix in bits, if an element is matched by longest prefix.
    pub prefix: u16,
    /// The `priority` of the JSON. Of several matching entries the one with the smallest value wins, unlike in
    /// P4Runtime.
    pub rank: i64,
    pub action: ActionId,
    pub args: Vec<u64>,
}

/// An action profile; an action selector if it has a hash.
#[derive(Clone, Debug)]
pub(crate) struct ActionProfile {
    pub name: String,
    pub selector: Option<Calculation>,
}

/// Loads table definitions. Its fields are the objects that tables refer to by name or id.
pub(super) struct TableLoader<'a> {
    pub declared: &'a Declarations<'a>,
    /// For each meter, the field to which its colour is written; `None` if the meter is not direct.
    pub meters: &'a [Option<SlotRef>],
    pub profiles: &'a [ActionProfile],
}

/// Upper bound of a table's `max_size`.
const MAX_ENTRIES: usize = 1 << 24;

impl TableLoader<'_> {
    pub(super) fn table(&self, node: &JsonNode) -> Result<TableDefinition, LoadError> {
        let (mut key, mut key_info) = (Vec::new(), Vec::new());
        for element in node.get("key")?.items()? {
            let (element, info) = self.key(&element)?;
            key.push(element);
            key_info.push(info);
        }
        if key.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            return node.get("key")?.err("a table can have only one LPM key");
        }
        let actions = self.table_actions(node)?;
        let type_node = node.get("type")?;
        let profile = match type_node.str()? {
            // `simple`: entries have actions. `indirect`: entries refer to members of an action profile;
            // `indirect_ws`: or to groups of an action selector.
            "simple" => None,
            kind @ ("indirect" | "indirect_ws") => {
                let name = profile_name(node).map_or_else(|| node.get("action_profile"), Ok)?;
                let profile = |name: &str| self.profiles.iter().position(|profile| profile.name == name);
                let index = name.find("action profile", profile)?;
                if kind == "indirect_ws" && self.profiles[index].selector.is_none() {
                    return name.err("the action profile has no selector");
                }
                Some(index as u16)
            }
            other => return type_node.err(format_args!("a table of type {other:?} is not supported")),
        };
        let default_node = node.get_opt("default_entry");
        let default = default_node.as_ref().map(|entry| self.action_entry(entry)).transpose()?;
        let const_default = match &default_node {
            Some(node) => node.flag("action_entry_const", false)?,
            None => false,
        };
        let mut entries = Vec::new();
        let entries_node = node.list("entries")?;
        if profile.is_some() && !entries_node.is_empty() {
            return node.get("entries")?.err("a table with an action profile cannot have entries");
        }
        for entry in &entries_node {
            entries.push(self.const_entry(entry, &key)?);
        }
        let size =
            node.get_opt("max_size").map_or(Ok(entries.len()), |size| size.usize_at_most(MAX_ENTRIES))?;
        let meter_node = node.get_opt("direct_meters");
        let meter = match &meter_node {
            Some(meter) => {
                let name = meter.str()?;
                let meters = self.declared.meters.iter().zip(self.meters);
                match (0..).zip(meters).find(|(_, (known, _))| known.name == name) {
                    Some((index, (_, Some(target)))) => Some((index, *target)),
                    Some(_) => return meter.err("the meter is not a direct meter"),
                    None => return meter.err(format_args!("there is no meter {name:?}")),
                }
            }
            None => None,
        };
        let direct_counters = node.flag("with_counters", false)?;
        let hidden =
            key.is_empty() && const_default && profile.is_none() && !direct_counters && meter.is_none();
        let info = TableInfo {
            name: node.name()?,
            key: key_info,
            actions,
            size: size.max(entries.len()),
            profile: profile.map(|index| self.profiles[usize::from(index)].name.clone()),
            const_entries: !entries.is_empty(),
            const_default,
            direct_counters,
            direct_meter: meter_node.map(|node| node.str().map(str::to_string)).transpose()?,
            idle_timeout: node.flag("support_timeout", false)?,
            hidden,
        };
        let words = |action: &ActionId| self.declared.actions[*action].arg_words();
        let max_arg_words = info.actions.iter().map(words).max().unwrap_or(0);
        Ok(TableDefinition {
            key_layout: KeyLayout::new(&key),
            // The default action of a table need not be in its list of actions.
            max_arg_words: max_arg_words.max(default.as_ref().map_or(0, |(_, args)| args.len())),
            needs_slow_apply: direct_counters || meter.is_some() || profile.is_some() || info.idle_timeout,
            info,
            key,
            default,
            entries,
            meter,
            profile,
        })
    }

    /// Resolves the actions of a table by id, or by name in older JSON without ids.
    fn table_actions(&self, node: &JsonNode) -> Result<Vec<ActionId>, LoadError> {
        let (list, is_by_name) = match node.get_opt("action_ids") {
            Some(ids) => (ids.items()?, false),
            None => (node.list("actions")?, true),
        };
        let find =
            |node: &JsonNode| if is_by_name { self.action_by_name(node) } else { self.action_by_id(node) };
        list.iter().map(find).collect()
    }

    fn action_by_name(&self, node: &JsonNode) -> Result<ActionId, LoadError> {
        let action = |name: &str| self.declared.actions.find(|action| action.name == name);
        node.find("action", action)
    }

    fn action_by_id(&self, node: &JsonNode) -> Result<ActionId, LoadError> {
        let id = node.int()?;
        let action = self.declared.action_ids.get(&id).copied();
        action.ok_or_else(|| node.error(format_args!("there is no action with id {id}")))
    }

    fn key(&self, node: &JsonNode) -> Result<(Key, KeyInfo), LoadError> {
        let (kind_node, target) = (node.get("match_type")?, node.get("target")?);
        let (slot, bits, kind) = match kind_node.str()? {
            // A match on the validity of a header: an exact match of its validity bit.
            "valid" => {
                let header = self.declared.layout.header_id(&target)?;
                (self.declared.layout.header(header).first_slot + VALID_SLOT, 1, MatchKind::Exact)
            }
            other => {
                let kind = match other {
                    "exact" => MatchKind::Exact,
                    "lpm" => MatchKind::Lpm,
                    "ternary" | "optional" => MatchKind::Ternary,
                    "range" => MatchKind::Range,
                    other => return kind_node.err(format_args!("match kind {other:?} is not supported")),
                };
                let slot_ref = self.declared.layout.slot_ref(&target)?;
                (slot_ref.slot, slot_ref.bits, kind)
            }
        };
        if bits == 0 {
            return target.err("a zero-width field cannot be a key");
        }
        let mask = match node.get_opt("mask") {
            Some(mask) => limbs_at_width(&mask, bits)?,
            None => mask_limbs(bits, limb_count(bits)),
        };
        let name = match node.get_opt("name") {
            Some(name) => name.str()?.to_string(),
            None => match target.value.as_str() {
                Some(header) => header.to_string(),
                None => {
                    let [header, field] = target.tuple()?;
                    format!("{}.{}", header.str()?, field.str()?)
                }
            },
        };
        Ok((Key { slot, bits, kind, mask }, KeyInfo { name, kind, bits }))
    }

    /// Loads an action with its arguments, as limbs.
    fn action_entry(&self, node: &JsonNode) -> Result<(ActionId, Vec<u64>), LoadError> {
        let action = self.action_by_id(&node.get("action_id")?)?;
        let data_node = node.get("action_data")?;
        let data = data_node.items()?;
        let params = &self.declared.actions[action].params;
        if data.len() != params.len() {
            return data_node.err(format_args!("expected {} arguments, found {}", params.len(), data.len()));
        }
        let mut args = Vec::new();
        for (value, (_, bits)) in data.iter().zip(params) {
            args.extend(limbs_at_width(value, *bits)?);
        }
        Ok((action, args))
    }

    fn const_entry(&self, node: &JsonNode, key: &[Key]) -> Result<ConstEntry, LoadError> {
        let (action, args) = self.action_entry(&node.get("action_entry")?)?;
        let key_node = node.get("match_key")?;
        let elements = key_node.items()?;
        if elements.len() != key.len() {
            return key_node.err(format_args!("expected {} elements, found {}", key.len(), elements.len()));
        }
        let (mut matches, mut prefix) = (Vec::new(), 0);
        for (element, key) in elements.iter().zip(key) {
            let kind_node = element.get("match_type")?;
            let value = |name: &str| limbs_at_width(&element.get(name)?, key.bits);
            let element = match (kind_node.str()?, key.kind) {
                ("exact", MatchKind::Exact) => (value("key")?, mask_limbs(key.bits, limb_count(key.bits))),
                ("valid", MatchKind::Exact) => (vec![u64::from(element.get("key")?.bool()?)], vec![1]),
                ("lpm", MatchKind::Lpm) => {
                    prefix = element.get("prefix_length")?.usize_at_most(key.bits as usize)? as u16;
                    let mask = prefix_mask(key.bits, u32::from(prefix));
                    (and(&value("key")?, &mask), mask)
                }
                ("ternary" | "optional", MatchKind::Ternary) => {
                    let mask = value("mask")?;
                    (and(&value("key")?, &mask), mask)
                }
                ("range", MatchKind::Range) => (value("start")?, value("end")?),
                (found, _) => {
                    return kind_node.err(format_args!("match kind {found:?} differs from the key's"));
                }
            };
            matches.push(element);
        }
        let rank = node.get_opt("priority").map_or(Ok(0), |node| node.int())?;
        let ranges = key.iter().map(|key| key.kind == MatchKind::Range).collect();
        Ok(ConstEntry { key: matches, ranges, prefix, rank, action, args })
    }
}

impl ActionProfile {
    /// Adds the action profiles of a pipeline: those of its list and, in older JSON, those that its tables
    /// define.
    pub(crate) fn load_all(
        pipeline: &JsonNode,
        layout: &Layout,
        profiles: &mut Vec<ActionProfile>,
    ) -> Result<(), LoadError> {
        let selector = |node: &JsonNode| {
            node.get_opt("selector").map(|node| Calculation::load_selector(&node, layout)).transpose()
        };
        let mut add = |node: &JsonNode, name: String, selector: Option<Calculation>| {
            if profiles.iter().any(|known| known.name == name) {
                return node.err("another action profile has this name");
            }
            profiles.push(ActionProfile { name, selector });
            Ok(())
        };
        for node in pipeline.list("action_profiles")? {
            add(&node, node.name()?, selector(&node)?)?;
        }
        for node in pipeline.list("tables")? {
            let Some(name) = profile_name(&node).filter(|_| node.get_opt("action_profile").is_none()) else {
                continue;
            };
            let has_selector = node.get("type")?.str()? == "indirect_ws";
            let selector = if has_selector { selector(&node)? } else { None };
            add(&node, name.str()?.to_string(), selector)?;
        }
        Ok(())
    }
}

/// Returns the name of a table's action profile, under its current key or that of older JSON.
fn profile_name<'a>(table: &JsonNode<'a>) -> Option<JsonNode<'a>> {
    table.get_opt("action_profile").or_else(|| table.get_opt("act_prof_name"))
}

/// Returns a number as limbs. Fails if it does not fit in `bits` bits: a negative number as a signed number, any
/// other as an unsigned number.
fn limbs_at_width(node: &JsonNode, bits: u32) -> Result<Vec<u64>, LoadError> {
    let big = node.hex_int()?;
    let fits_signed = big.negative && big.bits() < bits;
    if big.bits() > bits || big.negative && !fits_signed {
        return node.err(format_args!("the value does not fit {bits} bits"));
    }
    let limbs = big.twos_complement(limb_count(bits));
    Ok(and(&limbs, &mask_limbs(bits, limbs.len())))
}
