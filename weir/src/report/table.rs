//! The table on the terminal: a row for each scheme.

use super::metrics::metrics;
use comfy_table::{Attribute, Cell, CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};
use weir_sim::results::Results;

/// Three rules and no walls.
const STYLE: TableStyle = TableStyle::new()
    .top_border(LineStyle::new('─', '─', '─', '─'))
    .header_separator(LineStyle::new('─', '─', '─', '─'))
    .bottom_border(LineStyle::new('─', '─', '─', '─'));

/// Draws the table. `styled` adds bold letters, for terminals.
pub fn table(results: &Results, styled: bool) -> String {
    let metrics = metrics(results);
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    if styled {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let bold = |cell: Cell, yes: bool| if yes && styled { cell.add_attribute(Attribute::Bold) } else { cell };
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);

    let heads = metrics.iter().map(|m| {
        // Two words in two lines, the unit below: the table stays narrow.
        let words = m.name.replace(' ', "\n");
        let unit = if m.unit.is_empty() { String::new() } else { format!("\n({})", m.unit) };
        bold(right(words + &unit), true)
    });
    table.set_header(std::iter::once(bold(Cell::new("scheme"), true)).chain(heads));
    for (index, scheme) in results.order.iter().enumerate() {
        let values = metrics.iter().map(|m| bold(right(m.text(index)), m.is_best(index)));
        table.add_row(std::iter::once(Cell::new(scheme)).chain(values));
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    table.trim_fmt()
}

/// A table of texts: heads with the side that their columns are set to.
pub fn columns(
    head: &[(String, CellAlignment)],
    rows: impl Iterator<Item = Vec<String>>,
    styled: bool,
) -> String {
    let mut table = Table::new();
    table.load_style(STYLE).set_content_arrangement(ContentArrangement::Disabled);
    if styled {
        table.enforce_styling();
    } else {
        table.force_no_tty();
    }
    let bold = |cell: Cell| if styled { cell.add_attribute(Attribute::Bold) } else { cell };
    table.set_header(head.iter().map(|(text, side)| bold(Cell::new(text).set_alignment(*side))));
    for row in rows {
        let cells = row.into_iter().zip(head).map(|(text, (_, side))| Cell::new(text).set_alignment(*side));
        table.add_row(cells);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table.trim_fmt()
}
