//! Results as Arrow tables, which pandas, polars and pyarrow take without a copy.

use arrow_array::builder::{Float64Builder, StringDictionaryBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::sync::Arc;
use weir_experiment::results::{Results, SchemeTrace};
use weir_report::metrics::metrics;
use weir_report::sweep::table::Findings;
use weir_units::Time;

/// A table in Arrow's memory layout.
#[pyclass(frozen, module = "weir")]
pub struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// Hands the table on by the Arrow PyCapsule interface. There is one layout, so a requested schema is ignored, as
    /// the interface allows.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.0.clone())], self.0.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(reader)), c"arrow_array_stream")
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// Returns the table as a pandas DataFrame.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("pyarrow")?.call_method1("table", (slf,))?.call_method0("to_pandas")
    }

    /// Returns the table as a polars DataFrame.
    fn to_polars<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        slf.py().import("polars")?.call_method1("DataFrame", (slf,))
    }

    fn __repr__(&self) -> String {
        format!("<weir.Table: {} rows of {}>", self.0.num_rows(), self.columns().join(", "))
    }
}

/// A column that is being filled.
enum Column {
    Text(StringDictionaryBuilder<Int32Type>),
    Number(Float64Builder),
    Count(UInt64Builder),
}

impl Column {
    fn text() -> Column {
        Column::Text(StringDictionaryBuilder::new())
    }
    fn number() -> Column {
        Column::Number(Float64Builder::new())
    }
    fn count() -> Column {
        Column::Count(UInt64Builder::new())
    }
}

/// A table that is being filled, row by row and in each row from left to right.
struct Rows {
    columns: Vec<(String, Column)>,
    next: usize,
}

impl Rows {
    fn new(columns: impl IntoIterator<Item = (&'static str, Column)>) -> Rows {
        let columns = columns.into_iter().map(|(name, column)| (name.to_owned(), column));
        Rows { columns: columns.collect(), next: 0 }
    }

    fn column(&mut self) -> &mut Column {
        let index = self.next;
        self.next = (index + 1) % self.columns.len();
        &mut self.columns[index].1
    }

    fn text(&mut self, value: &str) -> &mut Rows {
        if let Column::Text(column) = self.column() {
            column.append_value(value);
        }
        self
    }

    fn number(&mut self, value: Option<f64>) -> &mut Rows {
        if let Column::Number(column) = self.column() {
            column.append_option(value);
        }
        self
    }

    fn time(&mut self, value: Option<Time>) -> &mut Rows {
        self.number(value.map(Time::as_us_f64))
    }

    fn count(&mut self, value: Option<u64>) -> &mut Rows {
        if let Column::Count(column) = self.column() {
            column.append_option(value);
        }
        self
    }

    fn table(self) -> Table {
        let columns = self.columns.into_iter().map(|(name, column)| {
            let array: ArrayRef = match column {
                Column::Text(mut column) => Arc::new(column.finish()),
                Column::Number(mut column) => Arc::new(column.finish()),
                Column::Count(mut column) => Arc::new(column.finish()),
            };
            (name, array)
        });
        Table(RecordBatch::try_from_iter(columns).expect("rows are filled from left to right"))
    }
}

fn traces(results: &Results) -> impl Iterator<Item = (&str, &SchemeTrace)> {
    results.order.iter().filter_map(|label| Some((label.as_str(), results.traces.get(label)?)))
}

/// Returns one row for each scheme: the metrics of the report, with their units as suffixes.
pub fn summary(results: &Results) -> Table {
    let metrics = metrics(results);
    let mut columns = vec![("scheme".to_owned(), Column::text())];
    columns.extend(metrics.iter().map(|it| (with_unit(it.name, it.unit), Column::number())));
    let mut rows = Rows { columns, next: 0 };
    for (index, scheme) in results.order.iter().enumerate() {
        rows.text(scheme);
        metrics.iter().for_each(|metric| {
            rows.number(metric.values[index]);
        });
    }
    rows.table()
}

/// Returns a column's name: `peak_queue_kb` for the peak queue in KB.
fn with_unit(name: &str, unit: &str) -> String {
    let unit = if unit == "%" { "percent" } else { unit };
    let words = name.split_whitespace().chain((!unit.is_empty()).then_some(unit));
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

/// Returns one row for each flow that started, with the columns of `flows.csv`.
pub fn flows(results: &Results) -> Table {
    let (text, number, count) = (Column::text, Column::number, Column::count);
    let mut rows = Rows::new([
        ("scheme", text()),
        ("flow", text()),
        ("from", text()),
        ("to", text()),
        ("size_bytes", count()),
        ("start_us", number()),
        ("fct_us", number()),
        ("ideal_us", number()),
        ("slowdown", number()),
        ("acked_bytes", count()),
        ("retransmits", count()),
    ]);
    for (scheme, trace) in traces(results) {
        for flow in &trace.flows {
            rows.text(scheme).text(&flow.name()).text(&flow.from).text(&flow.to);
            rows.count(flow.size.map(|size| size.get()));
            rows.time(Some(flow.start)).time(flow.fct).time(flow.ideal).number(flow.slowdown());
            rows.count(Some(flow.acked.get())).count(Some(flow.retransmits));
        }
    }
    rows.table()
}

/// Returns queue and utilisation of each observed port at each sample, with the columns of `queues.csv`.
pub fn queues(results: &Results) -> Table {
    let mut rows = Rows::new([
        ("scheme", Column::text()),
        ("time_us", Column::number()),
        ("port", Column::text()),
        ("towards", Column::text()),
        ("queue_bytes", Column::count()),
        ("utilisation", Column::number()),
    ]);
    for (scheme, trace) in traces(results) {
        for port in &trace.ports {
            for (index, (&bytes, &used)) in port.queue_bytes.iter().zip(&port.utilisation).enumerate() {
                rows.text(scheme).time(Some(trace.sample_time(index))).text(&port.port).text(&port.towards);
                rows.count(Some(bytes)).number(Some(used));
            }
        }
    }
    rows.table()
}

/// Returns pacing rate and goodput of each observed flow at each sample, with the columns of `rates.csv`.
pub fn rates(results: &Results) -> Table {
    let mut rows = Rows::new([
        ("scheme", Column::text()),
        ("time_us", Column::number()),
        ("flow", Column::text()),
        ("rate_bps", Column::count()),
        ("goodput_bps", Column::count()),
    ]);
    for (scheme, trace) in traces(results) {
        for flow in &trace.rates {
            for (index, (rate, goodput)) in flow.rate.iter().zip(&flow.goodput).enumerate() {
                rows.text(scheme).time(Some(trace.sample_time(index))).text(&flow.flow);
                rows.count(Some(rate.as_bps())).count(Some(goodput.as_bps()));
            }
        }
    }
    rows.table()
}

/// Returns each PFC frame, with the columns of `pauses.csv`.
pub fn pauses(results: &Results) -> Table {
    let mut rows = Rows::new([
        ("scheme", Column::text()),
        ("time_us", Column::number()),
        ("switch", Column::text()),
        ("port", Column::count()),
        ("priority", Column::count()),
        ("event", Column::text()),
    ]);
    for (scheme, trace) in traces(results) {
        for pause in &trace.pauses {
            rows.text(scheme).time(Some(pause.time)).text(&pause.switch);
            rows.count(Some(pause.port.into())).count(Some(pause.priority.into()));
            rows.text(if pause.on { "pause" } else { "resume" });
        }
    }
    rows.table()
}

/// Returns one row for each point of a sweep, scheme and metric: mean and half of the 95 % confidence interval. The
/// keys that were compared come first, as text.
pub fn sweep(findings: &Findings<'_>) -> Table {
    let keys = findings.keys().into_iter().map(|key| (key.to_owned(), Column::text()));
    let rest = [
        ("scheme", Column::text()),
        ("metric", Column::text()),
        ("unit", Column::text()),
        ("mean", Column::number()),
        ("ci95_half", Column::number()),
        ("runs", Column::count()),
    ];
    let columns = keys.chain(rest.map(|(name, column)| (name.to_owned(), column))).collect();
    let mut rows = Rows { columns, next: 0 };
    for row in &findings.rows {
        for (measure, estimate) in findings.measures.iter().zip(&row.estimates) {
            let Some(estimate) = estimate else { continue };
            row.point.iter().for_each(|value| {
                rows.text(value);
            });
            rows.text(Findings::subject(&row.subject)).text(&measure.name).text(measure.unit());
            rows.number(Some(estimate.mean)).number(estimate.half).count(Some(estimate.runs as u64));
        }
    }
    rows.table()
}
