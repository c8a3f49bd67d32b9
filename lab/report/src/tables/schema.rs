//! The columns of the tables, for the files ([`csv`](super::csv), [`parquet`](super::parquet)) and for the Python
//! package.

use crate::format;
use std::io;
use weir_experiment::results::{FctStatistic, Results, SchemeTrace};
use weir_units::Time;

/// Kind of the values in a column. All but texts may be absent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Text with few distinct values.
    Text,
    /// A time, in microseconds in the files.
    Time,
    /// A whole number.
    Count,
    /// A number with decimals.
    Number,
    /// A number of any magnitude, written with all its digits.
    Exact,
}

/// A value in a row; `None` if the row has no value in this column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    Text(&'a str),
    Time(Option<Time>),
    Count(Option<u64>),
    Number(Option<f64>),
    Exact(Option<f64>),
}

/// Callback for each row of a table, with one cell per column.
pub type RowCallback<'a> = dyn FnMut(&[Cell<'_>]) -> io::Result<()> + 'a;

/// Definition of a table.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// File name without extension.
    pub name: &'static str,
    /// Name and kind of each column.
    pub columns: &'static [(&'static str, Kind)],
    rows: fn(&str, &SchemeTrace, &mut RowCallback<'_>) -> io::Result<()>,
}

impl Table {
    /// Calls `on_row` for all rows, scheme by scheme.
    ///
    /// # Errors
    ///
    /// The first error of `on_row`.
    pub fn rows(&self, results: &Results, on_row: &mut RowCallback<'_>) -> io::Result<()> {
        let traces = results.order.iter().filter_map(|label| Some((label, results.traces.get(label)?)));
        traces.into_iter().try_for_each(|(label, trace)| (self.rows)(label, trace, on_row))
    }
}

/// The tables of a run.
pub const ALL: [Table; 6] = [FLOWS, FCT, QUEUES, RATES, SENDERS, PAUSES];

/// One row for each flow that started.
pub const FLOWS: Table = Table {
    name: "flows",
    columns: &[
        ("scheme", Kind::Text),
        ("flow", Kind::Text),
        ("from", Kind::Text),
        ("to", Kind::Text),
        ("size_bytes", Kind::Count),
        ("start_us", Kind::Time),
        ("fct_us", Kind::Time),
        ("ideal_us", Kind::Time),
        ("slowdown", Kind::Number),
        ("acked_bytes", Kind::Count),
        ("retransmits", Kind::Count),
        ("workload", Kind::Text),
    ],
    rows: |scheme, trace, on_row| {
        trace.flows.iter().try_for_each(|flow| {
            on_row(&[
                Cell::Text(scheme),
                Cell::Text(&flow.name()),
                Cell::Text(&flow.from),
                Cell::Text(&flow.to),
                Cell::Count(flow.size.map(|size| size.get())),
                Cell::Time(Some(flow.start)),
                Cell::Time(flow.fct),
                Cell::Time(flow.ideal),
                Cell::Number(flow.slowdown()),
                Cell::Count(Some(flow.acked.get())),
                Cell::Count(Some(flow.retransmits)),
                Cell::Text(&flow.workload),
            ])
        })
    },
};

/// One row for each statistic of the completion times of a workload and size class.
pub const FCT: Table = Table {
    name: "fct",
    columns: &[
        ("scheme", Kind::Text),
        ("workload", Kind::Text),
        ("class", Kind::Text),
        ("over_bytes", Kind::Count),
        ("upto_bytes", Kind::Count),
        ("n", Kind::Count),
        ("unfinished", Kind::Count),
        ("quantity", Kind::Text),
        ("statistic", Kind::Text),
        ("value", Kind::Number),
        ("low", Kind::Number),
        ("high", Kind::Number),
    ],
    rows: |scheme, trace, on_row| {
        trace.fct.iter().try_for_each(|row| {
            let class = format::size_range(row.over_bytes, row.upto_bytes);
            on_row(&fct_cells(scheme, row, &class))
        })
    },
};

/// Returns a row of [`FCT`]. `class` is the name of the size class.
pub(crate) fn fct_cells<'a>(scheme: &'a str, row: &'a FctStatistic, class: &'a str) -> [Cell<'a>; 12] {
    [
        Cell::Text(scheme),
        Cell::Text(&row.workload),
        Cell::Text(class),
        Cell::Count(Some(row.over_bytes)),
        Cell::Count(row.upto_bytes),
        Cell::Count(Some(row.count)),
        Cell::Count(Some(row.unfinished)),
        Cell::Text(&row.quantity),
        Cell::Text(&row.statistic),
        Cell::Number(row.value),
        Cell::Number(row.interval.map(|(low, _)| low)),
        Cell::Number(row.interval.map(|(_, high)| high)),
    ]
}

/// Queue and utilisation of each observed port at each sample.
pub const QUEUES: Table = Table {
    name: "queues",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("port", Kind::Text),
        ("towards", Kind::Text),
        ("queue_bytes", Kind::Count),
        ("utilisation", Kind::Number),
    ],
    rows: |scheme, trace, on_row| {
        trace.ports.iter().try_for_each(|port| {
            let mut samples = port.queue_bytes.iter().zip(&port.utilisation).enumerate();
            samples.try_for_each(|(index, (&bytes, &utilisation))| {
                on_row(&[
                    Cell::Text(scheme),
                    Cell::Time(Some(trace.sample_time(index))),
                    Cell::Text(&port.port),
                    Cell::Text(&port.towards),
                    Cell::Count(Some(bytes)),
                    Cell::Number(Some(utilisation)),
                ])
            })
        })
    },
};

/// Sending rate and goodput of each observed flow at each sample.
pub const RATES: Table = Table {
    name: "rates",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("flow", Kind::Text),
        ("rate_bps", Kind::Count),
        ("goodput_bps", Kind::Count),
    ],
    rows: |scheme, trace, on_row| {
        trace.rates.iter().try_for_each(|flow| {
            let mut samples = flow.rate.iter().zip(&flow.goodput).enumerate();
            samples.try_for_each(|(index, (rate, goodput))| {
                on_row(&[
                    Cell::Text(scheme),
                    Cell::Time(Some(trace.sample_time(index))),
                    Cell::Text(&flow.flow),
                    Cell::Count(Some(rate.as_bps())),
                    Cell::Count(Some(goodput.as_bps())),
                ])
            })
        })
    },
};

/// One row for each quantity of each observed flow's sender at each sample.
pub const SENDERS: Table = Table {
    name: "senders",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("flow", Kind::Text),
        ("quantity", Kind::Text),
        ("value", Kind::Exact),
    ],
    rows: |scheme, trace, on_row| {
        trace.senders.iter().try_for_each(|series| {
            series.values.iter().enumerate().try_for_each(|(index, value)| {
                on_row(&[
                    Cell::Text(scheme),
                    Cell::Time(Some(trace.sample_time(index))),
                    Cell::Text(&series.flow),
                    Cell::Text(&series.quantity),
                    Cell::Exact(*value),
                ])
            })
        })
    },
};

/// One row for each PFC pause or resume frame.
pub const PAUSES: Table = Table {
    name: "pauses",
    columns: &[
        ("scheme", Kind::Text),
        ("time_us", Kind::Time),
        ("switch", Kind::Text),
        ("port", Kind::Count),
        ("priority", Kind::Count),
        ("event", Kind::Text),
    ],
    rows: |scheme, trace, on_row| {
        trace.pauses.iter().try_for_each(|pause| {
            on_row(&[
                Cell::Text(scheme),
                Cell::Time(Some(pause.time)),
                Cell::Text(&pause.switch),
                Cell::Count(Some(pause.port.into())),
                Cell::Count(Some(pause.priority.into())),
                Cell::Text(if pause.is_pause { "pause" } else { "resume" }),
            ])
        })
    },
};

/// Returns a time in microseconds, equal to the parsed text of a CSV file.
pub fn us(time: Time) -> f64 {
    // Division rounds once; multiplication with the inexact 1e-6 would round twice.
    time.as_ps() as f64 / 1e6
}
