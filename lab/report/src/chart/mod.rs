//! Line charts ([`Chart`]) and heat maps, drawn as SVG.
//!
//! The SVG uses CSS classes for colours, so that one style sheet provides the light theme, the dark theme and print. Charts are
//! drawn for two widths with the same font size.

mod color;
mod data;
mod draw;
mod heat;
mod labels;
mod overlap;
mod scale;
mod thin;

pub use color::PLOT_CSS;
pub use draw::sample_line;
pub use heat::HeatMap;
pub use scale::{Axis, Scale, Unit};

use maud::Markup;

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

/// Content of a figure.
#[derive(Clone, Debug)]
pub enum Picture {
    Chart(Chart),
    Heat(HeatMap),
}

impl Picture {
    /// Returns an element of a page that has [`PLOT_CSS`] and the legend.
    pub fn svg(&self, size: Size) -> Markup {
        match self {
            Picture::Chart(chart) => chart.svg(size),
            Picture::Heat(heat) => heat.svg(size),
        }
    }
    /// Returns a self-contained SVG file.
    pub fn svg_file(&self, size: Size) -> String {
        match self {
            Picture::Chart(chart) => chart.svg_file(size),
            Picture::Heat(heat) => heat.svg_file(size),
        }
    }
    /// Returns the line chart; `None` for heat maps.
    pub fn chart(&self) -> Option<&Chart> {
        match self {
            Picture::Chart(chart) => Some(chart),
            Picture::Heat(_) => None,
        }
    }
}

impl From<Chart> for Picture {
    fn from(chart: Chart) -> Picture {
        Picture::Chart(chart)
    }
}

impl From<HeatMap> for Picture {
    fn from(heat: HeatMap) -> Picture {
        Picture::Heat(heat)
    }
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

/// The width for which a chart is drawn. The font size is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The full width of a wide page.
    Wide,
    /// Half of the width, or the width of a phone.
    Narrow,
}

impl Size {
    /// Returns width and height in CSS pixels.
    pub fn pixels(self) -> (f64, f64) {
        match self {
            Size::Wide => (900.0, 310.0),
            Size::Narrow => (430.0, 280.0),
        }
    }
}
