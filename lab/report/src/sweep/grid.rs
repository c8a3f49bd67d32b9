//! The axes of a sweep (varied keys), and the runs, which are their cross product.

use crate::names::file_name;
use sha2::{Digest, Sha256};
use weir_units::Time;

/// Separates keys that vary together, and their values: `a+b=1+10,2+20`.
const JOINT_SEPARATOR: char = '+';
/// Key of the axis of seeds. Results are means over its values.
pub const SEED: &str = "seed";
/// Prefix of another key, if results are means over its values: `~flows.0.start=0us,1us`.
const AVERAGED_PREFIX: char = '~';
/// Maximum number of runs; a larger number is assumed to be a typing error.
const MAX_RUNS: usize = 100_000;

/// A key of the experiment and its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepAxis {
    /// A key as in `--set`, several joined by `+`, or [`SEED`].
    pub key: String,
    pub values: Vec<String>,
}

impl SweepAxis {
    /// Returns whether the values of the axis are compared. Otherwise means are taken over them.
    fn is_compared(&self) -> bool {
        self.key != SEED && !self.key.starts_with(AVERAGED_PREFIX)
    }

    /// Returns the keys that vary together, one for most axes.
    fn keys(&self) -> impl Iterator<Item = &str> {
        self.key.trim_start_matches(AVERAGED_PREFIX).split(JOINT_SEPARATOR)
    }

    /// Returns whether means are taken over several values of the axis.
    pub fn is_mean(&self) -> bool {
        !self.is_compared() && self.values.len() > 1
    }

    /// Parses `key=a,b,c`, `key=1..5` (both ends included), or `key=0us..12us/25` (25 equidistant times, both ends
    /// included).
    ///
    /// # Errors
    ///
    /// If the key or a value is missing, a value is duplicate, or a range is invalid.
    pub fn parse(text: &str) -> Result<SweepAxis, String> {
        let invalid = |reason: &str| {
            Err(format!("{text}: {reason}; write for example workload.load=0.2,0.4 or seed=1..5"))
        };
        let Some((key, list)) = text.split_once('=') else { return invalid("expected KEY=VALUES") };
        let (key, list) = (key.trim(), list.trim());
        if key.is_empty() {
            return invalid("missing key");
        }
        let mut values = Vec::new();
        for item in split(list) {
            if let Some(times) = times(item) {
                values.extend(times.iter().map(Time::to_string));
                continue;
            }
            match range(item) {
                Some((first, last)) if first <= last && last - first < MAX_RUNS as u64 => {
                    values.extend((first..=last).map(|n| n.to_string()));
                }
                Some(_) => return invalid(&format!("the range {item} is empty or too long")),
                None if item.is_empty() => return invalid("missing value"),
                None => values.push(item.to_owned()),
            }
        }
        if key == SEED && values.iter().any(|value| value.parse::<u64>().is_err()) {
            return invalid("seeds must be whole numbers");
        }
        let keys = key.split(JOINT_SEPARATOR).count();
        if let Some(value) =
            values.iter().find(|value| keys > 1 && value.split(JOINT_SEPARATOR).count() != keys)
        {
            return invalid(&format!("expected {keys} values joined by {JOINT_SEPARATOR}, found {value}"));
        }
        for (i, value) in values.iter().enumerate() {
            if values[..i].contains(value) {
                return invalid(&format!("duplicate value {value}"));
            }
        }
        Ok(SweepAxis { key: key.to_owned(), values })
    }
}

/// Parses `0us..12us/25`, both ends included.
fn times(text: &str) -> Option<Vec<Time>> {
    let (range, count) = text.split_once('/')?;
    let (first, last) = range.split_once("..")?;
    let (first, last): (Time, Time) = (first.parse().ok()?, last.parse().ok()?);
    let steps = count.parse::<u64>().ok().filter(|&n| n > 1 && n <= MAX_RUNS as u64)? - 1;
    let span = last.checked_sub(first)?.as_ps();
    let offset = |step: u64| u128::from(span) * u128::from(step) / u128::from(steps);
    Some((0..=steps).map(|step| first.saturating_add(Time::from_ps(offset(step) as u64))).collect())
}

/// Parses `1..5`.
fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Splits at commas outside of brackets, because a value may be a list or a map.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut part_start, mut parts) = (0i32, 0, Vec::new());
    for (position, letter) in text.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[part_start..position].trim());
                part_start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(text[part_start..].trim());
    parts
}

/// One run of a sweep: a value for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// One value per axis, in the order of [`Grid::axes`].
    pub values: Vec<String>,
}

/// All axes of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    pub axes: Vec<SweepAxis>,
}

impl Grid {
    /// Parses one text per axis.
    ///
    /// # Errors
    ///
    /// Those of [`SweepAxis::parse`]; also if a key is duplicate or the grid has too many cells.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Grid, String> {
        let mut axes: Vec<SweepAxis> = Vec::new();
        for text in texts {
            let axis = SweepAxis::parse(text.as_ref())?;
            if axes.iter().any(|other| other.key == axis.key) {
                return Err(format!("{}: duplicate key; list all its values in one option", axis.key));
            }
            axes.push(axis);
        }
        let cells = axes.iter().try_fold(1usize, |cells, axis| cells.checked_mul(axis.values.len()));
        match cells {
            Some(cells) if cells <= MAX_RUNS => Ok(Grid { axes }),
            _ => Err(format!("more than {MAX_RUNS} runs; reduce the values")),
        }
    }

    /// Returns the runs; the last axis varies fastest.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = vec![Cell { values: Vec::new() }];
        for axis in &self.axes {
            cells = cells
                .iter()
                .flat_map(|cell| {
                    axis.values.iter().map(|value| {
                        let values = cell.values.iter().chain([value]).cloned().collect();
                        Cell { values }
                    })
                })
                .collect();
        }
        cells
    }

    /// Returns the compared axes with their indices.
    pub fn compared(&self) -> impl Iterator<Item = (usize, &SweepAxis)> {
        self.axes.iter().enumerate().filter(|(_, axis)| axis.is_compared())
    }

    /// Returns the seed of a cell, if the sweep sets it.
    pub fn seed(&self, cell: &Cell) -> Option<u64> {
        let index = self.axes.iter().position(|axis| axis.key == SEED)?;
        cell.values[index].parse().ok()
    }

    /// Returns the swept keys except the seed, one by one: keys that vary together are two.
    pub fn keys(&self) -> Vec<&str> {
        self.axes.iter().filter(|axis| axis.key != SEED).flat_map(SweepAxis::keys).collect()
    }

    /// Returns the values of a cell on [`keys`](Self::keys).
    pub fn values_of_keys<'c>(&self, cell: &'c Cell) -> Vec<&'c str> {
        let values = |(axis, values): (&SweepAxis, &'c String)| {
            // At most as many parts as keys, because the value of a single key may contain a plus.
            values.splitn(axis.keys().count(), JOINT_SEPARATOR).collect::<Vec<_>>()
        };
        self.axes.iter().zip(&cell.values).filter(|(axis, _)| axis.key != SEED).flat_map(values).collect()
    }

    /// Returns the overrides of a cell, in the syntax of `--set`.
    pub fn overrides(&self, cell: &Cell) -> Vec<String> {
        let pairs = self.keys().into_iter().zip(self.values_of_keys(cell));
        pairs.map(|(key, value)| format!("{key}={value}")).collect()
    }

    /// Returns the name of a cell's directory. It depends on the values of the cell only, not on the order of the
    /// axes or on their other values, so that an extended sweep finds the runs that are done.
    pub fn dir_name(&self, cell: &Cell) -> String {
        /// Below the limit of file systems, 255 bytes, with room for a hash and suffixes.
        const MAX_DIR_NAME_LEN: usize = 160;
        let mut pairs: Vec<String> = self.overrides(cell);
        pairs.sort();
        pairs.extend(self.seed(cell).map(|seed| format!("{SEED}={seed}")));
        if pairs.is_empty() {
            return "run".to_owned();
        }
        let exact = pairs.join(",");
        let parts: Vec<String> =
            pairs.iter().map(|pair| pair.split('=').map(file_name).collect::<Vec<_>>().join("=")).collect();
        let name = parts.join(",");
        if name == exact && name.len() <= MAX_DIR_NAME_LEN && !name.starts_with('.') {
            return name;
        }
        let hash: String = Sha256::digest(&exact).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
        let prefix: String = name.trim_start_matches('.').chars().take(MAX_DIR_NAME_LEN).collect();
        format!("{prefix}-{hash}")
    }

    /// Returns the values of a cell on the compared axes.
    pub fn point(&self, cell: &Cell) -> Vec<String> {
        self.compared().map(|(index, _)| cell.values[index].clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(texts: &[&str]) -> Grid {
        Grid::parse(texts).unwrap()
    }

    #[test]
    fn reads_lists_and_ranges() {
        let axis = |text| SweepAxis::parse(text).map(|axis| axis.values);
        assert_eq!(axis("seed=1..3,7").unwrap(), ["1", "2", "3", "7"]);
        assert_eq!(axis("schemes=[fncc, hpcc],[dcqcn]").unwrap(), ["[fncc, hpcc]", "[dcqcn]"]);
        assert_eq!(axis("topology.rate = 100Gbps, 400Gbps").unwrap(), ["100Gbps", "400Gbps"]);
        for wrong in ["seed", "=1", "a=1,,2", "seed=x", "seed=5..1", "a=1,1"] {
            let reason = axis(wrong).unwrap_err();
            assert!(reason.starts_with(wrong) && reason.contains("for example"), "{reason}");
        }
        assert!(Grid::parse(&["a=1", "a=2"]).unwrap_err().contains("duplicate"));
        assert!(Grid::parse(&["a=1..9999", "b=1..9999"]).unwrap_err().contains("reduce the values"));
    }

    #[test]
    fn cells_are_the_cross_product() {
        let grid = grid(&["load=0.2,0.4", "seed=1..3"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 6);
        assert_eq!((grid.point(&cells[4]), grid.seed(&cells[4])), (vec!["0.4".to_owned()], Some(2)));
        assert_eq!(grid.overrides(&cells[4]), ["load=0.4"]);
        assert_eq!(Grid::default().cells().len(), 1);
    }

    #[test]
    fn joint_keys_are_one_axis() {
        let grid = grid(&["a.load+b.load=2%+3%,4%+6%", "c=1+2"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 2);
        assert_eq!(grid.overrides(&cells[1]), ["a.load=4%", "b.load=6%", "c=1+2"]);
        assert_eq!(grid.point(&cells[1]), ["4%+6%", "1+2"]);
        let reason = Grid::parse(&["a+b=1+2,3"]).unwrap_err();
        assert!(reason.contains("expected 2 values"), "{reason}");
    }

    #[test]
    fn any_key_can_be_averaged_over() {
        let grid = grid(&["a=1,2", "~flows.0.start=0us..1us/3"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 6);
        assert_eq!(grid.overrides(&cells[4]), ["a=2", "flows.0.start=500ns"]);
        assert_eq!((grid.point(&cells[4]), grid.seed(&cells[4])), (vec!["2".to_owned()], None));
        assert_eq!(grid.dir_name(&cells[4]), "a=2,flows.0.start=500ns");
        assert_eq!(grid.axes.iter().map(SweepAxis::is_mean).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn an_invalid_range_of_times_is_a_plain_value() {
        for invalid in ["0us..1us/1", "1us..0us/3"] {
            assert_eq!(SweepAxis::parse(&format!("t={invalid}")).unwrap().values, [invalid]);
        }
    }

    #[test]
    fn directories_have_distinct_names_in_any_order() {
        let (grid_1, grid_2) = (grid(&["a.b=1,2", "seed=1..2"]), grid(&["seed=1..2", "a.b=1,2"]));
        let names = |grid: &Grid| -> std::collections::BTreeSet<String> {
            grid.cells().iter().map(|cell| grid.dir_name(cell)).collect()
        };
        assert_eq!(names(&grid_1), names(&grid_2));
        assert!(names(&grid_1).contains("a.b=1,seed=2"));
        let escaped = names(&grid(&["x=[a],{a},../..,a b"]));
        assert_eq!(escaped.len(), 4);
        assert!(escaped.iter().all(|name| !name.contains('/') && !name.starts_with('.')), "{escaped:?}");
    }
}
