//! Tables on the terminal.

use super::metrics::{Metric, bottleneck, metrics_at};
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use std::ops::Range;
use weir_experiment::results::Results;

/// Three horizontal rules and no vertical ones.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// Draws the comparison of schemes: a row for each scheme if that fits `width` columns, else a row for each metric,
/// in several stacked tables if necessary. Queue and utilisation are those of the run's [`bottleneck`]. `styled` adds bold
/// for terminals.
pub fn table(results: &Results, styled: bool, width: Option<usize>) -> String {
    table_at(results, bottleneck(&results.summary), styled, width)
}

/// Like [`table`], but with queue and utilisation of the given port.
pub fn table_at(results: &Results, port: Option<&str>, styled: bool, width: Option<usize>) -> String {
    let metrics = metrics_at(&results.summary, &results.order, &vec![port; results.order.len()]);
    let metrics: Vec<Metric> = metrics.into_iter().map(Metric::readable).collect();
    let wide = by_scheme(results, &metrics, styled);
    let Some(width) = width.filter(|&width| columns_of(&wide) > width) else { return wide };
    stack_tables(results.order.len(), width, |schemes| by_metric(results, &metrics, schemes, styled))
}

/// Draws `count` items in stacked tables with as many items per table as fit, at least one.
fn stack_tables(count: usize, width: usize, draw: impl Fn(Range<usize>) -> String) -> String {
    let (mut tables, mut from) = (Vec::new(), 0);
    while from < count {
        let mut candidates = (from + 1..=count).rev().map(|to| (to, draw(from..to)));
        let largest = candidates.find(|(to, table)| *to == from + 1 || columns_of(table) <= width);
        let (to, table) = largest.unwrap_or((count, String::new()));
        tables.push(table);
        from = to;
    }
    tables.join("\n")
}

/// Returns the width of a text in columns, without escape sequences.
fn columns_of(text: &str) -> usize {
    let plain_len = |line: &str| {
        let mut parts = line.split('\u{1b}');
        let first = parts.next().map_or(0, |part| part.chars().count());
        first
            + parts
                .map(|part| part.split_once('m').map_or(0, |(_, rest)| rest.chars().count()))
                .sum::<usize>()
    };
    text.lines().map(plain_len).max().unwrap_or(0)
}

/// Returns a table without rows. `styled` allows escape sequences for bold text.
fn empty(styled: bool) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    if styled {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    table
}

fn right(text: String) -> Cell {
    Cell::new(text).set_alignment(CellAlignment::Right)
}

fn bold(cell: Cell, is_bold: bool) -> Cell {
    if is_bold { cell.add_attribute(Attribute::Bold) } else { cell }
}

fn by_scheme(results: &Results, metrics: &[Metric], styled: bool) -> String {
    let mut table = empty(styled);
    let heads = metrics.iter().map(|m| {
        // One word per line, and the unit below, to keep the table narrow.
        let words = m.definition.name.replace(' ', "\n");
        let unit = if m.unit.is_empty() { String::new() } else { format!("\n({})", m.unit) };
        bold(right(words + &unit), styled)
    });
    table.set_header(std::iter::once(bold(Cell::new("scheme"), styled)).chain(heads));
    for (index, scheme) in results.order.iter().enumerate() {
        let values = metrics.iter().map(|m| bold(right(m.text(index)), styled && m.is_best(index)));
        table.add_row(std::iter::once(Cell::new(scheme)).chain(values));
    }
    padded(table, 1)
}

fn by_metric(results: &Results, metrics: &[Metric], schemes: Range<usize>, styled: bool) -> String {
    let mut table = empty(styled);
    let heads = schemes.clone().map(|index| bold(right(results.order[index].clone()), styled));
    table.set_header(std::iter::once(Cell::new("")).chain(heads));
    for metric in metrics {
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" ({})", metric.unit) };
        let values =
            schemes.clone().map(|index| bold(right(metric.text(index)), styled && metric.is_best(index)));
        table.add_row(std::iter::once(Cell::new(format!("{}{unit}", metric.definition.name))).chain(values));
    }
    padded(table, 1)
}

/// Formats a table with this padding to the right of each column.
fn padded(mut table: Table, right: u16) -> String {
    for column in table.column_iter_mut() {
        column.set_padding((0, right));
    }
    table.trim_fmt()
}

/// Wraps the cells of a table that is wider than `width` columns.
pub fn fit(table: &mut Table, width: Option<usize>) {
    if let Some(width) = width.filter(|&width| columns_of(&table.trim_fmt()) > width) {
        table.set_content_arrangement(ContentArrangement::Dynamic);
        table.set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
}

/// Returns a table of texts. Each head has the alignment of its column.
pub fn columns(
    head: &[(String, CellAlignment)],
    rows: impl Iterator<Item = Vec<String>>,
    styled: bool,
    width: Option<usize>,
) -> String {
    let mut table = empty(styled);
    table.set_header(head.iter().map(|(text, side)| bold(Cell::new(text).set_alignment(*side), styled)));
    for row in rows {
        let cells = row.into_iter().zip(head).map(|(text, (_, side))| Cell::new(text).set_alignment(*side));
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    fit(&mut table, width);
    table.trim_fmt()
}

/// Like [`columns`], but in several stacked tables if it does not fit: either tables with some of the columns each, after
/// the first `keys` columns, or transposed ones with some of the rows each, whichever takes fewer lines.
pub fn transposable(
    head: &[(String, CellAlignment)],
    keys: usize,
    rows: &[Vec<String>],
    styled: bool,
    width: Option<usize>,
) -> String {
    let wide = columns(head, rows.iter().cloned(), styled, None);
    let Some(width) = width.filter(|&width| columns_of(&wide) > width) else { return wide };
    let by_column = stack_tables(head.len().saturating_sub(keys), width, |range| {
        let part = |row: &[String]| [&row[..keys], &row[keys + range.start..keys + range.end]].concat();
        let head = [&head[..keys], &head[keys + range.start..keys + range.end]].concat();
        columns(&head, rows.iter().map(|row| part(row)), styled, None)
    });
    let transposed = stack_tables(rows.len(), width, |range| {
        let mut table = empty(styled);
        for (column, (name, _)) in head.iter().enumerate() {
            let cells =
                rows[range.clone()].iter().map(|row| right(row.get(column).cloned().unwrap_or_default()));
            // A path may be broken after its dots.
            let line = std::iter::once(Cell::new(name.replace(".\n", ".").replace('\n', " "))).chain(cells);
            if column == 0 {
                table.set_header(line.map(|cell| bold(cell, styled)));
            } else {
                table.add_row(line);
            }
        }
        padded(table, 2)
    });
    // A single column may be wider than the terminal.
    let rank = |text: &String| (columns_of(text) > width, text.lines().count());
    [transposed, by_column].into_iter().min_by_key(rank).unwrap_or(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    #[test]
    fn tables_fit_narrow_terminals() {
        let results = fixtures::workload();
        for (width, tables) in [(60, 1), (40, 2), (30, 3)] {
            for styled in [false, true] {
                let text = table(&results, styled, Some(width));
                assert!(columns_of(&text) <= width, "{width}:\n{text}");
                assert_eq!(text.matches("peak queue (KB)").count(), tables, "{width}:\n{text}");
                let missing = results.order.iter().find(|scheme| !text.contains(&***scheme));
                assert_eq!(missing, None, "{text}");
            }
        }
        assert_eq!(table(&results, false, Some(200)), table(&results, false, None));
        let mut model = fixtures::dumbbell();
        let schemes = model.summary.schemes.values_mut();
        schemes.for_each(|scheme| scheme.first_slowdown_us = scheme.first_slowdown_us.map(|us| us * 1e4));
        let text = table(&model, false, Some(60));
        assert!(text.contains("first slowdown (s)") && text.contains("3.040"), "{text}");
        let head = ["claim", "paper"].map(|text| (text.to_owned(), CellAlignment::Left));
        let row =
            vec!["a claim of many words that is longer than the terminal".to_owned(), "12 us".to_owned()];
        let text = columns(&head, [row].into_iter(), false, Some(40));
        assert!(columns_of(&text) <= 40 && text.contains("12 us"), "{text}");
        let head = ["claim", "paper", "ours", "here"].map(|text| (text.to_owned(), CellAlignment::Left));
        let rows: Vec<Vec<String>> = (0..5).map(|n| vec![format!("{n} ± 0.125 us"); 4]).collect();
        let text = transposable(&head, 1, &rows, false, Some(40));
        assert!(columns_of(&text) <= 40 && text.matches("paper").count() == 3, "{text}");
        assert!((0..5).all(|n| text.contains(&format!("{n} ± 0.125 us"))), "no value is broken: {text}");
        assert_eq!(
            transposable(&head, 1, &rows, false, Some(80)),
            columns(&head, rows.into_iter(), false, None)
        );
    }

    #[test]
    fn wide_tables_have_the_layout_with_fewer_lines() {
        let head = |name: &str, count: usize| -> Vec<(String, CellAlignment)> {
            (0..count).map(|n| (format!("{name} {n}"), CellAlignment::Right)).collect()
        };
        // Many metrics of two schemes: one table with a line for each metric.
        let wide = head("fct.classes.3.slowdown.p99 (above 1 MB), metric", 30);
        let text = transposable(&wide, 1, &vec![vec!["12.5".to_owned(); 30]; 2], false, Some(100));
        assert!(columns_of(&text) <= 100 && text.matches("metric 29").count() == 1, "{text}");
        assert_eq!(text.lines().count(), 3 + 30, "{text}");
        // Few metrics of many points: tables with a line for each point, and the first column in each table.
        let many = vec![vec!["12.5 (1.0 to 190.8)".to_owned(); 6]; 60];
        let text = transposable(&head("metric", 6), 1, &many, false, Some(100));
        assert!(columns_of(&text) <= 100 && text.matches("metric 0 ").count() == 2, "{text}");
        assert_eq!(text.lines().count(), 2 * (4 + 60), "{text}");
    }

    #[test]
    fn the_terminal_table_reads_well() {
        insta::assert_snapshot!("dumbbell_table", table(&fixtures::dumbbell(), false, None));
        insta::assert_snapshot!("workload_table", table(&fixtures::workload(), false, None));
        assert!(table(&fixtures::dumbbell(), true, None).contains("\u{1b}["), "bold on a terminal");
        assert!(!table(&fixtures::dumbbell(), false, None).contains('\u{1b}'), "plain elsewhere");
    }
}
