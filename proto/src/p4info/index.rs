use super::error::P4InfoError;
use super::object::Object;
use crate::p4::config::v1 as p4;
use crate::text;
use std::collections::BTreeMap;

/// A P4Info whose objects are indexed by name and id.
#[derive(Clone, Debug)]
pub struct Index {
    /// Match-action tables.
    pub tables: Objects<p4::Table>,
    /// Actions.
    pub actions: Objects<p4::Action>,
    /// Action profiles and action selectors.
    pub action_profiles: Objects<p4::ActionProfile>,
    /// Indirect counters, addressed by index.
    pub counters: Objects<p4::Counter>,
    /// Direct counters, one cell per table entry.
    pub direct_counters: Objects<p4::DirectCounter>,
    /// Indirect meters, addressed by index.
    pub meters: Objects<p4::Meter>,
    /// Direct meters, one cell per table entry.
    pub direct_meters: Objects<p4::DirectMeter>,
    /// Headers of packet-ins and packet-outs: `packet_in` and `packet_out`.
    pub controller_headers: Objects<p4::ControllerPacketMetadata>,
    /// Value sets of the parser.
    pub value_sets: Objects<p4::ValueSet>,
    /// Registers.
    pub registers: Objects<p4::Register>,
    /// Digests.
    pub digests: Objects<p4::Digest>,
    /// Name, version and architecture of the program.
    pub pkg_info: p4::PkgInfo,
    /// User-defined types of the program.
    pub type_info: p4::P4TypeInfo,
}

impl Index {
    /// Indexes a P4Info.
    ///
    /// # Errors
    ///
    /// An object has no id, or two objects of one kind have the same id.
    pub fn new(info: p4::P4Info) -> Result<Index, P4InfoError> {
        Ok(Index {
            tables: Objects::new(info.tables)?,
            actions: Objects::new(info.actions)?,
            action_profiles: Objects::new(info.action_profiles)?,
            counters: Objects::new(info.counters)?,
            direct_counters: Objects::new(info.direct_counters)?,
            meters: Objects::new(info.meters)?,
            direct_meters: Objects::new(info.direct_meters)?,
            controller_headers: Objects::new(info.controller_packet_metadata)?,
            value_sets: Objects::new(info.value_sets)?,
            registers: Objects::new(info.registers)?,
            digests: Objects::new(info.digests)?,
            pkg_info: info.pkg_info.unwrap_or_default(),
            type_info: info.type_info.unwrap_or_default(),
        })
    }
    /// Parses the text format (`.p4info.txtpb`) and indexes it.
    ///
    /// # Errors
    ///
    /// See [`parse`](super::parse) and [`new`](Self::new).
    pub fn from_text(text: &str) -> Result<Index, P4InfoError> {
        Index::new(text::parse(text)?)
    }
}

/// All objects of one kind, indexed by name and id.
#[derive(Clone, Debug)]
pub struct Objects<T> {
    objects: Vec<T>,
    by_id: BTreeMap<u32, usize>,
    /// Full names, aliases and all dotted suffixes.
    by_name: BTreeMap<String, Match>,
}

/// The objects that a name matches. Full names take precedence over aliases, and aliases over suffixes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Match {
    Full(usize),
    Alias(usize),
    Suffix(usize),
    Several,
}

impl<T: Object> Objects<T> {
    fn new(objects: Vec<T>) -> Result<Objects<T>, P4InfoError> {
        let (mut by_id, mut by_name) = (BTreeMap::new(), BTreeMap::new());
        for (i, object) in objects.iter().enumerate() {
            let preamble = object
                .try_preamble()
                .filter(|preamble| preamble.id != 0)
                .ok_or(P4InfoError::NoPreamble { kind: T::KIND, position: i + 1 })?;
            if by_id.insert(preamble.id, i).is_some() {
                let (name, id) = (preamble.name.clone(), preamble.id);
                return Err(P4InfoError::DuplicateId { kind: T::KIND, name, id });
            }
            let suffixes = preamble.name.match_indices('.').map(|(dot, _)| &preamble.name[dot + 1..]);
            for suffix in suffixes {
                by_name
                    .entry(suffix.to_owned())
                    .and_modify(|m| *m = Match::Several)
                    .or_insert(Match::Suffix(i));
            }
        }
        for (i, object) in objects.iter().enumerate() {
            by_name.insert(object.preamble().alias.clone(), Match::Alias(i));
        }
        for (i, object) in objects.iter().enumerate() {
            by_name.insert(object.preamble().name.clone(), Match::Full(i));
        }
        by_name.remove("");
        Ok(Objects { objects, by_id, by_name })
    }

    /// Returns the object with this full name, alias or unique dotted suffix. Full names take precedence over
    /// aliases, and aliases over suffixes.
    ///
    /// # Errors
    ///
    /// No object has this name, or several objects have it as a suffix.
    pub fn named(&self, name: &str) -> Result<&T, P4InfoError> {
        match self.by_name.get(name) {
            Some(&(Match::Full(i) | Match::Alias(i) | Match::Suffix(i))) => Ok(&self.objects[i]),
            Some(Match::Several) => Err(P4InfoError::Ambiguous { kind: T::KIND, name: name.to_owned() }),
            None => Err(P4InfoError::Unknown { kind: T::KIND, name: name.to_owned() }),
        }
    }
    /// Returns the object with this id.
    pub fn id(&self, id: u32) -> Option<&T> {
        self.by_id.get(&id).map(|&i| &self.objects[i])
    }
    /// Returns all objects, in the order of the P4Info.
    pub fn iter(&self) -> std::slice::Iter<'_, T> {
        self.objects.iter()
    }
}

impl<'a, T: Object> IntoIterator for &'a Objects<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
