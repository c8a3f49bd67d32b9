//! Parquet files, for pandas, polars and other tools. Numbers are not rounded.

use super::schema::{Cell, Kind, RowCallback, Table, us};
use crate::files;
use crate::format::micros;
use ::parquet::basic::{LogicalType, Repetition, Type as Physical};
use ::parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::writer::SerializedFileWriter;
use ::parquet::schema::types::Type;
use serde::de::DeserializeOwned;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use weir_experiment::results::Results;
use weir_units::Time;

/// Number of rows per row group; a group is held in memory.
const ROWS_PER_GROUP: usize = 1 << 17;

/// Writes a table.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(path: &Path, table: &Table, results: &Results) -> io::Result<()> {
    write_rows(files::create(path)?, table.name, table.columns, |on_row| table.rows(results, on_row))
}

/// Writes the rows with which `rows` calls back, as the table `name`.
///
/// # Errors
///
/// If the output cannot be written, or the error of `rows`.
pub fn write_rows<N: AsRef<str>, W: Write + Send>(
    output: W,
    name: &str,
    columns: &[(N, Kind)],
    rows: impl FnOnce(&mut RowCallback<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let schema = schema(name, columns)?;
    let mut writer = SerializedFileWriter::new(BufWriter::new(output), schema, Arc::default())?;
    let mut columns: Vec<Column> = columns.iter().map(|(_, kind)| Column::new(*kind)).collect();
    let mut rows_in_group = 0;
    rows(&mut |row| {
        row.iter().zip(&mut columns).for_each(|(cell, column)| column.push(cell));
        rows_in_group += 1;
        if rows_in_group == ROWS_PER_GROUP {
            rows_in_group = 0;
            write_group(&mut writer, &mut columns)?;
        }
        Ok(())
    })?;
    write_group(&mut writer, &mut columns)?;
    writer.close()?;
    Ok(())
}

fn schema<N: AsRef<str>>(name: &str, columns: &[(N, Kind)]) -> Result<Arc<Type>> {
    let column = |(name, kind): &(N, Kind)| {
        let (physical, logical, repetition) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
            Kind::Count => {
                let unsigned = LogicalType::integer(64, false);
                (Physical::INT64, Some(unsigned), Repetition::OPTIONAL)
            }
            Kind::Time | Kind::Number | Kind::Exact => (Physical::DOUBLE, None, Repetition::OPTIONAL),
        };
        let column = Type::primitive_type_builder(name.as_ref(), physical);
        Ok(Arc::new(column.with_logical_type(logical).with_repetition(repetition).build()?))
    };
    let columns = columns.iter().map(column).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder(name).with_fields(columns).build()?))
}

/// Writes the columns as a row group, and clears them.
fn write_group<W: Write + Send>(
    writer: &mut SerializedFileWriter<BufWriter<W>>,
    columns: &mut [Column],
) -> Result<()> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        let mut writer = group.next_column()?.expect("the schema has the columns of the table");
        match column {
            Column::Text(values) => writer.typed::<ByteArrayType>().write_batch(values, None, None)?,
            Column::Count { values, levels } => {
                writer.typed::<Int64Type>().write_batch(values, Some(levels), None)?
            }
            Column::Number { values, levels } => {
                writer.typed::<DoubleType>().write_batch(values, Some(levels), None)?
            }
        };
        writer.close()?;
        column.clear();
    }
    group.close()?;
    Ok(())
}

/// The values of a column, without absent ones, and the definition level of each row: 1 if it has a value, else 0. Texts
/// are never absent.
enum Column {
    Text(Vec<ByteArray>),
    Count { values: Vec<i64>, levels: Vec<i16> },
    Number { values: Vec<f64>, levels: Vec<i16> },
}

impl Column {
    fn new(kind: Kind) -> Column {
        match kind {
            Kind::Text => Column::Text(Vec::new()),
            Kind::Count => Column::Count { values: Vec::new(), levels: Vec::new() },
            Kind::Time | Kind::Number | Kind::Exact => {
                Column::Number { values: Vec::new(), levels: Vec::new() }
            }
        }
    }

    fn push(&mut self, cell: &Cell<'_>) {
        match (self, *cell) {
            (Column::Text(values), Cell::Text(text)) => {
                // Equal texts share one buffer.
                let same = values.last().filter(|last| last.data() == text.as_bytes()).cloned();
                values.push(same.unwrap_or_else(|| text.into()));
            }
            (Column::Count { values, levels }, Cell::Count(count)) => {
                // Parquet stores unsigned numbers as signed ones with the same bits; the logical type in the schema
                // says unsigned.
                values.extend(count.map(u64::cast_signed));
                levels.push(count.is_some().into());
            }
            (Column::Number { values, levels }, Cell::Number(number) | Cell::Exact(number)) => {
                values.extend(number);
                levels.push(number.is_some().into());
            }
            (Column::Number { values, levels }, Cell::Time(time)) => {
                values.extend(time.map(us));
                levels.push(time.is_some().into());
            }
            (_, cell) => unreachable!("{cell:?} does not match the kind of its column"),
        }
    }

    fn clear(&mut self) {
        match self {
            Column::Text(values) => values.clear(),
            Column::Count { values, levels } => {
                values.clear();
                levels.clear();
            }
            Column::Number { values, levels } => {
                values.clear();
                levels.clear();
            }
        }
    }
}

/// Reads a table and calls `on_row` for each row. Times are text, as in CSV.
///
/// # Errors
///
/// If the file is not a table with these columns, or `on_row` fails.
pub fn read<R: DeserializeOwned>(
    path: &Path,
    table: &Table,
    on_row: &mut dyn FnMut(R) -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    // The parquet crate panics on some damaged files, which can occur in runs without a manifest. Rows read before
    // are discarded by the caller.
    let read_rows = AssertUnwindSafe(|| rows(path, table, on_row));
    catch_unwind(read_rows).unwrap_or_else(|_| Err("not a Parquet file, or damaged".to_owned()))
}

fn rows<R: DeserializeOwned>(
    path: &Path,
    table: &Table,
    on_row: &mut dyn FnMut(R) -> std::result::Result<(), String>,
) -> std::result::Result<(), String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let reader = SerializedFileReader::new(file).map_err(|error| error.to_string())?;
    let rows = reader.get_row_iter(None).map_err(|error| error.to_string())?;
    for (index, row) in rows.enumerate() {
        let mut row = row.map_err(|error| error.to_string())?.to_json_value();
        for (name, _) in table.columns.iter().filter(|(_, kind)| *kind == Kind::Time) {
            if let Some(value) = row.get_mut(name) {
                *value = value.as_f64().map(time).map(micros).unwrap_or_default().into();
            }
        }
        let row = serde_json::from_value(row).map_err(|error| error.to_string());
        row.and_then(&mut *on_row).map_err(|reason| format!("row {}: {reason}", index + 1))?;
    }
    Ok(())
}

/// Converts microseconds to a time; the inverse of [`us`].
fn time(us: f64) -> Time {
    Time::from_ps((us * 1e6).round() as u64)
}
