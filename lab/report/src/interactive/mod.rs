//! The interactive part of a page: a plotting library, a script of our own, and the data of charts and flows.
//!
//! The page shows everything without a script. With one, it draws its charts from the data beside them.

mod flows;

pub use flows::section as flows;

use super::chart::Chart;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

/// uPlot 1.6.32 as npm has it, <https://github.com/leeoniya/uPlot>, under the MIT licence.
const LIBRARY: &str = include_str!("uPlot.min.js");
const LIBRARY_CSS: &str = include_str!("uPlot.min.css");
const LICENCE: &str = include_str!("uPlot.LICENSE");
const SCRIPT: &str = include_str!("report.js");

/// Library and script, for the end of a page.
pub fn scripts() -> Markup {
    html! {
        style { (PreEscaped(LIBRARY_CSS)) }
        script { (PreEscaped(format!("/*\nuPlot is under this licence:\n\n{LICENCE}*/\n{LIBRARY}"))) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// Returns the data of a chart, for its figure. Nothing if the picture is all.
pub fn data(chart: &Chart) -> Markup {
    html! { @if let Some(data) = chart.data() { (json(&data)) } }
}

/// Returns whether a script has something to draw in a page.
pub fn has_data(content: &Markup) -> bool {
    content.0.contains(DATA)
}

/// The attribute of elements with data.
const DATA: &str = "type=\"application/json\"";

/// Data as an element that nobody executes. No text in it can end the element.
fn json(data: &Value) -> Markup {
    let text = data.to_string().replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}
