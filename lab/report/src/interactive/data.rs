//! Data for the script of a page, in elements that browsers do not execute.

use maud::{Markup, PreEscaped, html};
use serde_json::Value;

use crate::chart::Chart;

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
pub(super) fn json(data: &Value) -> Markup {
    let text = data.to_string().replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}
