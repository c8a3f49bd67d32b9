//! Results as Arrow tables, which pandas, polars and pyarrow can use without a copy.

use arrow_array::builder::{Float64Builder, StringDictionaryBuilder, UInt64Builder};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchIterator};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use std::io;
use std::sync::Arc;
use weir_experiment::results::Results;
use weir_report::metrics::metrics;
use weir_report::sweep::fct::SweepFct;
use weir_report::sweep::table::SweepResults;
use weir_report::tables::{self, Cell, Kind, RowCallback, us};

/// A table in Arrow's memory layout.
#[pyclass(frozen, module = "weir")]
pub struct Table(RecordBatch);

#[pymethods]
impl Table {
    /// Exports the table over the Arrow PyCapsule interface. The requested schema is ignored, as the interface permits.
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

/// Builder of a column.
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

/// Builder of a table. Values are appended row by row, and from left to right in each row.
struct TableBuilder {
    columns: Vec<(String, Column)>,
    /// Index of the column of the next value.
    next: usize,
}

impl TableBuilder {
    fn next_column(&mut self) -> &mut Column {
        let index = self.next;
        self.next = (index + 1) % self.columns.len();
        &mut self.columns[index].1
    }

    fn text(&mut self, value: &str) -> &mut TableBuilder {
        if let Column::Text(column) = self.next_column() {
            column.append_value(value);
        }
        self
    }

    fn number(&mut self, value: Option<f64>) -> &mut TableBuilder {
        if let Column::Number(column) = self.next_column() {
            column.append_option(value);
        }
        self
    }

    fn count(&mut self, value: Option<u64>) -> &mut TableBuilder {
        if let Column::Count(column) = self.next_column() {
            column.append_option(value);
        }
        self
    }

    fn finish(self) -> Table {
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

/// Returns one row for each scheme: the metrics of the report, with their units as suffixes.
pub(crate) fn summary(results: &Results) -> Table {
    let metrics = metrics(&results.summary, &results.order);
    let mut columns = vec![("scheme".to_owned(), Column::text())];
    columns.extend(
        metrics.iter().map(|metric| (with_unit(metric.definition.name, metric.unit), Column::number())),
    );
    let mut rows = TableBuilder { columns, next: 0 };
    for (index, scheme) in results.order.iter().enumerate() {
        rows.text(scheme);
        metrics.iter().for_each(|metric| {
            rows.number(metric.values[index]);
        });
    }
    rows.finish()
}

/// Returns a column's name: `peak_queue_kb` for the peak queue in KB.
fn with_unit(name: &str, unit: &str) -> String {
    let unit = if unit == "%" { "percent" } else { unit };
    let words = name.split_whitespace().chain((!unit.is_empty()).then_some(unit));
    words.map(str::to_lowercase).collect::<Vec<_>>().join("_")
}

/// Returns a table with the columns of the table file of a run.
pub(crate) fn run_table(table: &tables::Table, results: &Results) -> Table {
    from_rows(table.columns, |on_row| table.rows(results, on_row)).expect("the callback returns no error")
}

/// Returns the completion times of all runs of a sweep.
pub(crate) fn sweep_fct(fct: &SweepFct<'_>) -> io::Result<Table> {
    from_rows(&fct.columns(), |on_row| fct.rows(on_row))
}

/// Returns a table with the rows with which `rows` calls back.
fn from_rows<N: AsRef<str>>(
    columns: &[(N, Kind)],
    rows: impl FnOnce(&mut RowCallback<'_>) -> io::Result<()>,
) -> io::Result<Table> {
    let column = |(name, kind): &(N, Kind)| {
        let column = match kind {
            Kind::Text => Column::text(),
            Kind::Time | Kind::Number | Kind::Exact => Column::number(),
            Kind::Count => Column::count(),
        };
        (name.as_ref().to_owned(), column)
    };
    let mut table = TableBuilder { columns: columns.iter().map(column).collect(), next: 0 };
    rows(&mut |row| {
        row.iter().for_each(|cell| {
            match *cell {
                Cell::Text(text) => table.text(text),
                Cell::Time(time) => table.number(time.map(us)),
                Cell::Count(count) => table.count(count),
                Cell::Number(number) | Cell::Exact(number) => table.number(number),
            };
        });
        Ok(())
    })?;
    Ok(table.finish())
}

/// Returns one row for each point of a sweep, scheme and metric: mean and half the width of the 95 % confidence
/// interval. The first columns are the compared keys, as text.
pub(crate) fn sweep(results: &SweepResults<'_>) -> Table {
    let keys = results.keys().into_iter().map(|key| (key.to_owned(), Column::text()));
    let rest = [
        ("scheme", Column::text()),
        ("metric", Column::text()),
        ("unit", Column::text()),
        ("mean", Column::number()),
        ("ci95_half", Column::number()),
        ("runs", Column::count()),
        ("ci95_low", Column::number()),
        ("ci95_high", Column::number()),
    ];
    let columns = keys.chain(rest.map(|(name, column)| (name.to_owned(), column))).collect();
    let mut rows = TableBuilder { columns, next: 0 };
    for row in &results.rows {
        for (measure, estimate) in results.estimates(row) {
            row.point.iter().for_each(|value| {
                rows.text(value);
            });
            rows.text(SweepResults::subject(&row.subject)).text(&measure.name).text(measure.unit());
            let half_width = estimate.and_then(|it| it.half_width);
            let count = estimate.map_or(0, |it| it.runs as u64);
            rows.number(estimate.map(|it| it.mean)).number(half_width).count(Some(count));
            let interval = estimate.filter(|it| it.half_width.is_some()).map(|it| it.interval());
            rows.number(interval.map(|(low, _)| low)).number(interval.map(|(_, high)| high));
        }
    }
    rows.finish()
}
