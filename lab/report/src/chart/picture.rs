//! Pictures of figures: line charts and heat maps.

use super::heat::HeatMap;
use super::line_chart::Chart;
use super::svg::Size;
use maud::Markup;

/// Content of a figure.
#[derive(Clone, Debug)]
pub enum Picture {
    Chart(Chart),
    Heat(HeatMap),
}

impl Picture {
    /// Returns an element of a page that has [`PLOT_CSS`](super::PLOT_CSS) and the legend.
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
