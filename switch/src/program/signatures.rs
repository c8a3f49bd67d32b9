//! The signatures of tables and actions, as the runtime API shows them.

use super::limbs::limb_count;

/// The index of a table in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

/// The index of an action in its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u16);

/// The signature of an action, as the runtime API shows it.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// The fully qualified name, as in P4Info.
    pub name: String,
    /// Name and width in bits of each parameter.
    pub params: Vec<(String, u32)>,
}

impl ActionInfo {
    /// Returns the number of 64-bit words of the arguments.
    pub(crate) fn arg_words(&self) -> usize {
        self.params.iter().map(|(_, bits)| limb_count(*bits)).sum()
    }
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

impl TableInfo {
    /// Returns whether entries have a priority: the key has a ternary or range element.
    pub fn has_priorities(&self) -> bool {
        self.key.iter().any(|key| matches!(key.kind, MatchKind::Ternary | MatchKind::Range))
    }
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

/// The match kind of a key element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// The value of the field equals that of the entry.
    Exact,
    /// The longest matching prefix wins.
    Lpm,
    /// Value and mask with a priority. Keys of kind `optional` are loaded as this kind.
    Ternary,
    /// A range with inclusive bounds and a priority.
    Range,
}
