//! Line charts ([`Chart`]) and heat maps, drawn as SVG.
//!
//! The SVG uses CSS classes for colours, so that one style sheet provides the light theme, the dark theme and print.
//! Charts are drawn for two widths with the same font size.

mod color;
mod data;
mod draw;
mod heat;
mod labels;
mod line_chart;
mod overlap;
mod picture;
mod scale;
mod svg;
mod thin;

pub use color::PLOT_CSS;
pub use draw::sample_line;
pub use heat::{HeatCell, HeatMap};
pub use line_chart::{Annotation, Chart, LegendPlacement, Line};
pub use picture::Picture;
pub use scale::{Axis, Scale, Unit};
pub use svg::Size;
