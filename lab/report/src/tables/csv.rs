//! CSV files. Times and quantities of senders are exact; other numbers have four decimals.

use super::schema::{Cell, Kind, RowCallback, Table};
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
    write_rows(files::create(path)?, table.columns, |on_row| table.rows(results, on_row))
}

/// Writes the rows with which `rows` calls back.
///
/// # Errors
///
/// If the output cannot be written, or the error of `rows`.
pub fn write_rows<N: AsRef<str>>(
    output: impl io::Write,
    columns: &[(N, Kind)],
    rows: impl FnOnce(&mut RowCallback<'_>) -> io::Result<()>,
) -> io::Result<()> {
    let mut writer = Writer::from_writer(output);
    writer.write_record(columns.iter().map(|(name, _)| escape_formula(name.as_ref()).into_owned()))?;
    rows(&mut |row| {
        row.iter().try_for_each(|cell| writer.write_field(text(cell).as_bytes()))?;
        Ok(writer.write_record(None::<&[u8]>)?)
    })?;
    writer.flush()
}

fn text<'a>(cell: &Cell<'a>) -> Cow<'a, str> {
    match *cell {
        Cell::Text(text) => escape_formula(text),
        Cell::Time(Some(time)) => micros(time).into(),
        Cell::Count(Some(count)) => count.to_string().into(),
        Cell::Number(Some(number)) => format!("{number:.4}").into(),
        Cell::Exact(Some(number)) => number.to_string().into(),
        Cell::Time(None) | Cell::Count(None) | Cell::Number(None) | Cell::Exact(None) => "".into(),
    }
}

/// Reads a table and calls `on_row` for each row.
///
/// # Errors
///
/// If the file is not a table with these columns, or `on_row` fails.
pub fn read<R: DeserializeOwned>(
    path: &Path,
    on_row: &mut dyn FnMut(R) -> Result<(), String>,
) -> Result<(), String> {
    let to_text = |error: ::csv::Error| error.to_string();
    let mut reader = Reader::from_path(path).map_err(to_text)?;
    let headers = reader.headers().map_err(to_text)?.clone();
    for (line, record) in reader.records().enumerate() {
        let mut record = record.map_err(to_text)?;
        if record.iter().any(|field| field.starts_with('\'')) {
            let position = record.position().cloned();
            record = record.iter().map(unescape_formula).collect();
            record.set_position(position);
        }
        let row = record.deserialize(Some(&headers)).map_err(to_text)?;
        on_row(row).map_err(|reason| format!("line {}: {reason}", line + 2))?;
    }
    Ok(())
}

/// Escapes a text of a user, so that spreadsheets do not evaluate it as a formula: adds an apostrophe in front of
/// texts that look like a formula. Numbers are unchanged.
pub fn escape_formula(text: &str) -> Cow<'_, str> {
    if is_formula(text) { format!("'{text}").into() } else { text.into() }
}

/// Reverses [`escape_formula`].
fn unescape_formula(field: &str) -> &str {
    field.strip_prefix('\'').filter(|text| is_formula(text)).unwrap_or(field)
}

/// The characters are from OWASP's page "CSV Injection". Leading apostrophes are ignored, so that `'=1` is escaped as
/// well and the escaping can be reversed.
fn is_formula(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(['=', '+', '-', '@', '\t', '\r'])
        && !text.parse::<f64>().is_ok_and(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_are_escaped_and_numbers_are_not() {
        for text in ["=1+1", "+x", "-5ms", "@sum(a1)", "-inf", "\t=1", "'=1", "''@x"] {
            assert_eq!(escape_formula(text), format!("'{text}"));
        }
        for text in ["", "fncc", "a=b", "-5", "+1.5e-3", "'", "'quoted'", "'x", "10.0.1.1"] {
            assert_eq!(escape_formula(text), text);
        }
        for text in ["=1+1", "'=1", "''=1", "-5", "'-5", "'x", "'"] {
            assert_eq!(unescape_formula(&escape_formula(text)), text);
        }
    }
}
