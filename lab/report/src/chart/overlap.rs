//! Draws lines that overlap over their whole length as alternating pieces, and notes them below the title.

use super::line_chart::{Chart, Line};
use super::scale::Axis;

/// Distance below which points overlap, as a share of the axis.
const OVERLAP_TOLERANCE: f64 = 0.004;
/// Length of a piece in CSS pixels.
const DASH_LENGTH: usize = 9;

impl Chart {
    /// Returns groups of two or more lines that overlap over their whole length, by index.
    pub(super) fn overlapping_lines(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for (index, line) in self.lines.iter().enumerate().filter(|(_, line)| !line.points.is_empty()) {
            match groups.iter_mut().find(|group| self.overlaps(&self.lines[group[0]], line)) {
                Some(group) => group.push(index),
                None => groups.push(vec![index]),
            }
        }
        groups.retain(|group| group.len() > 1);
        groups
    }

    /// Returns whether two lines have the same points, within the tolerance.
    fn overlaps(&self, one: &Line, other: &Line) -> bool {
        let is_near = |axis: &Axis, a: f64, b: f64| {
            a == b || (axis.position(a) - axis.position(b)).abs() < OVERLAP_TOLERANCE
        };
        one.points.len() == other.points.len()
            && one
                .points
                .iter()
                .zip(&other.points)
                .all(|(a, b)| is_near(&self.x, a.0, b.0) && is_near(&self.y, a.1, b.1))
    }

    /// Returns a sentence about overlapping lines; `None` if there are none.
    pub fn overlap_note(&self) -> Option<String> {
        let sentence = |group: &Vec<usize>| {
            let names: Vec<&str> = group.iter().map(|&index| self.lines[index].name.as_str()).collect();
            let points = |index: &usize| &self.lines[*index].points;
            let relation = if group.windows(2).all(|pair| points(&pair[0]) == points(&pair[1])) {
                "coincide"
            } else {
                "cannot be told apart at this scale"
            };
            match names.split_last() {
                Some((last, before)) => format!("{} and {last} {relation}.", before.join(", ")),
                None => String::new(),
            }
        };
        let sentences: Vec<String> = self.overlapping_lines().iter().map(sentence).collect();
        (!sentences.is_empty()).then(|| sentences.join(" "))
    }

    /// Returns the position of each line in its group.
    pub(super) fn group_positions(&self) -> Vec<GroupPosition> {
        let mut positions = vec![GroupPosition { index: 0, size: 1 }; self.lines.len()];
        for group in self.overlapping_lines() {
            for (index, &line) in group.iter().enumerate() {
                positions[line] = GroupPosition { index, size: group.len() };
            }
        }
        positions
    }
}

/// The position of a line in its group of overlapping lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GroupPosition {
    /// Index of the line in the group, from 0.
    pub index: usize,
    /// Number of lines in the group; 1 for a line that overlaps no other.
    pub size: usize,
}

/// Returns `stroke-dasharray` and `stroke-dashoffset` of a line in a group, so that the pieces of its lines alternate.
pub(super) fn pieces(GroupPosition { index, size }: GroupPosition) -> (String, String) {
    (format!("{DASH_LENGTH} {}", DASH_LENGTH * (size - 1)), format!("-{}", DASH_LENGTH * index))
}

#[cfg(test)]
mod tests {
    use super::super::line_chart::LegendPlacement;
    use super::super::svg::Size;
    use super::*;

    fn chart(ends: &[f64]) -> Chart {
        let line = |(i, &end): (usize, &f64)| Line {
            name: format!("scheme-{i}"),
            colour: i,
            dash: i,
            points: vec![(0.0, 1.0), (10.0, end)],
            ..Line::default()
        };
        Chart {
            alt: String::new(),
            x: Axis::exactly("x", 0.0, 10.0),
            y: Axis::exactly("y", 0.0, 10.0),
            lines: ends.iter().enumerate().map(line).collect(),
            marks: Vec::new(),
            names: LegendPlacement::Legend,
        }
    }

    #[test]
    fn overlapping_lines_are_named_and_drawn_as_dashes() {
        let chart = chart(&[5.0, 7.0, 5.0, 5.0]);
        assert_eq!(chart.overlap_note().unwrap(), "scheme-0, scheme-2 and scheme-3 coincide.");
        let positions = [(0, 3), (0, 1), (1, 3), (2, 3)].map(|(index, size)| GroupPosition { index, size });
        assert_eq!(chart.group_positions(), positions);
        let file = chart.svg_file(Size::Wide);
        for offset in ["-0", "-9", "-18"] {
            assert!(
                file.contains(&format!("stroke-dasharray=\"9 18\" stroke-dashoffset=\"{offset}\"")),
                "{file}"
            );
        }
        assert!(file.contains("coincide."));
    }

    #[test]
    fn lines_that_differ_at_one_point_do_not_overlap() {
        assert_eq!(chart(&[5.0, 7.0]).overlap_note(), None);
        let note = chart(&[5.0, 5.01]).overlap_note().unwrap();
        assert_eq!(note, "scheme-0 and scheme-1 cannot be told apart at this scale.");
    }
}
