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
/// Stands for a percent sign in names of directories.
const PERCENT: &str = "pct";
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
                Some((first, last)) if first > last => {
                    return invalid(&format!("the range {item} is empty: {first} is above {last}"));
                }
                Some((first, last)) => {
                    let count = u128::from(last - first) + 1;
                    return invalid(&format!("the range {item} has {count} values, more than {MAX_RUNS}"));
                }
                None if item.is_empty() => return invalid("missing value"),
                None if is_range(item) => {
                    return invalid(&format!(
                        "{item} is no range; a range has whole numbers, 1..5, or times and their number, 0us..12us/25"
                    ));
                }
                None => values.push(item.to_owned()),
            }
        }
        if let Some(value) = values.iter().find(|value| key == SEED && value.parse::<u64>().is_err()) {
            return invalid(&format!("\"{value}\" is no seed, a whole number from 0 to {}", u64::MAX));
        }
        let keys = key.split(JOINT_SEPARATOR).count();
        if let Some(value) =
            values.iter().find(|value| keys > 1 && value.split(JOINT_SEPARATOR).count() != keys)
        {
            return Err(joint_value_reason(text, key, value));
        }
        for (i, value) in values.iter().enumerate() {
            if values[..i].contains(value) {
                return invalid(&format!("duplicate value {value}"));
            }
        }
        Ok(SweepAxis { key: key.to_owned(), values })
    }
}

/// Says that a value of `KEY+KEY=VALUES` has not one part for each key.
fn joint_value_reason(text: &str, key: &str, value: &str) -> String {
    let keys: Vec<&str> = key.trim_start_matches(AVERAGED_PREFIX).split(JOINT_SEPARATOR).collect();
    let parts = value.split(JOINT_SEPARATOR).count();
    let has = if parts == 1 { "1 value".to_owned() } else { format!("{parts} values") };
    let example = |n: usize| keys.iter().map(|_| n.to_string()).collect::<Vec<_>>().join("+");
    format!(
        "{text}: \"{value}\" has {has} for the {} keys {}, which change together; join one value for each key by \
         {JOINT_SEPARATOR}, for example {key}={},{}",
        keys.len(),
        keys.join(" and "),
        example(1),
        example(2)
    )
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

/// Returns whether a text was meant as a range: two values that begin with a digit.
fn is_range(text: &str) -> bool {
    let begins_with_digit = |text: &str| text.starts_with(|c: char| c.is_ascii_digit());
    text.split_once("..").is_some_and(|(first, last)| begins_with_digit(first) && begins_with_digit(last))
}

/// Returns a key or value as a part of a directory's name that needs no quotes in a shell: `20%` as `20pct`, and
/// `[fncc, hpcc]` as `fncc-hpcc`.
fn word_of_dir_name(text: &str) -> String {
    let name = file_name(&text.replace('%', PERCENT));
    if name.replace(PERCENT, "%") == text {
        return name;
    }
    name.split('-').filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
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

/// The reason why texts are no axes of a sweep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct GridError {
    /// Index of the invalid text; `None` if it is about all of them.
    pub index: Option<usize>,
    pub reason: String,
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
    pub fn parse<S: AsRef<str>>(texts: &[S]) -> Result<Grid, GridError> {
        let mut axes: Vec<SweepAxis> = Vec::new();
        for (index, text) in texts.iter().enumerate() {
            let at_axis = |reason| GridError { index: Some(index), reason };
            let axis = SweepAxis::parse(text.as_ref()).map_err(at_axis)?;
            if let Some(key) =
                axis.keys().find(|key| axes.iter().flat_map(SweepAxis::keys).any(|k| k == *key))
            {
                return Err(at_axis(format!("{key}: duplicate key; list all its values in one option")));
            }
            axes.push(axis);
        }
        let cells = axes.iter().try_fold(1usize, |cells, axis| cells.checked_mul(axis.values.len()));
        match cells {
            Some(cells) if cells <= MAX_RUNS => Ok(Grid { axes }),
            Some(cells) => Err(GridError {
                index: None,
                reason: format!("{cells} runs, more than {MAX_RUNS}; reduce the values"),
            }),
            None => Err(GridError {
                index: None,
                reason: format!("more than {MAX_RUNS} runs; reduce the values"),
            }),
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
        let parts: Vec<String> = pairs
            .iter()
            .map(|pair| pair.split('=').map(word_of_dir_name).collect::<Vec<_>>().join("="))
            .collect();
        let name = parts.join(",");
        let is_unique = name.replace(PERCENT, "%") == exact;
        if is_unique && name.len() <= MAX_DIR_NAME_LEN && !name.starts_with('.') {
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
        let error = |texts: &[&str]| Grid::parse(texts).unwrap_err();
        for texts in [["a=1", "a=2"], ["a=1", "a+b=2+3"], ["a=1", "~a=2"]] {
            let error = error(&texts);
            assert!(error.index == Some(1) && error.reason.starts_with("a: duplicate key"), "{error}");
        }
        let error = error(&["a=1..9999", "b=1..9999"]);
        assert_eq!(error.index, None);
        assert_eq!(error.reason, "99980001 runs, more than 100000; reduce the values");
        assert!(axis("a=1..1000000").unwrap_err().contains("1000000 values, more than 100000"));
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
        let error = Grid::parse(&["a+b=1+10,2"]).unwrap_err();
        assert_eq!(
            error.reason,
            "a+b=1+10,2: \"2\" has 1 value for the 2 keys a and b, which change together; join one value for each key \
             by +, for example a+b=1+1,2+2"
        );
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
    fn an_invalid_range_is_an_error() {
        for invalid in ["0us..1us/1", "1us..0us/3", "1KB..9KB/3", "0.1..0.9"] {
            let error = SweepAxis::parse(&format!("t={invalid}")).unwrap_err();
            assert!(error.contains(&format!("{invalid} is no range")), "{error}");
        }
        assert_eq!(SweepAxis::parse("path=../x").unwrap().values, ["../x"]);
    }

    #[test]
    fn directories_have_distinct_names_in_any_order() {
        let (grid_1, grid_2) = (grid(&["a.b=1,2", "seed=1..2"]), grid(&["seed=1..2", "a.b=1,2"]));
        let names = |grid: &Grid| -> std::collections::BTreeSet<String> {
            grid.cells().iter().map(|cell| grid.dir_name(cell)).collect()
        };
        assert_eq!(names(&grid_1), names(&grid_2));
        assert!(names(&grid_1).contains("a.b=1,seed=2"));
        let shares = names(&grid(&["load=20%,20pct,2.5%,20"]));
        assert!(
            ["load=20pct", "load=2.5pct", "load=20"].iter().all(|name| shares.contains(*name)),
            "{shares:?}"
        );
        assert!(shares.iter().any(|name| name.starts_with("load=20pct-")) && shares.len() == 4, "{shares:?}");
        let lists = names(&grid(&["schemes=[fncc, hpcc++],[dcqcn]"]));
        assert!(lists.iter().any(|name| name.starts_with("schemes=fncc-hpcc-")), "{lists:?}");
        assert!(lists.iter().any(|name| name.starts_with("schemes=dcqcn-")), "{lists:?}");
        let escaped = names(&grid(&["x=[a],{a},../..,a b"]));
        assert_eq!(escaped.len(), 4);
        assert!(escaped.iter().all(|name| !name.contains('/') && !name.starts_with('.')), "{escaped:?}");
    }
}
