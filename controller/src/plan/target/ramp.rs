//! Approximates the ECN ramp by steps, as entries of `p4src/tna/controls/ecn.p4`.

use super::super::entry::{Entry, entry};
use crate::thresholds::EcnRamp;
use std::collections::BTreeMap;

/// Length of a buffer cell, the unit in which Tofino counts queue lengths.
pub(super) const CELL_BYTES: u32 = 80;
/// The largest queue length that the program sees. It also stands for all longer queues.
pub(super) const MAX_DEPTH_CELLS: u16 = u16::MAX;
/// Maximum number of steps between `kmin` and `kmax`; bounds inside an aligned step add one. The error of the marking
/// probability, half a step, is then at most `pmax` / 32.
const MAX_STEPS: u32 = 16;

/// Numbers the ramps of one switch from 1. Ports with equal thresholds share a ramp.
#[derive(Default)]
pub(super) struct EcnRamps {
    /// Number of each ramp by (`kmin`, `kmax`, `slope`).
    numbers: BTreeMap<(u32, u32, u32), u16>,
}

impl EcnRamps {
    /// Returns the number of a ramp, with its steps if the ramp is new. Number 0 is the ramp that never marks.
    pub(super) fn number(&mut self, ecn: EcnRamp) -> (u16, Vec<Entry<'static>>) {
        if ecn.kmax == 0 {
            return (0, Vec::new());
        }
        let next = self.numbers.len() as u16 + 1;
        let number = *self.numbers.entry((ecn.kmin, ecn.kmax, ecn.slope)).or_insert(next);
        (number, if number == next { steps(number, ecn) } else { Vec::new() })
    }
}

/// Returns the entries of a ramp. The width of a step is a power of two and steps are aligned to it, so that each
/// step is one row of a ternary table.
fn steps(ramp: u16, ecn: EcnRamp) -> Vec<Entry<'static>> {
    let (first, last) = (ecn.kmin / CELL_BYTES + 1, ecn.kmax / CELL_BYTES);
    let width = (last.saturating_sub(first) + 1).div_ceil(MAX_STEPS).next_power_of_two();
    let mut entries = Vec::new();
    let mut low = first;
    while let (true, Ok(low_cell)) = (low <= last, u16::try_from(low)) {
        let high = ((low / width + 1) * width - 1).min(last);
        // The probability at the middle of the step, in units of 1/65536. Steps whose probability rounds to 0 have no
        // entry.
        let middle = (u64::from(low) + u64::from(high)) * u64::from(CELL_BYTES / 2);
        let above = middle.saturating_sub(ecn.kmin.into());
        let probability = (u64::from(ecn.slope) * above + (1 << 15)) >> 16;
        let probability = u16::try_from(probability).unwrap_or(u16::MAX);
        if probability > 0 {
            let high = u16::try_from(high).unwrap_or(MAX_DEPTH_CELLS);
            entries.push(step(entry!(
                ecn_ramp[ramp = ramp, depth = low_cell..=high] -> mark_with(probability = probability))));
        }
        low = high + 1;
    }
    if let Ok(low) = u16::try_from(last + 1) {
        entries.push(step(entry!(ecn_ramp[ramp = ramp, depth = low..=MAX_DEPTH_CELLS] -> mark_always())));
    }
    entries
}

/// All steps have the same priority, since they do not overlap.
fn step(entry: Entry<'static>) -> Entry<'static> {
    Entry { priority: 1, ..entry }
}

#[cfg(test)]
mod tests {
    use super::super::super::entry::Field;
    use super::*;

    fn depths(step: &Entry) -> std::ops::RangeInclusive<u128> {
        match step.key[1].1 {
            Field::Range { low, high } => low..=high,
            other => panic!("{other:?}"),
        }
    }

    fn probability(entries: &[Entry], depth: u16) -> f64 {
        let hits: Vec<&Entry> = entries.iter().filter(|step| depths(step).contains(&depth.into())).collect();
        assert!(hits.len() <= 1, "depth {depth} has several steps: {hits:?}");
        hits.first().map_or(0.0, |hit| hit.params.first().map_or(1.0, |(_, p)| p.number as f64 / 65_536.0))
    }

    #[test]
    fn a_staircase_is_close_to_the_ramp() {
        // DCQCN's at 100 Gbit/s: 400 KB, 1.6 MB, 0.2.
        let ecn = EcnRamp { kmin: 400_000, kmax: 1_600_000, slope: 715 };
        let entries = steps(1, ecn);
        assert!(entries.len() <= 18, "{} entries", entries.len());
        for depth in (0..=u16::MAX).step_by(97) {
            let bytes = u32::from(depth) * CELL_BYTES;
            let exact = match bytes {
                bytes if bytes > ecn.kmax => 1.0,
                bytes => f64::from(bytes.saturating_sub(ecn.kmin)) * f64::from(ecn.slope) / 2f64.powi(32),
            };
            let error = (probability(&entries, depth) - exact).abs();
            assert!(error <= 0.2 / 16.0, "depth {depth}: off by {error}");
        }
        assert_eq!(probability(&entries, 5_000), 0.0, "400 KB are not above kmin");
        assert_eq!((probability(&entries, 20_000) < 0.21, probability(&entries, 20_001)), (true, 1.0));
    }

    #[test]
    fn a_step_is_one_entry_and_a_ramp_beyond_the_saturated_depth_ends_there() {
        let step = EcnRamp { kmin: 65_000, kmax: 65_000, slope: 0 };
        let always = |ramp: u16, low: u16| {
            super::step(entry!(ecn_ramp[ramp = ramp, depth = low..=MAX_DEPTH_CELLS] -> mark_always()))
        };
        assert_eq!(steps(3, step), [always(3, 813)]);
        // 400 KB to 8 MB; the depth saturates at 5.2 MB.
        let far = steps(1, EcnRamp { kmin: 400_000, kmax: 8_000_000, slope: 113 });
        let last = far.last().unwrap();
        assert_eq!((*depths(last).end(), last.action), (MAX_DEPTH_CELLS.into(), "mark_with"));
        let tiny = steps(1, EcnRamp { kmin: 0, kmax: 1, slope: u32::MAX });
        assert_eq!(tiny, [always(1, 1)]);
    }

    #[test]
    fn equal_ramps_share_a_number() {
        let (one, two) = (EcnRamp { kmin: 1, kmax: 2, slope: 3 }, EcnRamp { kmin: 1, kmax: 2, slope: 4 });
        let mut ramps = EcnRamps::default();
        assert_eq!(ramps.number(EcnRamp::default()), (0, Vec::new()));
        assert_eq!((ramps.number(one).0, ramps.number(two).0), (1, 2));
        assert_eq!(ramps.number(one), (1, Vec::new()));
    }
}
