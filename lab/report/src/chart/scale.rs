//! Axes: ranges, ticks and units.

/// Scale of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Linear,
    Log,
}

/// An axis of a chart.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Title with the unit, such as `queue (KB)`.
    pub title: String,
    pub scale: Scale,
    pub low: f64,
    pub high: f64,
    /// Formats the label of a tick.
    pub format: fn(f64) -> String,
    /// Labels at 0, 1, 2...; empty: numbers.
    pub names: Vec<String>,
    /// Values of ticks; empty: round values.
    pub tick_values: Vec<f64>,
    /// True for the time axis of a run, which is the same for all of its charts.
    pub is_time: bool,
}

/// Approximate number of ticks of a vertical axis.
pub(super) const VERTICAL_TICKS: usize = 4;

/// The unit of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unit {
    /// Name in the title.
    pub name: &'static str,
    /// Number of base units (bytes, picoseconds, bit/s) per unit.
    pub scale: f64,
}

impl Unit {
    /// Returns the unit for a maximum of `max` picoseconds.
    pub fn for_time(max: f64) -> Unit {
        pick(max, &[("s", 1e12), ("ms", 1e9), ("us", 1e6), ("ns", 1e3)])
    }
    /// Returns the unit for a maximum of `max` bytes.
    pub fn for_bytes(max: f64) -> Unit {
        pick(max, &[("GB", 1e9), ("MB", 1e6), ("KB", 1e3), ("B", 1.0)])
    }
    /// Returns the unit for a maximum of `max` bit/s.
    pub fn for_rate(max: f64) -> Unit {
        pick(max, &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("Kbit/s", 1e3), ("bit/s", 1.0)])
    }
}

/// Returns the largest unit that fits at least four times into `max`, so that ticks are whole numbers.
fn pick(max: f64, units: &[(&'static str, f64)]) -> Unit {
    const MIN_MULTIPLE: f64 = 4.0;
    let &(name, scale) = units
        .iter()
        .find(|(_, scale)| max >= MIN_MULTIPLE * scale)
        .unwrap_or_else(|| units.last().expect("a list of units is not empty"));
    Unit { name, scale }
}

impl Axis {
    fn new(title: String, scale: Scale, (low, high): (f64, f64)) -> Axis {
        Axis {
            title,
            scale,
            low,
            high,
            format: plain,
            names: Vec::new(),
            tick_values: Vec::new(),
            is_time: false,
        }
    }

    /// Returns a linear axis from 0 to a round number above `max`.
    pub fn from_zero(title: impl Into<String>, max: f64) -> Axis {
        // Leave a margin, because a line that touches the frame is hard to see.
        let max = if max > 0.0 { 1.04 * max } else { 1.0 };
        let above = |step: f64| (max / step).ceil() * step;
        // Rounding up may require a wider step, which may require a larger round end; hence twice.
        let high = above(step(above(step(max, VERTICAL_TICKS)), VERTICAL_TICKS));
        Axis::new(title.into(), Scale::Linear, (0.0, high))
    }

    /// Returns a linear axis over exactly this range.
    pub fn exactly(title: impl Into<String>, low: f64, high: f64) -> Axis {
        let high = if high > low { high } else { low + 1.0 };
        Axis::new(title.into(), Scale::Linear, (low, high))
    }

    /// Returns a time axis from 0 to `end`.
    pub fn time(title: impl Into<String>, end: f64) -> Axis {
        Axis { is_time: true, ..Axis::exactly(title, 0.0, end) }
    }

    /// Returns a logarithmic axis over this range. Both ends must be positive.
    pub fn log(title: impl Into<String>, low: f64, high: f64) -> Axis {
        let low = if low > 0.0 { low } else { 1.0 };
        let high = if high > low { high } else { low * 10.0 };
        Axis::new(title.into(), Scale::Log, (low, high))
    }

    /// Returns an axis with names at 0, 1, 2...
    pub fn named(title: impl Into<String>, names: Vec<String>) -> Axis {
        let high = names.len().max(1) as f64 - 0.5;
        Axis { names, ..Axis::exactly(title, -0.5, high) }
    }

    /// Returns the label of a tick.
    pub fn label(&self, value: f64) -> String {
        self.names.get(value.round() as usize).cloned().unwrap_or_else(|| (self.format)(value))
    }

    /// Returns the position of `value` on the axis, 0 to 1.
    pub fn position(&self, value: f64) -> f64 {
        let fraction = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log => (value.max(self.low) / self.low).ln() / (self.high / self.low).ln(),
        };
        fraction.clamp(0.0, 1.0)
    }

    /// Returns about `count` round values for ticks.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        match self.scale {
            _ if !self.names.is_empty() => {
                let stride = self.names.len().div_ceil(count.max(1));
                (0..self.names.len()).step_by(stride).map(|i| i as f64).collect()
            }
            _ if !self.tick_values.is_empty() => self.tick_values.clone(),
            Scale::Linear => {
                let step = step(self.high - self.low, count);
                let first = (self.low / step).ceil() as i64;
                let last = (self.high / step * (1.0 + 1e-9)).floor() as i64;
                (first..=last).map(|i| i as f64 * step).collect()
            }
            Scale::Log => {
                let decades = (self.high / self.low).log10();
                // Use as many round values per decade as fit.
                let digits = [&[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0][..], &[1.0, 2.0, 5.0]]
                    .into_iter()
                    .find(|digits| decades * digits.len() as f64 <= count as f64)
                    .unwrap_or(&[1.0]);
                let first = self.low.log10().floor() as i32;
                let last = self.high.log10().ceil() as i32;
                // With more decades than labels, use every n-th decade.
                let stride = (decades / count as f64).ceil().max(1.0) as usize;
                (first..=last)
                    .step_by(stride)
                    .flat_map(|decade| digits.iter().map(move |digit| digit * 10f64.powi(decade)))
                    .filter(|v| (self.low * 0.999..=self.high * 1.001).contains(v))
                    .collect()
            }
        }
    }
}

/// Returns a step of 1, 2 or 5 times a power of ten that divides `span` into about `count` parts.
fn step(span: f64, count: usize) -> f64 {
    let raw = span / count.max(1) as f64;
    let magnitude = 10f64.powf(raw.log10().floor());
    let nice = match raw / magnitude {
        r if r < 1.5 => 1.0,
        r if r < 3.5 => 2.0,
        r if r < 7.5 => 5.0,
        _ => 10.0,
    };
    nice * magnitude
}

/// Formats a number without superfluous digits.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        assert_eq!(
            Axis::exactly("t", 0.0, 1000.0).ticks(10),
            (0..=10).map(|i| f64::from(i) * 100.0).collect::<Vec<_>>()
        );
        assert_eq!(Axis::from_zero("q", 137.0).ticks(4), [0.0, 50.0, 100.0, 150.0]);
        assert_eq!(Axis::from_zero("q", 0.0).ticks(2), [0.0, 0.5, 1.0]);
        assert_eq!(Axis::log("size", 1e3, 1e6).ticks(5), [1e3, 1e4, 1e5, 1e6]);
        assert_eq!(Axis::log("slowdown", 1.0, 10.0).ticks(5), [1.0, 2.0, 5.0, 10.0]);
        assert_eq!(Axis::log("slowdown", 1.0, 2.5).ticks(5), [1.0, 1.5, 2.0]);
        assert_eq!(Axis::log("wide", 1.0, 1e8).ticks(4), [1.0, 1e2, 1e4, 1e6, 1e8]);
    }

    #[test]
    fn a_line_at_the_top_does_not_touch_the_frame() {
        let axis = Axis::from_zero("rate", 100.0);
        assert!(axis.high > 100.0 && axis.position(100.0) < 1.0);
    }

    #[test]
    fn the_upper_end_has_a_label() {
        for max in [0.7, 1.0, 2.4, 5.9, 6.1, 7.7, 9.7, 13.0, 122.0, 187.0, 3_036.0] {
            let axis = Axis::from_zero("q", max);
            assert_eq!(axis.ticks(VERTICAL_TICKS).last(), Some(&axis.high), "{max}");
        }
    }

    #[test]
    fn positions_are_fractions() {
        assert_eq!(Axis::exactly("t", 0.0, 4.0).position(1.0), 0.25);
        assert!((Axis::log("s", 1.0, 100.0).position(10.0) - 0.5).abs() < 1e-12);
        assert_eq!(Axis::log("s", 1.0, 100.0).position(0.0), 0.0);
    }

    #[test]
    fn units_are_chosen_for_short_numbers() {
        assert_eq!(Unit::for_time(1e9).name, "us");
        assert_eq!(Unit::for_time(5e9).name, "ms");
        assert_eq!(Unit::for_bytes(500_000.0).name, "KB");
        assert_eq!(Unit::for_bytes(0.0).name, "B");
        assert_eq!(Unit::for_rate(1e11).name, "Gbit/s");
        assert_eq!(plain(0.25), "0.25");
        assert_eq!(plain(300.0), "300");
    }
}
