//! Means and confidence intervals.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of intervals.
const CONFIDENCE: f64 = 0.95;

/// Estimate of a metric from several runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Number of runs with a value.
    pub runs: usize,
    pub mean: f64,
    /// Half the width of the 95 % confidence interval of the mean (Student's t), which is `mean ± half_width`; `None` for a
    /// single run.
    pub half_width: Option<f64>,
    /// The least and the largest value that the metric can have.
    pub domain: (f64, f64),
}

impl Estimate {
    /// Returns the mean of the values with its confidence interval; `None` if there are no values.
    #[expect(clippy::missing_panics_doc, reason = "two or more values have at least one degree of freedom")]
    pub fn from_values(values: &[f64]) -> Option<Estimate> {
        let runs = values.len();
        let count = runs as f64;
        if runs == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / count;
        let half_width = (runs > 1).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            let student = StudentsT::new(0.0, 1.0, count - 1.0).expect("at least one degree of freedom");
            student.inverse_cdf(0.5 + CONFIDENCE / 2.0) * (variance / count).sqrt()
        });
        Some(Estimate { runs, mean, half_width, domain: (f64::NEG_INFINITY, f64::INFINITY) })
    }

    /// Returns the ends of the confidence interval; both are the mean for a single run.
    ///
    /// The interval is cut off at the ends of the domain, where no mean can be, so that it covers the mean as often as
    /// before. A bootstrap would stay in the domain too, but covers the mean of three normally distributed values in
    /// about 75 % of all cases only.
    pub fn interval(&self) -> (f64, f64) {
        let half_width = self.half_width.unwrap_or(0.0);
        let (min, max) = self.domain;
        ((self.mean - half_width).max(min), (self.mean + half_width).min(max))
    }

    /// Returns whether an end of the confidence interval is an end of the domain.
    pub fn is_cut_off(&self) -> bool {
        let half_width = self.half_width.unwrap_or(0.0);
        self.interval() != (self.mean - half_width, self.mean + half_width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_uses_students_t() {
        assert_eq!(Estimate::from_values(&[]), None);
        let one = Estimate::from_values(&[3.0]).unwrap();
        assert_eq!((one.runs, one.mean, one.half_width), (1, 3.0, None));
        // t for four degrees of freedom is 2.776; the standard deviation of 1..5 is 1.5811.
        let five = Estimate::from_values(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((five.half_width.unwrap() - 2.776_445 * 1.581_139 / 5f64.sqrt()).abs() < 1e-5, "{five:?}");
        let two = Estimate::from_values(&[0.0, 2.0]).unwrap();
        assert!((two.half_width.unwrap() - 12.706_205).abs() < 1e-4, "{two:?}");
        assert_eq!(Estimate::from_values(&[7.0; 4]).unwrap().interval(), (7.0, 7.0));
    }
}
