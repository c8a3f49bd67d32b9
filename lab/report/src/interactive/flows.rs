//! The interactive table of flows.

use super::data::json;
use crate::format;
use crate::names::file_name;
use maud::{Markup, html};
use serde_json::json;
use weir_experiment::results::{FlowRecord, Results};

/// Maximum number of flows on the page; the table file of flows has all.
const MAX_FLOWS: usize = 5000;
/// Maximum number of rows without JavaScript.
const MAX_ROWS: usize = 50;
/// A column of the table.
struct Column {
    head: &'static str,
    /// Unit; may be empty.
    unit: &'static str,
    is_numeric: bool,
}

const COLUMNS: [Column; 7] = [
    Column { head: "flow", unit: "", is_numeric: false },
    Column { head: "scheme", unit: "", is_numeric: false },
    Column { head: "size", unit: "B", is_numeric: true },
    Column { head: "start", unit: "us", is_numeric: true },
    Column { head: "completion", unit: "us", is_numeric: true },
    Column { head: "slowdown", unit: "", is_numeric: true },
    Column { head: "retransmits", unit: "", is_numeric: true },
];

/// A flow in the run of a scheme.
struct Row<'a> {
    scheme: &'a str,
    flow: &'a FlowRecord,
    /// True if the page has a chart of the flow's rate.
    has_rate: bool,
}

impl Row<'_> {
    /// Returns the values of the columns; numeric values as JSON numbers.
    fn values(&self) -> [serde_json::Value; 7] {
        let us = |time: weir_units::Time| json!((time.as_us_f64() * 1e3).round() / 1e3);
        let flow = self.flow;
        [
            json!(format::flow(&flow.name())),
            json!(self.scheme),
            json!(flow.size.map(weir_units::Bytes::get)),
            us(flow.start),
            flow.fct.map_or(json!(null), us),
            json!(flow.slowdown().map(|slowdown| (slowdown * 1e3).round() / 1e3)),
            json!(flow.retransmits),
        ]
    }
}

/// Returns the flows in descending order of slowdown. The script sorts and filters them.
pub fn section(results: &Results) -> Markup {
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (scheme, trace) in results.order.iter().filter_map(|label| Some((label, results.traces.get(label)?)))
    {
        let observed: std::collections::BTreeSet<&str> = trace.rates.iter().map(|rate| &*rate.flow).collect();
        rows.extend(trace.flows.iter().map(|flow| Row {
            scheme,
            flow,
            has_rate: !observed.is_empty() && observed.contains(&*flow.name()),
        }));
    }
    let flow_count = rows.len();
    // Unfinished flows have no slowdown and are listed first.
    let sort_key = |row: &Row<'_>| match (row.flow.size, row.flow.slowdown()) {
        (Some(_), None) => f64::INFINITY,
        (_, slowdown) => slowdown.unwrap_or(0.0),
    };
    rows.sort_by(|a, b| sort_key(b).total_cmp(&sort_key(a)));
    rows.truncate(MAX_FLOWS);
    let data = json!({
        "numbers": COLUMNS.map(|column| column.is_numeric),
        "rows": rows.iter().map(Row::values).collect::<Vec<_>>(),
        "rates": rows.iter().map(|row| u8::from(row.has_rate)).collect::<Vec<_>>(),
        "charts": results.order.iter().map(|scheme| (scheme.clone(), format!("rates-{}", file_name(scheme)))).collect::<std::collections::BTreeMap<_, _>>(),
        "shown": MAX_ROWS,
    });
    html! {
        @if !rows.is_empty() {
            section.flows-section {
                h2 { "Flows" }
                details {
                    summary {
                        @if rows.len() < flow_count { "The " (format::count(rows.len() as u64)) " slowest of " }
                        (format::count(flow_count as u64)) " flows, the slowest first"
                    }
                    div.scroll {
                        table.flows {
                            thead { tr { @for Column { head, unit, .. } in COLUMNS {
                                th scope="col" { (head) @if !unit.is_empty() { " " span.unit { (unit) } } }
                            } } }
                            tbody { @for row in rows.iter().take(MAX_ROWS) { tr { @for value in row.values() { td { (text(&value)) } } } } }
                        }
                    }
                    @if rows.len() > MAX_ROWS {
                        p.note.more { "The first " (MAX_ROWS) "; the run's table of flows has all." }
                    }
                    (json(&data))
                }
            }
        }
    }
}

fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Null => "-".to_owned(),
        serde_json::Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}
