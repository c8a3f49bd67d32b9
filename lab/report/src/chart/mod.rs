//! Line charts: what is to be seen ([`Chart`]), and how it becomes an SVG ([`Chart::svg`]).
//!
//! The SVG is written directly: classes instead of colours, so that one style sheet turns a chart
//! light, dark or fit for paper, and letters of the same size on a wide page and on a narrow one.

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

/// A picture of some lines over one another.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text alternative of the picture.
    pub alt: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// In the order in which they are drawn and listed.
    pub lines: Vec<Line>,
    /// Moments worth a vertical line.
    pub marks: Vec<Annotation>,
    /// Position of the lines' names.
    pub names: LegendPlacement,
}

/// Content of a figure.
#[derive(Clone, Debug)]
pub enum Picture {
    /// Lines over an axis.
    Chart(Chart),
    /// A map of shares.
    Heat(HeatMap),
}

impl Picture {
    /// As an element of a page that carries [`PLOT_CSS`] and the legend.
    pub fn svg(&self, size: Size) -> Markup {
        match self {
            Picture::Chart(chart) => chart.svg(size),
            Picture::Heat(heat) => heat.svg(size),
        }
    }
    /// As a file of its own.
    pub fn svg_file(&self, size: Size) -> String {
        match self {
            Picture::Chart(chart) => chart.svg_file(size),
            Picture::Heat(heat) => heat.svg_file(size),
        }
    }
    /// Returns the lines, if it has some.
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

/// One line of a chart.
#[derive(Clone, Debug, Default)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// A number worth reading beside the name in the legend, such as `peak 12 KB`.
    pub note: Option<String>,
    /// Index of the colour, which means the same scheme in every chart.
    pub colour: usize,
    /// Index of the dash pattern; 0 is solid.
    pub dash: usize,
    /// In units of the axes, x ascending.
    pub points: Vec<(f64, f64)>,
    /// Confidence interval of each point, lowest and highest y; empty if not shown. Points are then dots with bars.
    pub spread: Vec<(f64, f64)>,
    /// A shaded range about each point, lowest and highest y; empty if not shown.
    pub band: Vec<(f64, f64)>,
}

/// A vertical line with a word at its top.
#[derive(Clone, Debug)]
pub struct Annotation {
    /// Position in units of the x axis.
    pub x: f64,
    /// Text of the annotation.
    pub label: String,
}

/// Placement of the names of a chart's lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegendPlacement {
    /// In rows above the picture; on a page once for all charts of a section.
    Legend,
    /// Beside each line, where there is most room.
    Direct,
    /// Not at all: the caption says what they are.
    None,
}

/// For which width a chart is drawn. Letters have the same size in both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For the whole column of a wide page.
    Wide,
    /// For half of it, or for a telephone.
    Narrow,
}

impl Size {
    /// Width and height in CSS pixels.
    pub fn pixels(self) -> (f64, f64) {
        match self {
            Size::Wide => (900.0, 310.0),
            Size::Narrow => (430.0, 280.0),
        }
    }
}
