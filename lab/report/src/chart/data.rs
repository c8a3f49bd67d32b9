//! The data of charts as JSON, for the script of a page.

use super::color::{PlotColor, dash};
use super::line_chart::{Chart, LegendPlacement, Line};
use super::scale::{Axis, Scale};
use serde_json::{Value, json};

/// Number of bins of a series with more than two points per bin. The data has the minimum and the maximum of each bin.
const BINS: usize = 2000;
/// Significant digits of values.
const DIGITS: i32 = 5;

impl Chart {
    /// Returns the chart's data; `None` if the script cannot draw the chart, because it has points with intervals or
    /// an axis of names.
    pub fn data(&self) -> Option<Value> {
        if !self.x.names.is_empty() || self.lines.iter().any(|line| !line.spread.is_empty()) {
            return None;
        }
        // Lines with equal x values share one array.
        let mut xs: Vec<Value> = Vec::new();
        let mut lines: Vec<Value> = Vec::new();
        let groups = self.overlapping_lines();
        for (line_index, line) in self.lines.iter().enumerate() {
            let (x, columns, is_step) = columns(line);
            let index = xs.iter().position(|existing| *existing == x).unwrap_or_else(|| {
                xs.push(x);
                xs.len() - 1
            });
            let (colour, dash) = (PlotColor::Line(line.colour).class(), dash(line.dash));
            lines.push(json!({
                "name": line.name, "colour": colour, "dash": dash, "step": is_step, "group": groups.iter().position(|group| group.contains(&line_index)),
                "x": index, "y": columns[0], "band": &columns[1..],
            }));
        }
        let marks: Vec<Value> =
            self.marks.iter().map(|mark| json!({"x": rounded(mark.x), "label": mark.label})).collect();
        let is_legend = self.names == LegendPlacement::Legend;
        Some(
            json!({"x": axis(&self.x), "y": axis(&self.y), "xs": xs, "lines": lines, "marks": marks, "legend": is_legend}),
        )
    }
}

fn axis(axis: &Axis) -> Value {
    json!({
        "title": axis.title, "low": rounded(axis.low), "high": rounded(axis.high),
        "log": axis.scale == Scale::Log, "time": axis.is_time, "bytes": (axis.format)(1e3).ends_with('B'),
    })
}

/// Returns the x values of a line, its y values with the two edges of its band if it has one, and whether it is a
/// step function.
fn columns(line: &Line) -> (Value, Vec<Vec<f64>>, bool) {
    let is_step = line.points.windows(2).any(|pair| pair[0].0 == pair[1].0);
    let thinned = if is_step { ends_of_steps(&line.points) } else { extremes(&line.points) };
    let (x, y): (Vec<f64>, Vec<f64>) = thinned.into_iter().unzip();
    let mut columns = vec![y.into_iter().map(rounded).collect()];
    if !line.band.is_empty() && line.band.len() == x.len() {
        columns.push(line.band.iter().map(|band| rounded(band.0)).collect());
        columns.push(line.band.iter().map(|band| rounded(band.1)).collect());
    }
    (regular(&x), columns, is_step)
}

/// Keeps the last point at each x, which is the level after the step.
fn ends_of_steps(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for &point in points {
        match steps.last_mut() {
            Some(last) if last.0 == point.0 => *last = point,
            _ => steps.push(point),
        }
    }
    steps
}

/// Reduces a long series to the minimum and the maximum of each bin, in their order, at the start and the middle of
/// the bin.
fn extremes(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= 2 * BINS {
        return points.to_vec();
    }
    let bin = |i: usize| &points[i * points.len() / BINS..(i + 1) * points.len() / BINS];
    let pair = |bin: &[(f64, f64)]| {
        let by_y = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
        let (low, high) = (bin.iter().min_by(by_y)?, bin.iter().max_by(by_y)?);
        let (first, second) = if low.0 <= high.0 { (low, high) } else { (high, low) };
        Some([(bin[0].0, first.1), (bin[bin.len() / 2].0, second.1)])
    };
    (0..BINS).filter_map(|i| pair(bin(i))).flatten().collect()
}

/// Returns `[first, step, count]` for equidistant values, else `{"at": [...]}`.
fn regular(x: &[f64]) -> Value {
    /// Tolerance as a share of the step.
    const TOLERANCE: f64 = 1e-3;
    if let [first, .., last] = *x {
        let step = (last - first) / (x.len() - 1) as f64;
        let is_near = |(i, value): (usize, &f64)| (first + step * i as f64 - value).abs() <= TOLERANCE * step;
        if step > 0.0 && x.iter().enumerate().all(is_near) {
            return json!([first, step, x.len()]);
        }
    }
    json!({"at": x.iter().map(|&x| rounded(x)).collect::<Vec<_>>()})
}

/// Rounds a value to [`DIGITS`] significant digits. Whole numbers are not rounded.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() || value.fract() == 0.0 {
        return if value.is_finite() { value } else { 0.0 };
    }
    let digits = (DIGITS - 1 - value.abs().log10().floor() as i32).clamp(0, 12);
    let factor = 10f64.powi(digits);
    (value * factor).round() / factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_series_keep_their_peaks() {
        let mut points: Vec<(f64, f64)> = (0..1_000_000).map(|i| (f64::from(i), f64::from(i % 7))).collect();
        points[123_456].1 = 99.0;
        let thinned = extremes(&points);
        assert_eq!(thinned.len(), 2 * BINS);
        assert!(thinned.is_sorted_by(|a, b| a.0 < b.0));
        assert_eq!(thinned.iter().map(|p| p.1).fold(0.0, f64::max), 99.0);
        assert_eq!(extremes(&points[..10]), points[..10]);
    }

    #[test]
    fn equidistant_values_are_three_numbers() {
        assert_eq!(regular(&[1.0, 2.0, 3.0]), json!([1.0, 1.0, 3]));
        assert_eq!(regular(&[1.0, 2.0, 4.0]), json!({"at": [1.0, 2.0, 4.0]}));
        assert_eq!(regular(&[]), json!({"at": []}));
    }

    #[test]
    fn steps_have_one_point_per_x() {
        let line = Line { points: vec![(1.0, 0.0), (1.0, 5.0), (3.0, 5.0), (3.0, 9.0)], ..Line::default() };
        let (x, y, is_step) = columns(&line);
        assert_eq!((x, y, is_step), (json!([1.0, 2.0, 2]), vec![vec![5.0, 9.0]], true));
    }

    #[test]
    fn values_have_five_significant_digits() {
        assert_eq!(
            [123.456_789, 0.000_123_456_7, 1_234_567.0, 0.0].map(rounded),
            [123.46, 0.000_123_46, 1_234_567.0, 0.0]
        );
    }
}
