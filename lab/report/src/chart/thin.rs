//! Reduces the points of a time series without a visible change of the chart.
//!
//! A series with more values than the chart has columns is divided into narrow bins. If the series is monotonic in a
//! bin, or changes direction once, its corners are drawn, which preserves edges and peaks. If it oscillates, its mean
//! is drawn on a pale band from minimum to maximum. Otherwise a queue that oscillates between zero and three packets
//! would become a solid block that hides other lines.

/// Width of a bin in pixels; coarse enough for the means to form a line.
const BIN: f64 = 3.0;

/// The points of a reduced series.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Thinned {
    pub line: Vec<(f64, f64)>,
    /// Minimum and maximum of the values that each point represents; empty if the points are not reduced.
    pub band: Vec<(f64, f64)>,
}

/// Reduces `points` (ascending x) for a chart of this width in pixels.
pub(super) fn thin(points: &[(f64, f64)], width: f64) -> Thinned {
    let bins = (width / BIN).ceil().max(1.0) as usize;
    if points.len() <= 2 * bins {
        return Thinned { line: ends_of_level_stretches(points), band: Vec::new() };
    }
    let mut thinned = Thinned::default();
    for i in 0..bins {
        let bin = &points[i * points.len() / bins..(i + 1) * points.len() / bins];
        match corners(bin) {
            Some(corners) => {
                thinned.band.extend(corners.iter().map(|p| (p.1, p.1)));
                thinned.line.extend(corners);
            }
            None => {
                let mean = bin.iter().map(|p| p.1).sum::<f64>() / bin.len() as f64;
                let low = bin.iter().map(|p| p.1).fold(f64::INFINITY, f64::min);
                let high = bin.iter().map(|p| p.1).fold(f64::NEG_INFINITY, f64::max);
                thinned.line.push(((bin[0].0 + bin[bin.len() - 1].0) / 2.0, mean));
                thinned.band.push((low, high));
            }
        }
    }
    if thinned.band.iter().all(|(low, high)| low == high) {
        return Thinned { line: ends_of_level_stretches(&thinned.line), band: Vec::new() };
    }
    thinned
}

/// Returns the first point, the turning point if there is one, and the last point; `None` if there are several
/// turning points.
fn corners(bin: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
    let (first, last) = (*bin.first()?, *bin.last()?);
    let mut corners = vec![first];
    let mut was_rising: Option<bool> = None;
    for pair in bin.windows(2).filter(|pair| pair[0].1 != pair[1].1) {
        let is_rising = pair[1].1 > pair[0].1;
        if was_rising.is_some_and(|previous| previous != is_rising) {
            corners.push(pair[0]);
        }
        was_rising = Some(is_rising);
    }
    corners.push(last);
    corners.dedup();
    (corners.len() <= 3).then_some(corners)
}

/// Removes the inner points of stretches with equal y.
fn ends_of_level_stretches(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let is_inner = |i: usize| {
        i > 0 && i + 1 < points.len() && points[i - 1].1 == points[i].1 && points[i].1 == points[i + 1].1
    };
    points.iter().enumerate().filter(|(i, _)| !is_inner(*i)).map(|(_, p)| *p).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_every_peak_in_the_band() {
        let mut points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[54_321].1 = 1e6;
        points[77_777].1 = -5.0;
        let thinned = thin(&points, 900.0);
        assert_eq!((thinned.line.len(), thinned.band.len()), (300, 300));
        assert_eq!(thinned.band.iter().map(|b| b.1).fold(0.0, f64::max), 1e6);
        assert_eq!(thinned.band.iter().map(|b| b.0).fold(0.0, f64::min), -5.0);
        assert!(thinned.line.is_sorted_by(|a, b| a.0 < b.0));
        assert!((thinned.line[0].1 - 3.0).abs() < 0.1, "the mean of 0..=6");
    }

    #[test]
    fn edges_and_peaks_are_preserved() {
        let step = |i: u32| if i < 50_000 { 0.0 } else { 100.0 };
        let points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), step(i))).collect();
        let corners = [(0.0, 0.0), (49_999.0, 0.0), (50_000.0, 100.0), (99_999.0, 100.0)];
        assert_eq!(thin(&points, 900.0), Thinned { line: corners.into(), band: vec![] });

        let tent = |i: i32| 1e5 - f64::from((i - 44_444).abs());
        let points: Vec<(f64, f64)> = (0..100_000).map(|i| (f64::from(i), tent(i))).collect();
        assert!(thin(&points, 900.0).line.contains(&(44_444.0, 1e5)));
    }

    #[test]
    fn keeps_the_ends_of_a_level_stretch() {
        let points: Vec<(f64, f64)> =
            (0..10).map(|i| (f64::from(i), if i < 5 { 1.0 } else { 2.0 })).collect();
        assert_eq!(thin(&points, 100.0).line, [(0.0, 1.0), (4.0, 1.0), (5.0, 2.0), (9.0, 2.0)]);
    }

    #[test]
    fn short_series_are_unchanged() {
        let points = [(0.0, 1.0), (1.0, 3.0), (2.0, 2.0)];
        assert_eq!(thin(&points, 6.0), Thinned { line: points.into(), band: vec![] });
        assert_eq!(thin(&[], 10.0), Thinned::default());
    }
}
