//! The keys that a sweep varies: axes, and the runs that are their cross product.

use crate::names::file_name;
use sha2::{Digest, Sha256};
use weir_units::Time;

/// Between keys that change together, and their values: `a+b=1+10,2+20`.
const JOINT_SEPARATOR: char = '+';
/// The axis whose values are means over, not compared.
pub const SEED: &str = "seed";
/// Before the key of any other such axis: `~flows.0.start=0us,1us`.
const AVERAGED_PREFIX: char = '~';
/// A sweep of more runs than this is a slip of the keyboard.
const MAX_RUNS: usize = 100_000;

/// A key of the experiment and the values it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SweepAxis {
    /// As in `--set`, several of them with a plus between, or [`SEED`].
    pub key: String,
    /// In the order given.
    pub values: Vec<String>,
}

impl SweepAxis {
    /// Returns whether its values are compared, and not means over.
    fn is_compared(&self) -> bool {
        self.key != SEED && !self.key.starts_with(AVERAGED_PREFIX)
    }

    /// Returns whether numbers are means over several values of it.
    pub fn is_mean(&self) -> bool {
        !self.is_compared() && self.values.len() > 1
    }

    /// Reads `key=a,b,c` or `key=1..5`, both ends meant, or a number of times from one to another, `key=0us..12us/25`.
    ///
    /// # Errors
    ///
    /// The text has no key or no values, an empty one, or an invalid range.
    pub fn parse(text: &str) -> Result<SweepAxis, String> {
        let wrong = |reason: &str| Err(format!("{text}: {reason}, write it like load=0.2,0.4 or seed=1..5"));
        let Some((key, list)) = text.split_once('=') else { return wrong("there is no =") };
        let (key, list) = (key.trim(), list.trim());
        if key.is_empty() {
            return wrong("there is no key before the =");
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
                Some(_) => return wrong(&format!("{item} is empty or endless")),
                None if item.is_empty() => return wrong("a value is missing"),
                None => values.push(item.to_owned()),
            }
        }
        if key == SEED && values.iter().any(|value| value.parse::<u64>().is_err()) {
            return wrong("a seed is a whole number");
        }
        let keys = key.split(JOINT_SEPARATOR).count();
        if let Some(value) =
            values.iter().find(|value| keys > 1 && value.split(JOINT_SEPARATOR).count() != keys)
        {
            return wrong(&format!("{value} is not {keys} values with {JOINT_SEPARATOR} between them"));
        }
        for (i, value) in values.iter().enumerate() {
            if values[..i].contains(value) {
                return wrong(&format!("{value} is there twice"));
            }
        }
        Ok(SweepAxis { key: key.to_owned(), values })
    }
}

/// `0us..12us/25`, both ends meant.
fn times(text: &str) -> Option<Vec<Time>> {
    let (range, count) = text.split_once('/')?;
    let (first, last) = range.split_once("..")?;
    let (first, last): (Time, Time) = (first.parse().ok()?, last.parse().ok()?);
    let steps = count.parse::<u64>().ok().filter(|&n| n > 1 && n <= MAX_RUNS as u64)? - 1;
    let distance = last.checked_sub(first)?.as_ps();
    let at = |step: u64| u128::from(distance) * u128::from(step) / u128::from(steps);
    Some((0..=steps).map(|step| first.saturating_add(Time::from_ps(at(step) as u64))).collect())
}

/// `1..5`, as two numbers.
fn range(text: &str) -> Option<(u64, u64)> {
    let (first, last) = text.split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Cuts at the commas that are in no brackets: a value may be a list or a map.
fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut parts) = (0i32, 0, Vec::new());
    for (at, letter) in text.char_indices() {
        match letter {
            '[' | '{' => depth += 1,
            ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(text[from..].trim());
    parts
}

/// One run of a sweep: a value for each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Parallel to [`Grid::axes`].
    pub values: Vec<String>,
}

/// All axes of a sweep.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// In the order given.
    pub axes: Vec<SweepAxis>,
}

impl Grid {
    /// Parses one text per axis.
    ///
    /// # Errors
    ///
    /// As [`SweepAxis::parse`]; also if a key occurs twice or the grid has too many cells.
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Grid, String> {
        let mut axes: Vec<SweepAxis> = Vec::new();
        for text in texts {
            let axis = SweepAxis::parse(text.as_ref())?;
            if axes.iter().any(|other| other.key == axis.key) {
                return Err(format!("{}: this key is there twice, give all its values at once", axis.key));
            }
            axes.push(axis);
        }
        let cells = axes.iter().try_fold(1usize, |cells, axis| cells.checked_mul(axis.values.len()));
        match cells {
            Some(cells) if cells <= MAX_RUNS => Ok(Grid { axes }),
            _ => Err(format!("these are more than {MAX_RUNS} runs, give fewer values")),
        }
    }

    /// Returns the runs; the last axis changes fastest.
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

    /// Returns the axes that are compared, with their places.
    pub fn compared(&self) -> impl Iterator<Item = (usize, &SweepAxis)> {
        self.axes.iter().enumerate().filter(|(_, axis)| axis.is_compared())
    }

    /// Returns the seed of a cell, if the sweep sets it.
    pub fn seed(&self, cell: &Cell) -> Option<u64> {
        let place = self.axes.iter().position(|axis| axis.key == SEED)?;
        cell.values[place].parse().ok()
    }

    /// Returns what a cell sets, as `--set` takes it.
    pub fn overrides(&self, cell: &Cell) -> Vec<String> {
        let set = |(place, axis): (usize, &SweepAxis)| {
            let keys: Vec<&str> =
                axis.key.trim_start_matches(AVERAGED_PREFIX).split(JOINT_SEPARATOR).collect();
            // As many parts as keys: the value of a single key may hold a plus.
            let values = cell.values[place].splitn(keys.len(), JOINT_SEPARATOR);
            keys.into_iter().zip(values).map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>()
        };
        self.axes.iter().enumerate().filter(|(_, axis)| axis.key != SEED).flat_map(set).collect()
    }

    /// Returns the name of a cell's directory: the same whatever the order of the axes, and whatever else is swept.
    pub fn dir_name(&self, cell: &Cell) -> String {
        /// Longest file name that file systems accept, less a hash and suffixes.
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
        let short: String = name.trim_start_matches('.').chars().take(MAX_DIR_NAME_LEN).collect();
        format!("{short}-{hash}")
    }

    /// Returns the point of a cell: those of its values that are compared.
    pub fn point(&self, cell: &Cell) -> Vec<String> {
        self.compared().map(|(place, _)| cell.values[place].clone()).collect()
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
            assert!(reason.starts_with(wrong) && reason.contains("write it like"), "{reason}");
        }
        assert!(Grid::parse(&["a=1", "a=2"]).unwrap_err().contains("twice"));
        assert!(Grid::parse(&["a=1..9999", "b=1..9999"]).unwrap_err().contains("fewer"));
    }

    #[test]
    fn is_a_cross_product() {
        let grid = grid(&["load=0.2,0.4", "seed=1..3"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 6);
        assert_eq!((grid.point(&cells[4]), grid.seed(&cells[4])), (vec!["0.4".to_owned()], Some(2)));
        assert_eq!(grid.overrides(&cells[4]), ["load=0.4"]);
        assert_eq!(Grid::default().cells().len(), 1);
    }

    #[test]
    fn keys_that_change_together_are_one_axis() {
        let grid = grid(&["a.load+b.load=2%+3%,4%+6%", "c=1+2"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 2);
        assert_eq!(grid.overrides(&cells[1]), ["a.load=4%", "b.load=6%", "c=1+2"]);
        assert_eq!(grid.point(&cells[1]), ["4%+6%", "1+2"]);
        let reason = Grid::parse(&["a+b=1+2,3"]).unwrap_err();
        assert!(reason.contains("3 is not 2 values"), "{reason}");
    }

    #[test]
    fn any_key_can_be_a_mean_over() {
        let grid = grid(&["a=1,2", "~flows.0.start=0us..1us/3"]);
        let cells = grid.cells();
        assert_eq!(cells.len(), 6);
        assert_eq!(grid.overrides(&cells[4]), ["a=2", "flows.0.start=500ns"]);
        assert_eq!((grid.point(&cells[4]), grid.seed(&cells[4])), (vec!["2".to_owned()], None));
        assert_eq!(grid.dir_name(&cells[4]), "a=2,flows.0.start=500ns");
        assert_eq!(grid.axes.iter().map(SweepAxis::is_mean).collect::<Vec<_>>(), [false, true]);
        for wrong in ["t=0us..1us/1", "t=1us..0us/3"] {
            assert!(
                SweepAxis::parse(wrong).is_err() || SweepAxis::parse(wrong).unwrap().values == [&wrong[2..]]
            );
        }
    }

    #[test]
    fn directories_have_distinct_names_in_any_order() {
        let (one, other) = (grid(&["a.b=1,2", "seed=1..2"]), grid(&["seed=1..2", "a.b=1,2"]));
        let names = |grid: &Grid| -> std::collections::BTreeSet<String> {
            grid.cells().iter().map(|cell| grid.dir_name(cell)).collect()
        };
        assert_eq!(names(&one), names(&other));
        assert!(names(&one).contains("a.b=1,seed=2"));
        let odd = names(&grid(&["x=[a],{a},../..,a b"]));
        assert_eq!(odd.len(), 4);
        assert!(odd.iter().all(|name| !name.contains('/') && !name.starts_with('.')), "{odd:?}");
    }
}
