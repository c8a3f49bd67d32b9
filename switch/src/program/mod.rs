//! BMv2 JSON -> checked, flat [`Program`].

use std::sync::Arc;

/// A table of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableId(pub u16);

/// An action of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActionId(pub u16);

/// A header instance of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderId(pub u16);

/// Why a program was refused. Displays as `path: what`, the path leading to the place in the JSON.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct LoadError {
    /// Where in the JSON, like `pipelines[0].tables[3].key[1]`; `line 3 column 7` where it is not JSON.
    pub path: String,
    /// What is wrong there, and what to do.
    pub what: String,
}

/// A checked P4 program, shared by all switches that run it.
#[derive(Debug)]
pub struct Program {}

impl Program {
    /// Loads what p4c's BMv2 back end wrote.
    pub fn from_json(text: &str) -> Result<Arc<Program>, LoadError> {
        let _ = text;
        unimplemented!()
    }
    /// The name of a table.
    pub fn table_name(&self, table: TableId) -> &str {
        let _ = table;
        unimplemented!()
    }
    /// The name of an action.
    pub fn action_name(&self, action: ActionId) -> &str {
        let _ = action;
        unimplemented!()
    }
    /// The name of a header instance.
    pub fn header_name(&self, header: HeaderId) -> &str {
        let _ = header;
        unimplemented!()
    }
    /// All tables.
    pub fn tables(&self) -> impl Iterator<Item = (TableId, &TableInfo)> {
        std::iter::empty()
    }
    /// All actions with their parameters.
    pub fn actions(&self) -> impl Iterator<Item = (ActionId, &ActionInfo)> {
        std::iter::empty()
    }
}

/// How a key element is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchKind {
    /// Equal.
    Exact,
    /// Longest prefix.
    Lpm,
    /// Value and mask; `optional` too.
    Ternary,
    /// From low to high.
    Range,
}

/// A key element of a table.
#[derive(Clone, Debug)]
pub struct KeyInfo {
    /// Its name, as P4Info has it.
    pub name: String,
    /// How it is matched.
    pub kind: MatchKind,
    /// Its width.
    pub bits: u32,
}

/// What a table is, for those who fill it.
#[derive(Clone, Debug)]
pub struct TableInfo {
    /// Its name, as P4Info has it.
    pub name: String,
    /// Its key.
    pub key: Vec<KeyInfo>,
    /// The actions it may run.
    pub actions: Vec<ActionId>,
    /// How many entries it holds.
    pub size: usize,
    /// The action profile or selector it uses.
    pub profile: Option<String>,
    /// Its entries come with the program and cannot be changed.
    pub const_entries: bool,
    /// Its default action cannot be changed.
    pub const_default: bool,
    /// It counts hits per entry.
    pub direct_counters: bool,
    /// Its direct meter.
    pub direct_meter: Option<String>,
    /// Entries may time out.
    pub idle_timeout: bool,
    /// Made by p4c for a statement block, not there for a controller.
    pub hidden: bool,
}

impl TableInfo {
    /// Whether a priority must be given with an entry.
    pub fn has_priorities(&self) -> bool {
        self.key.iter().any(|key| matches!(key.kind, MatchKind::Ternary | MatchKind::Range))
    }
}

/// What an action is, for those who call it from an entry.
#[derive(Clone, Debug)]
pub struct ActionInfo {
    /// Its name, as P4Info has it.
    pub name: String,
    /// Names and widths of its parameters.
    pub params: Vec<(String, u32)>,
}
