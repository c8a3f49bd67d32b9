//! CSV files. Times are exact to the picosecond, other numbers have four decimals.

use super::{Cell, Table};
use crate::files;
use crate::format::micros;
use ::csv::{Reader, Writer};
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::{io, path::Path};
use weir_experiment::results::Results;

/// Writes a table.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write(path: &Path, table: &Table, results: &Results) -> io::Result<()> {
    let mut writer = Writer::from_writer(files::create(path)?);
    writer.write_record(table.columns.iter().map(|(name, _)| name))?;
    table.rows(results, &mut |row| {
        row.iter().try_for_each(|cell| writer.write_field(text(cell).as_bytes()))?;
        Ok(writer.write_record(None::<&[u8]>)?)
    })?;
    writer.flush()
}

fn text<'a>(cell: &Cell<'a>) -> Cow<'a, str> {
    match *cell {
        Cell::Text(text) => text.into(),
        Cell::Time(Some(time)) => micros(time).into(),
        Cell::Count(Some(count)) => count.to_string().into(),
        Cell::Number(Some(number)) => format!("{number:.4}").into(),
        Cell::Time(None) | Cell::Count(None) | Cell::Number(None) => "".into(),
    }
}

/// Reads a table row by row.
///
/// # Errors
///
/// If the file is not such a table, or `take` refuses a row.
pub fn read<R: DeserializeOwned>(
    path: &Path,
    take: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = Reader::from_path(path).map_err(|error| error.to_string())?;
    for (line, row) in reader.deserialize().enumerate() {
        let row = row.map_err(|error| error.to_string())?;
        take(row).map_err(|reason| format!("line {}: {reason}", line + 2))?;
    }
    Ok(())
}
