//! The interactive part of a page: a plotting library, Weir's script, and the data of charts and flows.
//!
//! Without JavaScript the page shows static charts and tables. With JavaScript it draws the charts from the embedded
//! data.

mod flows;

pub use flows::section as flows;

use super::chart::Chart;
use maud::{Markup, PreEscaped, html};
use serde_json::Value;

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

/// Returns the data of a chart; empty if the script cannot draw it.
pub fn data(chart: &Chart) -> Markup {
    html! { @if let Some(data) = chart.data() { (json(&data)) } }
}

/// Returns whether a page has data for the script.
pub fn has_data(content: &Markup) -> bool {
    content.0.contains(DATA)
}

/// Attribute of elements with data.
const DATA: &str = "type=\"application/json\"";

/// Returns data as a script element that browsers do not execute. Text in the data cannot close the element.
fn json(data: &Value) -> Markup {
    let text = data.to_string().replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}
