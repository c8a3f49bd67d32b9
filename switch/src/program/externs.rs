//! Loads the arrays of registers, counters and meters.

use super::error::LoadError;
use super::json::JsonNode;
use super::limbs::limb_count;
use std::ops::Range;

/// Maximum number of cells of an array.
const MAX_CELLS: usize = 1 << 24;

/// An array of registers.
#[derive(Clone, Debug)]
pub(crate) struct RegisterArray {
    pub name: String,
    /// Number of cells.
    pub size: usize,
    /// Width of a cell in bits.
    pub bits: u32,
    /// Index of the first cell's first word in the memory of all registers.
    pub base: usize,
    /// Number of words from one cell to the next: the words of this cell, and of the interleaved cells of other arrays.
    pub stride: usize,
}

/// Register arrays of the same size, whose cells are interleaved.
struct Group {
    /// Number of cells of each array.
    size: usize,
    /// Number of words of one cell of all arrays.
    stride: usize,
}

impl RegisterArray {
    /// Loads all register arrays. Arrays of the same size are interleaved cell by cell: a packet typically
    /// accesses the same cell of several, such as that of its port, which then share a cache line.
    pub(crate) fn load_all(root: &JsonNode) -> Result<Vec<RegisterArray>, LoadError> {
        let declared = load(root, "register_arrays", |node| {
            const MAX_REGISTER_BITS: usize = 4096;
            match node.get("bitwidth")?.usize_at_most(MAX_REGISTER_BITS)? {
                0 => node.get("bitwidth")?.err("a register must be at least 1 bit wide"),
                bits => Ok(CellFormat { bits: bits as u32, counts_packets: false }),
            }
        })?;
        // One group for each array size.
        let mut groups = Vec::<Group>::new();
        for (array, bits) in &declared {
            let words = limb_count(*bits);
            match groups.iter_mut().find(|group| group.size == array.size) {
                Some(group) => group.stride += words,
                None => groups.push(Group { size: array.size, stride: words }),
            }
        }
        let begin = |end: &mut usize, group: &Group| {
            *end += group.size * group.stride;
            Some(*end - group.size * group.stride)
        };
        // The base of the next array of each group.
        let mut bases: Vec<usize> = groups.iter().scan(0, begin).collect();
        let allocate = |(ExternArray { name, size, .. }, bits): (ExternArray, u32)| {
            let group = groups.iter().position(|group| group.size == size).unwrap_or_default();
            let base = bases[group];
            bases[group] += limb_count(bits);
            RegisterArray { name, size, bits, base, stride: groups[group].stride }
        };
        Ok(declared.into_iter().map(allocate).collect())
    }

    /// Returns the range of a cell's words; `None` if the index is out of bounds.
    #[inline]
    pub(crate) fn cell(&self, index: u64) -> Option<Range<usize>> {
        let begin = self.base + usize::try_from(index).ok().filter(|index| *index < self.size)? * self.stride;
        Some(begin..begin + limb_count(self.bits))
    }
}

/// An array of counters or meters.
#[derive(Clone, Debug)]
pub(crate) struct ExternArray {
    pub name: String,
    /// Number of cells; 0 for a direct array, which has a cell for each entry of its table.
    pub size: usize,
    /// Whether the array is a direct resource of a table.
    pub is_direct: bool,
    /// Whether a meter counts packets instead of bytes.
    pub counts_packets: bool,
}

impl ExternArray {
    /// Loads all counter arrays.
    pub(crate) fn counters(root: &JsonNode) -> Result<Vec<ExternArray>, LoadError> {
        let counters = load(root, "counter_arrays", |_| Ok(CellFormat { bits: 0, counts_packets: false }))?;
        Ok(counters.into_iter().map(|(array, _)| array).collect())
    }

    /// Loads all meter arrays.
    pub(crate) fn meters(root: &JsonNode) -> Result<Vec<ExternArray>, LoadError> {
        let meters = load(root, "meter_arrays", |node| {
            let counts_packets = match node.get_opt("type") {
                Some(kind) => match kind.str()? {
                    "packets" => true,
                    "bytes" => false,
                    other => return kind.err(format_args!("a meter of {other:?} is not supported")),
                },
                None => false,
            };
            match node.get("rate_count")?.int()? {
                2 => Ok(CellFormat { bits: 0, counts_packets }),
                _ => node.get("rate_count")?.err("only meters with two rates are supported"),
            }
        })?;
        Ok(meters.into_iter().map(|(array, _)| array).collect())
    }
}

/// What depends on the kind of an array.
struct CellFormat {
    /// Width of a register in bits; 0 for counters and meters.
    bits: u32,
    /// Whether a meter counts packets.
    counts_packets: bool,
}

/// Loads the arrays at `key`, each with the width of its cells in bits. `read_format` reads what depends on their kind.
fn load(
    root: &JsonNode,
    key: &str,
    read_format: impl Fn(&JsonNode) -> Result<CellFormat, LoadError>,
) -> Result<Vec<(ExternArray, u32)>, LoadError> {
    let mut arrays = Vec::<(ExternArray, u32)>::new();
    for node in root.list(key)? {
        let name = node.name()?;
        if arrays.iter().any(|(known, _)| known.name == name) {
            return node.err("another array has this name");
        }
        if arrays.len() >= usize::from(u16::MAX) {
            return node.err("more than 65535 arrays");
        }
        let CellFormat { bits, counts_packets } = read_format(&node)?;
        let is_direct = node.flag("is_direct", false)?;
        let size = if is_direct { 0 } else { node.get("size")?.usize_at_most(MAX_CELLS)? };
        arrays.push((ExternArray { name, size, is_direct, counts_packets }, bits));
    }
    Ok(arrays)
}
