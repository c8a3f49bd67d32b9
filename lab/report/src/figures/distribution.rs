//! Empirical distributions as step functions.

/// Number of steps that a chart can resolve along an axis.
const STEPS: f64 = 200.0;

/// Returns the distinct values of an ascending list, each with the number of smaller entries.
fn ranks(sorted: &[f64]) -> Vec<(f64, usize)> {
    let mut ranks: Vec<(f64, usize)> = Vec::new();
    for (i, &value) in sorted.iter().enumerate() {
        if ranks.last().is_none_or(|last| last.0 != value) {
            ranks.push((value, i));
        }
    }
    ranks
}

/// Returns the points of the cumulative distribution of an ascending list: the share in percent that is at most `x`.
/// Steps are vertical.
pub(super) fn at_most(sorted: &[f64]) -> Vec<(f64, f64)> {
    let ranks = ranks(sorted);
    let ends = ranks.iter().skip(1).map(|rank| rank.1).chain([sorted.len()]);
    let shares: Vec<(f64, f64)> = ranks
        .iter()
        .zip(ends)
        .map(|(rank, end)| (rank.0, 100.0 * end as f64 / sorted.len() as f64))
        .collect();
    let mut steps = Vec::new();
    let mut previous_share = 0.0;
    for (value, share) in visible_steps(&shares, |share| share) {
        steps.extend([(value, previous_share), (value, share)]);
        previous_share = share;
    }
    steps
}

/// Returns the points of the complementary distribution of an ascending list, for logarithmic axes: the share in
/// percent that is at least `x`, from `from` to the largest value. Empty if all values are zero.
pub(super) fn at_least(sorted: &[f64], from: f64) -> Vec<(f64, f64)> {
    let share = |rank: usize| 100.0 * (sorted.len() - rank) as f64 / sorted.len() as f64;
    let shares: Vec<(f64, f64)> = ranks(sorted)
        .into_iter()
        .filter(|(value, _)| *value > 0.0)
        .map(|(v, rank)| (v, share(rank)))
        .collect();
    let mut steps: Vec<(f64, f64)> = Vec::new();
    for (value, share) in visible_steps(&shares, f64::ln) {
        let previous_value = steps.last().map_or(from, |last| last.0);
        steps.extend([(previous_value, share), (value, share)]);
    }
    steps
}

/// Removes steps that are too close to the previous one to be visible. Values are on a logarithmic axis; `to_axis`
/// maps shares to their axis.
fn visible_steps(shares: &[(f64, f64)], to_axis: impl Fn(f64) -> f64) -> Vec<(f64, f64)> {
    let (Some(&first), Some(&last)) = (shares.first(), shares.last()) else { return Vec::new() };
    let x = |(value, _): (f64, f64)| value.max(f64::MIN_POSITIVE).ln();
    let y = |(_, share): (f64, f64)| to_axis(share);
    let (width, height) = (x(last) - x(first), (y(last) - y(first)).abs());
    let mut kept = vec![first];
    for &step in &shares[1..] {
        let previous = kept[kept.len() - 1];
        let is_apart =
            x(step) - x(previous) > width / STEPS || (y(step) - y(previous)).abs() > height / STEPS;
        if is_apart || step == last {
            kept.push(step);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_vertical_and_horizontal() {
        let steps = at_most(&[1.0, 2.0, 2.0, 4.0]);
        assert_eq!(steps, [(1.0, 0.0), (1.0, 25.0), (2.0, 25.0), (2.0, 75.0), (4.0, 75.0), (4.0, 100.0)]);
        let steps = at_least(&[0.0, 0.0, 2.0, 4.0], 1.0);
        assert_eq!(steps, [(1.0, 50.0), (2.0, 50.0), (2.0, 25.0), (4.0, 25.0)]);
        for steps in [at_most(&[1.0, 1.5, 1.5, 8.0]), at_least(&[0.0, 1.5, 1.5, 8.0], 1.0)] {
            assert!(
                steps.windows(2).all(|pair| pair[0].0 == pair[1].0 || pair[0].1 == pair[1].1),
                "{steps:?}"
            );
        }
        assert_eq!((at_most(&[]), at_least(&[0.0], 1.0)), (vec![], vec![]));
    }

    #[test]
    fn long_lists_keep_their_ends_and_their_tail() {
        let sorted: Vec<f64> = (1..=100_000).map(f64::from).collect();
        for steps in [at_most(&sorted), at_least(&sorted, 1.0)] {
            assert!(steps.len() < 2000, "{}", steps.len());
            assert_eq!((steps[0].0, steps[steps.len() - 1].0), (1.0, 100_000.0));
        }
        let tail = at_least(&sorted, 1.0).iter().filter(|step| step.1 < 0.1).count();
        assert!(tail > 50, "{tail} points show the last thousandth");
    }
}
