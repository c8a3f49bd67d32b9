//! The interactive part of a page: a plotting library, Weir's script, and the data of charts and flows.
//!
//! Without JavaScript the page shows static charts and tables. With JavaScript it draws the charts from the embedded
//! data.

mod data;
mod flows;

pub use data::{data, has_data};
pub use flows::section as flows;

use maud::{Markup, PreEscaped, html};

/// uPlot 1.6.32 from npm, <https://github.com/leeoniya/uPlot>, MIT licence.
const LIBRARY: &str = include_str!("uPlot.min.js");
const LIBRARY_CSS: &str = include_str!("uPlot.min.css");
const LICENCE: &str = include_str!("uPlot.LICENSE");
const SCRIPT: &str = include_str!("report.js");

/// Returns library and script, for the end of a page.
pub fn scripts() -> Markup {
    html! {
        style { (PreEscaped(LIBRARY_CSS)) }
        script { (PreEscaped(format!("/*\nuPlot is under this licence:\n\n{LICENCE}*/\n{LIBRARY}"))) }
        script { (PreEscaped(SCRIPT)) }
    }
}
