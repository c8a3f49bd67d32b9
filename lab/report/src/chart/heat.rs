//! Heat maps: a cell for each port, whose shade shows its load. All lengths are in CSS pixels.

use super::color::{PLOT_CSS, PlotColor};
use super::labels;
use super::svg::{Size, px, text};
use maud::{Markup, PreEscaped, html};
use std::fmt::Write;

/// Number of shades, each of which is one SVG path.
const LEVELS: usize = 20;
/// Opacity of a share of zero, so that the cell is visible.
const MIN_OPACITY: f64 = 0.06;
/// Height of a line of text.
const LINE_HEIGHT: f64 = 18.0;
const GAP: f64 = 6.0;
/// Maximum height of a cell.
const MAX_CELL_HEIGHT: f64 = 20.0;
const MIN_CELL_HEIGHT: f64 = 9.0;
/// Maximum width of a cell.
const MAX_CELL_WIDTH: f64 = 44.0;
/// Minimum width of cells that are separated by gaps.
const MIN_GAP_CELL_WIDTH: f64 = 5.0;

/// A heat map of shares (0 to 1).
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// Text alternative.
    pub alt: String,
    /// Text above the map, such as mean and maximum.
    pub note: String,
    pub x_title: String,
    pub y_title: String,
    pub columns: Vec<String>,
    pub rows: Vec<String>,
    /// Cells without an entry are blank.
    pub cells: Vec<HeatCell>,
}

/// A cell of a heat map.
#[derive(Clone, Copy, Debug)]
pub struct HeatCell {
    /// Index in [`HeatMap::columns`].
    pub column: usize,
    /// Index in [`HeatMap::rows`].
    pub row: usize,
    /// Value, 0 to 1.
    pub share: f64,
}

impl HeatMap {
    /// Returns the map as an element of a page that has [`PLOT_CSS`].
    pub fn svg(&self, size: Size) -> Markup {
        self.draw(size, None)
    }

    /// Returns the map as a self-contained SVG file.
    pub fn svg_file(&self, size: Size) -> String {
        let style = html! { style { (PreEscaped(PLOT_CSS)) } };
        let svg = self.draw(size, Some(style)).into_string();
        format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{svg}\n")
    }

    fn draw(&self, size: Size, style: Option<Markup>) -> Markup {
        let (width, _) = size.pixels();
        let widest =
            self.rows.iter().map(|name| labels::width(name)).fold(labels::width(&self.y_title), f64::max);
        // Above the map: the note and the key of the shades.
        let (left, top) = (widest + 2.0 * GAP, 2.0 * LINE_HEIGHT + GAP);
        let cell_width = ((width - left - GAP) / self.columns.len().max(1) as f64).min(MAX_CELL_WIDTH);
        let cell_height = (cell_width * 0.75).clamp(MIN_CELL_HEIGHT, MAX_CELL_HEIGHT);
        let right = left + cell_width * self.columns.len() as f64;
        let bottom = top + cell_height * self.rows.len() as f64;
        let height = bottom + 2.0 * LINE_HEIGHT + GAP;
        html! {
            svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {} {}", px(width), px(height)))
                width=(px(width)) height=(px(height)) font-family="sans-serif" font-size="12" role="img" aria-label=(self.alt) {
                @if let Some(style) = style { (style) }
                rect class="paper" width=(px(width)) height=(px(height)) fill=(PlotColor::Paper.light()) {}
                (self.key())
                @for (level, path) in self.paths((left, top), (cell_width, cell_height)).iter().enumerate().filter(|(_, path)| !path.is_empty()) {
                    path class=(PlotColor::Name(0).class()) fill=(PlotColor::Name(0).light()) fill-opacity=(opacity(level)) d=(path) {}
                }
                @for (row, name) in every_nth(&self.rows, cell_height, MIN_CELL_HEIGHT) {
                    (text((left - GAP, top + (row as f64 + 0.5) * cell_height + 4.0), "end", PlotColor::Faint, name))
                }
                @let widest_column = self.columns.iter().map(|name| labels::width(name)).fold(0.0, f64::max);
                @for (column, name) in every_nth(&self.columns, cell_width, widest_column + GAP) {
                    (text((left + (column as f64 + 0.5) * cell_width, bottom + LINE_HEIGHT - 4.0), "middle", PlotColor::Faint, name))
                }
                (text((right.max(left + labels::width(&self.x_title)), bottom + 2.0 * LINE_HEIGHT), "end", PlotColor::Text, &self.x_title))
                (text((left - GAP, bottom + LINE_HEIGHT - 4.0), "end", PlotColor::Text, &self.y_title))
            }
        }
    }

    /// Returns the key of the shades, and the note.
    fn key(&self) -> Markup {
        const SHADES: [f64; 5] = [0.0, 0.25, 0.5, 0.75, 1.0];
        /// Width of an entry of the key.
        const ENTRY_WIDTH: f64 = 50.0;
        html! {
            (text((0.0, 12.0), "start", PlotColor::Faint, &self.note))
            @for (i, share) in SHADES.iter().enumerate() {
                @let x = i as f64 * ENTRY_WIDTH;
                rect class=(PlotColor::Name(0).class()) fill=(PlotColor::Name(0).light()) fill-opacity=(opacity(level(*share)))
                    x=(px(x)) y=(LINE_HEIGHT) width="12" height="12" {}
                (text((x + 16.0, LINE_HEIGHT + 10.0), "start", PlotColor::Faint, &format!("{:.0}%", 100.0 * share)))
            }
        }
    }

    /// Returns the cells of each shade as one path.
    fn paths(&self, (left, top): (f64, f64), (cell_width, cell_height): (f64, f64)) -> Vec<String> {
        let gap = if cell_width >= MIN_GAP_CELL_WIDTH { 1.0 } else { 0.0 };
        let mut paths = vec![String::new(); LEVELS + 1];
        for &HeatCell { column, row, share } in &self.cells {
            let (x, y) = (left + column as f64 * cell_width, top + row as f64 * cell_height);
            let (w, h) = (px(cell_width - gap), px(cell_height - 1.0));
            write!(paths[level(share)], "M{} {}h{w}v{h}h-{w}z", px(x), px(y))
                .expect("writing to a String does not fail");
        }
        paths
    }
}

/// Returns the index of the shade, from 0 to [`LEVELS`].
fn level(share: f64) -> usize {
    (share.clamp(0.0, 1.0) * LEVELS as f64).round() as usize
}

fn opacity(level: usize) -> String {
    format!("{:.2}", MIN_OPACITY + (1.0 - MIN_OPACITY) * level as f64 / LEVELS as f64)
}

/// Returns every n-th name, so that names fit. `each` is the size of a cell, `min` the size that a name needs.
fn every_nth(names: &[String], each: f64, min: f64) -> impl Iterator<Item = (usize, &String)> {
    let stride = (min / each.max(0.1)).ceil().max(1.0) as usize;
    names.iter().enumerate().step_by(stride)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(columns: usize) -> HeatMap {
        let cells =
            (0..columns).flat_map(|column| (0..4).map(move |row| (column, row))).map(|(column, row)| {
                HeatCell { column, row, share: (column * 4 + row) as f64 / (4.0 * columns as f64) }
            });
        HeatMap {
            alt: "load".into(),
            note: "busiest <s1:1>".into(),
            x_title: "switch".into(),
            y_title: "port".into(),
            columns: (1..=columns).map(|i| format!("s{i}")).collect(),
            rows: (1..=4).map(|i| i.to_string()).collect(),
            cells: cells.collect(),
        }
    }

    #[test]
    fn is_well_formed_and_inside_the_picture_for_any_size() {
        for columns in [1, 5, 80, 320] {
            for size in [Size::Wide, Size::Narrow] {
                let file = heat(columns).svg_file(size);
                let tree = roxmltree::Document::parse(&file).unwrap();
                let squares: usize =
                    tree.descendants().filter_map(|n| n.attribute("d")).map(|d| d.matches('M').count()).sum();
                assert_eq!(squares, 4 * columns);
                assert!(file.len() < 8_000 + 160 * columns, "{columns}: {} bytes", file.len());
                for x in tree.descendants().filter_map(|n| n.attribute("x")) {
                    assert!((0.0..=size.pixels().0).contains(&x.parse::<f64>().unwrap()), "{x}");
                }
            }
        }
    }

    #[test]
    fn higher_shares_are_darker() {
        let shades: Vec<f64> =
            [0.0, 0.3, 0.31, 0.9, 1.7].map(|share| opacity(level(share)).parse().unwrap()).into();
        assert!(shades.is_sorted() && shades[0] > 0.0 && shades[4] == 1.0, "{shades:?}");
    }
}
