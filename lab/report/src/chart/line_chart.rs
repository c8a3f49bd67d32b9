//! The content of a line chart.

use super::scale::Axis;

/// A line chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text alternative.
    pub alt: String,
    pub x: Axis,
    pub y: Axis,
    /// Lines in the order of drawing, which is also that of the legend.
    pub lines: Vec<Line>,
    /// Vertical lines with labels.
    pub marks: Vec<Annotation>,
    /// Placement of the lines' names.
    pub names: LegendPlacement,
}

/// A line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub name: String,
    /// Value after the name in the legend, such as `peak 12 KB`.
    pub note: Option<String>,
    /// Index of the colour. A scheme has the same colour in all charts.
    pub colour: usize,
    /// Index of the dash pattern; 0 is solid.
    pub dash: usize,
    /// Points in units of the axes, with ascending x.
    pub points: Vec<(f64, f64)>,
    /// Confidence interval of each point, minimum and maximum y. If not empty, points are drawn as dots with bars.
    pub spread: Vec<(f64, f64)>,
    /// Shaded range around each point, minimum and maximum y; empty: none.
    pub band: Vec<(f64, f64)>,
}

/// A vertical line with a label at its top.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Position on the x axis.
    pub x: f64,
    pub label: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegendPlacement {
    /// In rows above the chart; on a page once for all charts of a section.
    Legend,
    /// Next to each line.
    Direct,
    /// No names; the caption describes the lines.
    None,
}
