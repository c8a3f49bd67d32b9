//! Loads tables and action profiles from the JSON.

use super::declarations::Declared;
use super::hash::Calculation;
use super::json::JsonNode;
use super::key_layout::KeyLayout;
use super::layout::{Layout, SlotRef, VALID_SLOT};
use super::op::{Pc, Slot};
use super::{ActionId, DIRECT_KEY_BITS, KeyCacheFormat, LoadError, MatchKind};
use std::ops::Deref;

/// A table of a program with the addresses of its successors in the control flow.
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
    /// Returns whether machine code caches lookups of this table: its key is one word, it needs no slow path,
    /// and it is not an exact table whose keys are all [direct](DIRECT_KEY_BITS).
    pub fn has_key_cache(&self) -> bool {
        self.key_layout.words == 1
            && !self.needs_slow_apply
            && !(self.is_exact() && self.key_layout.bits <= DIRECT_KEY_BITS)
    }

    /// Returns whether every key element is matched exactly.
    pub fn is_exact(&self) -> bool {
        self.key.iter().all(|key| key.kind == MatchKind::Exact)
    }

    pub fn key_cache_format(&self) -> KeyCacheFormat {
        KeyCacheFormat::of(self.key_layout.parts.iter().fold(0, |bits, part| bits | part.mask << part.shift))
    }

    pub fn successor(&self, action: ActionId, hit: bool) -> Pc {
        let jumps = &self.successors;
        let by_action = || {
            let index = self.info.actions.iter().position(|known| *known == action)?;
            jumps.actions.get(index).copied()
        };
        // BMv2's `next_tables` has either `__HIT__` and `__MISS__` or one key per action; `base_default_next`
        // applies only if neither gives an address.
        let fixed = if hit { jumps.hit } else { jumps.miss };
        fixed.or_else(by_action).unwrap_or(jumps.base)
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
    /// The successor after a miss without a default action.
    pub base: T,
}

impl<T> Successors<T> {
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Successors<U> {
        Successors {
            actions: self.actions.into_iter().map(&to).collect(),
            hit: self.hit.map(&to),
            miss: self.miss.map(&to),
            base: to(self.base),
        }
    }
}

/// A table as the JSON declares it.
#[derive(Clone, Debug)]
pub(crate) struct TableDefinition {
    pub info: TableInfo,
    pub key: Vec<Key>,
    pub key_layout: KeyLayout,
    /// The most words that the arguments of one of its actions take: the length of a row's arguments.
    pub params: usize,
    /// Whether applying the table involves more than a lookup and an action: direct counters or meters, an
    /// action profile or idle timeouts.
    pub needs_slow_apply: bool,
    pub default: Option<(ActionId, Vec<u64>)>,
    pub entries: Vec<ConstEntry>,
    /// The index of the direct meter, and the field to which its colour is written.
    pub meter: Option<(u16, SlotRef)>,
    pub profile: Option<u16>,
}

/// The signature of a table, as the runtime API shows it.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// The fully qualified name, as in P4Info.
    pub name: String,
    pub key: Vec<KeyInfo>,
    /// The actions that entries and the default may run.
    pub actions: Vec<ActionId>,
    /// The capacity in entries.
    pub size: usize,
    /// The name of the action profile or selector; `None` if entries have actions of their own.
    pub profile: Option<String>,
    /// True if the entries are constants of the program and cannot be changed.
    pub const_entries: bool,
    /// True if the default action cannot be changed.
    pub const_default: bool,
    /// True if each entry has a counter.
    pub direct_counters: bool,
    /// The name of the direct meter.
    pub direct_meter: Option<String>,
    /// True if entries may have an idle timeout.
    pub idle_timeout: bool,
    /// True if the table has no key, a const default action and no direct resources, so that a controller
    /// cannot change anything about it. Its action is inlined.
    pub hidden: bool,
}

/// The signature of a key element.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// The name of the match field, as in P4Info.
    pub name: String,
    pub kind: MatchKind,
    /// The width in bits.
    pub bits: u32,
}

impl TableInfo {
    /// Returns whether entries have a priority: the key has a ternary or range element.
    pub fn has_priorities(&self) -> bool {
        self.key.iter().any(|key| matches!(key.kind, MatchKind::Ternary | MatchKind::Range))
    }
}

/// A key element in the header vector.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    pub slot: Slot,
    pub bits: u32,
    pub kind: MatchKind,
    /// The bits that are compared (P4's mask in the key expression), least significant limb first.
    pub mask: Vec<u64>,
}

/// A constant entry of the program.
#[derive(Clone, Debug)]
pub(crate) struct ConstEntry {
    /// For each key element, value and mask or the two bounds of a range; least significant limb first.
    pub key: Vec<(Vec<u64>, Vec<u64>)>,
    /// For each key element, whether `key` has a range.
    pub ranges: Vec<bool>,
    /// Length of the prefix in bits, if an element is matched by longest prefix.
    pub prefix: u16,
    /// Priority as in the JSON: the entry with the smallest wins.
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

/// Loads table definitions, with the objects that they refer to by name or id.
pub(super) struct TableLoader<'a> {
    pub declared: &'a Declared<'a>,
    /// For each meter, the field to which its colour is written; `None` if the meter is not direct.
    pub meters: &'a [Option<SlotRef>],
    pub profiles: &'a [ActionProfile],
}

/// Upper bound of a table's `max_size`.
const MAX_ENTRIES: usize = 1 << 24;

impl TableLoader<'_> {
    pub fn table(&self, at: &JsonNode) -> Result<TableDefinition, LoadError> {
        let (mut key, mut key_info) = (Vec::new(), Vec::new());
        for element in at.get("key")?.items()? {
            let (element, info) = self.key(&element)?;
            key.push(element);
            key_info.push(info);
        }
        if key.iter().filter(|key| key.kind == MatchKind::Lpm).count() > 1 {
            return at.get("key")?.err("a table can have only one LPM key");
        }
        let actions = self.table_actions(at)?;
        let type_at = at.get("type")?;
        let profile = match type_at.str()? {
            "simple" => None,
            kind @ ("indirect" | "indirect_ws") => {
                let name = profile_name(at).map_or_else(|| at.get("action_profile"), Ok)?;
                let profile = |name: &str| self.profiles.iter().position(|profile| profile.name == name);
                let index = name.find("action profile", profile)?;
                if kind == "indirect_ws" && self.profiles[index].selector.is_none() {
                    return name.err("the action profile has no selector");
                }
                Some(index as u16)
            }
            other => return type_at.err(format_args!("a table of type {other:?} is not supported")),
        };
        let default_at = at.get_opt("default_entry");
        let default = default_at.as_ref().map(|entry| self.entry(entry)).transpose()?;
        let const_default = match &default_at {
            Some(at) => at.flag("action_entry_const", false)?,
            None => false,
        };
        let mut entries = Vec::new();
        let entries_at = at.list("entries")?;
        if profile.is_some() && !entries_at.is_empty() {
            return at.get("entries")?.err("a table with an action profile cannot have entries");
        }
        for entry in &entries_at {
            entries.push(self.const_entry(entry, &key)?);
        }
        let size =
            at.get_opt("max_size").map_or(Ok(entries.len()), |size| size.usize_at_most(MAX_ENTRIES))?;
        let meter_at = at.get_opt("direct_meters");
        let meter = match &meter_at {
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
        let counters = at.flag("with_counters", false)?;
        let hidden = key.is_empty() && const_default && profile.is_none() && !counters && meter.is_none();
        let info = TableInfo {
            name: at.name()?,
            key: key_info,
            actions,
            size: size.max(entries.len()),
            profile: profile.map(|index| self.profiles[usize::from(index)].name.clone()),
            const_entries: !entries.is_empty(),
            const_default,
            direct_counters: counters,
            direct_meter: meter_at.map(|at| at.str().map(str::to_string)).transpose()?,
            idle_timeout: at.flag("support_timeout", false)?,
            hidden,
        };
        let words = |action: &ActionId| self.declared.actions[usize::from(action.0)].words();
        let params = info.actions.iter().map(words).max().unwrap_or(0);
        Ok(TableDefinition {
            key_layout: KeyLayout::new(&key),
            params: params.max(default.as_ref().map_or(0, |(_, args)| args.len())),
            needs_slow_apply: counters || meter.is_some() || profile.is_some() || info.idle_timeout,
            info,
            key,
            default,
            entries,
            meter,
            profile,
        })
    }

    /// Resolves the actions of a table by id, or by name in older JSON without ids.
    fn table_actions(&self, at: &JsonNode) -> Result<Vec<ActionId>, LoadError> {
        let (list, by_name) = match at.get_opt("action_ids") {
            Some(ids) => (ids.items()?, false),
            None => (at.list("actions")?, true),
        };
        let find = |action: &JsonNode| if by_name { self.named_action(action) } else { self.action(action) };
        list.iter().map(find).collect()
    }

    fn named_action(&self, at: &JsonNode) -> Result<ActionId, LoadError> {
        let action = |name: &str| self.declared.actions.iter().position(|action| action.name == name);
        let index = at.find("action", action)?;
        Ok(ActionId(index as u16))
    }

    fn action(&self, at: &JsonNode) -> Result<ActionId, LoadError> {
        let id = at.int()?;
        let action = self.declared.action_ids.get(&id).copied();
        action.ok_or_else(|| at.error(format_args!("there is no action with id {id}")))
    }

    fn key(&self, at: &JsonNode) -> Result<(Key, KeyInfo), LoadError> {
        let (kind_at, target) = (at.get("match_type")?, at.get("target")?);
        let (slot, bits, kind) = match kind_at.str()? {
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
                    other => return kind_at.err(format_args!("match kind {other:?} is not supported")),
                };
                let place = self.declared.layout.slot_ref(&target)?;
                (place.slot, place.bits, kind)
            }
        };
        if bits == 0 {
            return target.err("a zero-width field cannot be a key");
        }
        let limbs = limbs(bits);
        let mask = match at.get_opt("mask") {
            Some(mask) => limbs_at_width(&mask, bits)?,
            None => mask_limbs(bits, limbs),
        };
        let name = match at.get_opt("name") {
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
    fn entry(&self, at: &JsonNode) -> Result<(ActionId, Vec<u64>), LoadError> {
        let action = self.action(&at.get("action_id")?)?;
        let data_at = at.get("action_data")?;
        let data = data_at.items()?;
        let params = &self.declared.actions[usize::from(action.0)].params;
        if data.len() != params.len() {
            return data_at.err(format_args!("expected {} arguments, found {}", params.len(), data.len()));
        }
        let mut args = Vec::new();
        for (value, (_, bits)) in data.iter().zip(params) {
            args.extend(limbs_at_width(value, *bits)?);
        }
        Ok((action, args))
    }

    fn const_entry(&self, at: &JsonNode, key: &[Key]) -> Result<ConstEntry, LoadError> {
        let (action, args) = self.entry(&at.get("action_entry")?)?;
        let key_at = at.get("match_key")?;
        let elements = key_at.items()?;
        if elements.len() != key.len() {
            return key_at.err(format_args!("expected {} elements, found {}", key.len(), elements.len()));
        }
        let (mut matches, mut prefix) = (Vec::new(), 0);
        for (element, key) in elements.iter().zip(key) {
            let kind_at = element.get("match_type")?;
            let value = |name: &str| limbs_at_width(&element.get(name)?, key.bits);
            let found = match (kind_at.str()?, key.kind) {
                ("exact", MatchKind::Exact) => (value("key")?, mask_limbs(key.bits, limbs(key.bits))),
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
                    return kind_at.err(format_args!("match kind {found:?} differs from the key's"));
                }
            };
            matches.push(found);
        }
        let rank = at.get_opt("priority").map_or(Ok(0), |at| at.int())?;
        let ranges = key.iter().map(|key| key.kind == MatchKind::Range).collect();
        Ok(ConstEntry { key: matches, ranges, prefix, rank, action, args })
    }
}

impl ActionProfile {
    /// Adds the action profiles of a pipeline: those of its list and, in older JSON, those that its tables
    /// define.
    pub fn load_all(
        pipeline: &JsonNode,
        layout: &Layout,
        profiles: &mut Vec<ActionProfile>,
    ) -> Result<(), LoadError> {
        let selector = |at: &JsonNode| {
            at.get_opt("selector").map(|at| Calculation::load_selector(&at, layout)).transpose()
        };
        let mut add = |at: &JsonNode, name: String, selector: Option<Calculation>| {
            if profiles.iter().any(|known| known.name == name) {
                return at.err("another action profile has this name");
            }
            profiles.push(ActionProfile { name, selector });
            Ok(())
        };
        for at in pipeline.list("action_profiles")? {
            add(&at, at.name()?, selector(&at)?)?;
        }
        for at in pipeline.list("tables")? {
            let Some(name) = profile_name(&at).filter(|_| at.get_opt("action_profile").is_none()) else {
                continue;
            };
            let with_selector = at.get("type")?.str()? == "indirect_ws";
            let selector = if with_selector { selector(&at)? } else { None };
            add(&at, name.str()?.to_string(), selector)?;
        }
        Ok(())
    }
}

/// Returns the name of a table's action profile, under its current key or that of older JSON.
fn profile_name<'a>(table: &JsonNode<'a>) -> Option<JsonNode<'a>> {
    table.get_opt("action_profile").or_else(|| table.get_opt("act_prof_name"))
}

/// Returns a number as limbs. Fails if it does not fit in `bits` bits, signed if it is negative.
fn limbs_at_width(at: &JsonNode, bits: u32) -> Result<Vec<u64>, LoadError> {
    let big = at.hex_int()?;
    let signed_fit = big.negative && big.bits() < bits;
    if big.bits() > bits || big.negative && !signed_fit {
        return at.err(format_args!("the value does not fit {bits} bits"));
    }
    let limbs = big.twos_complement(limbs(bits));
    Ok(and(&limbs, &mask_limbs(bits, limbs.len())))
}

/// Returns the number of limbs of a value of `bits` bits; at least 1.
pub(crate) fn limbs(bits: u32) -> usize {
    bits.div_ceil(64).max(1) as usize
}

/// Returns a mask of the lowest `bits` bits, as `limbs` limbs.
pub(crate) fn mask_limbs(bits: u32, limbs: usize) -> Vec<u64> {
    (0..limbs as u32).map(|limb| super::codegen::low_mask(bits.saturating_sub(limb * 64))).collect()
}

/// Returns a mask of the highest `prefix` of `bits` bits, as limbs.
pub(crate) fn prefix_mask(bits: u32, prefix: u32) -> Vec<u64> {
    let limbs = limbs(bits);
    let below = mask_limbs(bits.saturating_sub(prefix), limbs);
    mask_limbs(bits, limbs).iter().zip(below).map(|(all, below)| all & !below).collect()
}

pub(crate) fn and(a: &[u64], b: &[u64]) -> Vec<u64> {
    a.iter().zip(b).map(|(a, b)| a & b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks() {
        assert_eq!(mask_limbs(9, 1), [0x1ff]);
        assert_eq!(mask_limbs(128, 2), [u64::MAX, u64::MAX]);
        assert_eq!(mask_limbs(65, 2), [u64::MAX, 1]);
        assert_eq!(prefix_mask(32, 24), [0xffff_ff00]);
        assert_eq!(prefix_mask(128, 64), [0, u64::MAX]);
        assert_eq!(prefix_mask(32, 0), [0]);
    }
}
