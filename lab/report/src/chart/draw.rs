//! Draws charts as SVG. All lengths are in CSS pixels.

use super::color::{PLOT_CSS, PlotColor, dash};
use super::labels::{self, LETTER_HEIGHT};
use super::line_chart::{Chart, LegendPlacement, Line};
use super::overlap::{GroupPosition, pieces};
use super::scale::VERTICAL_TICKS;
use super::svg::{Size, px, text};
use super::thin::{Thinned, thin};
use maud::{Markup, PreEscaped, html};

/// Height of a line of text.
const LINE_HEIGHT: f64 = 18.0;
/// Rows for the labels of marks; labels that do not fit are omitted.
const MARK_ROWS: usize = 3;
/// Gap between the frame and the labels at its left and below.
const TICK_GAP: f64 = 6.0;
/// Margin at the sides, so that the first and the last tick label are not clipped.
const SIDE_MARGIN: f64 = 22.0;
/// Length of a line sample in the legend.
const LEGEND_SAMPLE_WIDTH: f64 = 26.0;
/// Approximate distance between tick labels of the x axis.
const X_TICK_DISTANCE: f64 = 85.0;
/// Width of a line.
const STROKE: f64 = 1.75;
/// Width of a line in a chart of more than [`MAX_NORMAL_LINES`].
const FINE_STROKE: f64 = 1.0;
const MAX_NORMAL_LINES: usize = 8;

/// The plot area.
#[derive(Clone, Copy)]
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Frame {
    fn right(&self) -> f64 {
        self.left + self.width
    }
    fn bottom(&self) -> f64 {
        self.top + self.height
    }
}

impl Chart {
    /// Returns the chart as an element of a page that has [`PLOT_CSS`] and the legend.
    pub fn svg(&self, size: Size) -> Markup {
        self.draw(size, None)
    }

    /// Returns the chart as a self-contained SVG file.
    pub fn svg_file(&self, size: Size) -> String {
        let style = html! { style { (PreEscaped(PLOT_CSS)) } };
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{}\n",
            self.draw(size, Some(style)).into_string()
        )
    }

    fn draw(&self, size: Size, style: Option<Markup>) -> Markup {
        let (width, height) = size.pixels();
        let y_ticks = self.y_ticks();
        let is_file = style.is_some();
        let legend = if is_file { self.legend_rows(width) } else { Vec::new() };
        let note_line = self.overlap_note().filter(|_| is_file && self.names == LegendPlacement::Legend);
        let frame = self.frame((width, height), &y_ticks, legend.len() + usize::from(note_line.is_some()));
        let lines: Vec<Thinned> = self.lines.iter().map(|line| self.pixels(line, frame)).collect();
        html! {
            svg class="chart" xmlns="http://www.w3.org/2000/svg" viewBox=(format!("0 0 {width} {height}"))
                width=(width) height=(height) font-family="sans-serif" font-size="12" role="img" aria-label=(self.alt) {
                @if let Some(style) = style { (style) }
                rect class="paper" width=(width) height=(height) fill=(PlotColor::Paper.light()) {}
                (legend_markup(&legend))
                @if let Some(note_line) = note_line {
                    (text((0.0, legend.len() as f64 * LINE_HEIGHT + LETTER_HEIGHT), "start", PlotColor::Faint, &note_line))
                }
                (self.y_axis(frame, &y_ticks))
                (self.x_axis(frame))
                (self.marks(frame))
                (self.curves(frame, &lines))
                @if self.names == LegendPlacement::Direct { (self.direct_names(frame, &lines)) }
            }
        }
    }

    fn y_ticks(&self) -> Vec<(f64, String)> {
        self.y.ticks(VERTICAL_TICKS).into_iter().map(|v| (v, self.y.label(v))).collect()
    }

    fn frame(&self, (width, height): (f64, f64), y_ticks: &[(f64, String)], legend_rows: usize) -> Frame {
        let widest = y_ticks.iter().map(|(_, text)| labels::width(text)).fold(0.0, f64::max);
        let left = (widest + 2.0 * TICK_GAP).round().max(SIDE_MARGIN);
        // Above the plot area: legend and title of the y axis. Below: tick labels and title of the x axis.
        let top = legend_rows as f64 * LINE_HEIGHT + LINE_HEIGHT + 3.0 * TICK_GAP;
        Frame {
            left,
            top,
            width: width - left - SIDE_MARGIN,
            height: height - top - 2.0 * LINE_HEIGHT - TICK_GAP,
        }
    }

    /// Returns a line in pixels, relative to the upper left corner of the frame.
    fn pixels(&self, line: &Line, frame: Frame) -> Thinned {
        let to_x = |x| self.x.position(x) * frame.width;
        let to_y = |y| (1.0 - self.y.position(y)) * frame.height;
        let mut thinned = if line.band.is_empty() {
            thin(&line.points, frame.width)
        } else {
            Thinned { line: line.points.clone(), band: line.band.clone() }
        };
        thinned.line.iter_mut().for_each(|p| *p = (to_x(p.0), to_y(p.1)));
        thinned.band.iter_mut().for_each(|b| *b = (to_y(b.0), to_y(b.1)));
        thinned
    }

    fn y_axis(&self, frame: Frame, ticks: &[(f64, String)]) -> Markup {
        html! {
            (text((0.0, frame.top - 3.0 * TICK_GAP), "start", PlotColor::Text, &self.y.title))
            @for (value, label) in ticks {
                @let y = frame.top + (1.0 - self.y.position(*value)) * frame.height;
                (rule((frame.left, y), (frame.right(), y), PlotColor::Grid))
                (text((frame.left - TICK_GAP, y + 4.0), "end", PlotColor::Faint, label))
            }
        }
    }

    fn x_axis(&self, frame: Frame) -> Markup {
        /// Length of a tick.
        const TICK: f64 = 4.0;
        let widest = self.x.names.iter().map(|name| labels::width(name) + TICK_GAP).fold(0.0, f64::max);
        let count = (frame.width / X_TICK_DISTANCE.max(widest)) as usize;
        let y = frame.bottom();
        let to_x = |value| frame.left + self.x.position(value) * frame.width;
        // Right end of the last label; labels that would overlap it are omitted.
        let mut label_end = f64::NEG_INFINITY;
        html! {
            (rule((frame.left, y), (frame.right(), y), PlotColor::Axis))
            @for value in self.x.ticks(count) {
                @let (x, label) = (to_x(value), self.x.label(value));
                @let half = labels::width(&label) / 2.0;
                (rule((x, y), (x, y + TICK), PlotColor::Axis))
                @if x - half >= label_end {
                    (text((x, y + LINE_HEIGHT), "middle", PlotColor::Faint, &label))
                    ({ label_end = x + half + TICK_GAP; "" })
                }
            }
            (text((frame.right(), y + 2.0 * LINE_HEIGHT), "end", PlotColor::Text, &self.x.title))
        }
    }

    /// Draws the marks. A label is placed on the side with enough room, in the first row in which it does not overlap
    /// others.
    fn marks(&self, frame: Frame) -> Markup {
        // Right end of the labels of each row.
        let mut ends = [f64::MIN; MARK_ROWS];
        let placed = self.marks.iter().map(|mark| {
            let (x, width) = (frame.left + self.x.position(mark.x) * frame.width, labels::width(&mark.label));
            let is_label_right = x + TICK_GAP + width < frame.right();
            let from = if is_label_right { x + TICK_GAP } else { x - TICK_GAP - width };
            let row = ends.iter().position(|&end| end <= from);
            if let Some(row) = row {
                ends[row] = from + width + TICK_GAP;
            }
            (mark, x, is_label_right, row)
        });
        let placed: Vec<_> = placed.collect();
        html! {
            @for (mark, x, is_label_right, row) in placed {
                @let (label_x, anchor) = if is_label_right { (x + TICK_GAP, "start") } else { (x - TICK_GAP, "end") };
                line class=(PlotColor::Mark.class()) stroke=(PlotColor::Mark.light()) stroke-dasharray="2 3"
                    x1=(px(x)) x2=(px(x)) y1=(px(frame.top - TICK_GAP)) y2=(px(frame.bottom())) {}
                @if let Some(row) = row {
                    (text((label_x, frame.top + row as f64 * LINE_HEIGHT), anchor, PlotColor::Faint, &mark.label))
                }
            }
        }
    }

    fn curves(&self, frame: Frame, lines: &[Thinned]) -> Markup {
        let stroke = if lines.len() > MAX_NORMAL_LINES { FINE_STROKE } else { STROKE };
        let positions = self.group_positions();
        // The solid first line is drawn at the bottom, so that it is visible through the gaps of dashed lines.
        let pairs = || self.lines.iter().zip(lines);
        html! {
            g transform=(format!("translate({} {})", px(frame.left), px(frame.top))) {
                @for (line, thinned) in pairs().filter(|(_, thinned)| is_visible(&thinned.band)) {
                    @let color = PlotColor::Name(line.colour);
                    polygon class=(format!("band {}", color.class())) fill=(color.light()) fill-opacity="0.2" points=(outline(thinned)) {}
                }
                @for ((line, thinned), &position) in pairs().zip(&positions) {
                    @let color = PlotColor::Line(line.colour);
                    @let (dashes, offset) = if position.size > 1 { pieces(position) } else { (dash(line.dash).to_owned(), String::new()) };
                    polyline class=(color.class()) stroke=(color.light()) stroke-dasharray=(dashes)
                        stroke-dashoffset=[(!offset.is_empty()).then_some(offset)]
                        fill="none" stroke-width=(stroke) stroke-linejoin="round" points=(path(&thinned.line)) {}
                }
                @for (index, (line, position)) in self.lines.iter().zip(positions).enumerate() {
                    @if !line.spread.is_empty() { (self.spread(line, self.lines.len() - 1 - index, position, frame)) }
                }
            }
        }
    }

    /// Draws a dot for each point, and a bar for its confidence interval. Bars at the same position have caps of
    /// different widths, and among overlapping lines the dots of lower ones are larger. `above` is the number of
    /// lines that are drawn over this one.
    fn spread(&self, line: &Line, above: usize, group: GroupPosition, frame: Frame) -> Markup {
        /// Radius of the dot of a line that overlaps no other.
        const DOT: f64 = 3.5;
        /// Width of the visible ring of a dot below another.
        const RING: f64 = 2.5;
        /// Half the width of the cap of the topmost bar.
        const CAP: f64 = 2.5;
        let radius = DOT + RING * (group.size - 1 - group.index) as f64;
        let cap = CAP * (above + 1) as f64;
        let color = PlotColor::Line(line.colour);
        let to_y = |y| (1.0 - self.y.position(y)) * frame.height;
        let bar = |x: f64, low: f64, high: f64| {
            let ends = [high, low].map(|y| format!("M{} {}h{}", px(x - cap), px(to_y(y)), px(2.0 * cap)));
            format!("{}{}M{} {}V{}", ends[0], ends[1], px(x), px(to_y(high)), px(to_y(low)))
        };
        html! {
            @for (&(x, y), &(low, high)) in line.points.iter().zip(&line.spread) {
                @let x = self.x.position(x) * frame.width;
                @if high > low {
                    path class=(color.class()) stroke=(color.light()) fill="none" stroke-width=(STROKE) d=(bar(x, low, high)) {}
                }
                circle class=(PlotColor::Name(line.colour).class()) fill=(color.light()) cx=(px(x)) cy=(px(to_y(y))) r=(px(radius)) {}
            }
        }
    }

    fn direct_names(&self, frame: Frame, lines: &[Thinned]) -> Markup {
        let names: Vec<&str> = self.lines.iter().map(|line| line.name.as_str()).collect();
        let lines: Vec<Vec<(f64, f64)>> = lines.iter().map(|thinned| thinned.line.clone()).collect();
        let positions = labels::place_names(&lines, &names, (frame.width, frame.height));
        html! {
            @for (line, position) in self.lines.iter().zip(positions) {
                @if let Some((x, y)) = position {
                    @let color = PlotColor::Name(line.colour);
                    text class=(format!("strong halo {}", color.class())) fill=(color.light())
                        x=(px(frame.left + x)) y=(px(frame.top + y)) { (line.name) }
                }
            }
        }
    }

    /// Divides the legend into rows that fit `width`. Each item has its x position.
    fn legend_rows(&self, width: f64) -> Vec<Vec<(f64, &Line)>> {
        /// Gap between two items of a row.
        const ITEM_GAP: f64 = 22.0;
        if self.names != LegendPlacement::Legend {
            return Vec::new();
        }
        let mut rows: Vec<Vec<(f64, &Line)>> = Vec::new();
        // Beyond any width, so that the first item begins a row.
        let mut x = f64::INFINITY;
        for line in &self.lines {
            let note_width = line.note.as_deref().map_or(0.0, |note| labels::width(note) + TICK_GAP);
            let item_width = LEGEND_SAMPLE_WIDTH + TICK_GAP + labels::width(&line.name) + note_width;
            if x + item_width > width {
                rows.push(Vec::new());
                x = 0.0;
            }
            rows.last_mut().expect("a row was begun above").push((x, line));
            x += item_width + ITEM_GAP;
        }
        rows
    }
}

fn legend_markup(rows: &[Vec<(f64, &Line)>]) -> Markup {
    html! {
        @for (row, items) in rows.iter().enumerate() {
            @let base = row as f64 * LINE_HEIGHT + LETTER_HEIGHT;
            @for (x, line) in items {
                @let color = PlotColor::Line(line.colour);
                line class=(color.class()) stroke=(color.light()) stroke-dasharray=(dash(line.dash)) stroke-width="2.5"
                    x1=(px(*x)) x2=(px(x + LEGEND_SAMPLE_WIDTH)) y1=(px(base - 4.0)) y2=(px(base - 4.0)) {}
                text x=(px(x + LEGEND_SAMPLE_WIDTH + TICK_GAP)) y=(px(base)) class=(PlotColor::Text.class()) fill=(PlotColor::Text.light()) {
                    tspan class="strong" { (line.name) }
                    @if let Some(note) = &line.note {
                        " " tspan class=(PlotColor::Faint.class()) fill=(PlotColor::Faint.light()) { (note) }
                    }
                }
            }
        }
    }
}

/// Returns a short sample of a line, for tables.
pub fn sample_line(colour: usize, dash_index: usize) -> Markup {
    let color = PlotColor::Line(colour);
    html! {
        svg class="swatch" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 26 10" width="26" height="10" aria-hidden="true" {
            line class=(color.class()) stroke=(color.light()) stroke-dasharray=(dash(dash_index)) stroke-width="2.5" x2="26" y1="5" y2="5" {}
        }
    }
}

/// Draws a straight line.
fn rule(from: (f64, f64), to: (f64, f64), color: PlotColor) -> Markup {
    html! {
        line class=(color.class()) stroke=(color.light()) x1=(px(from.0)) y1=(px(from.1)) x2=(px(to.0)) y2=(px(to.1)) {}
    }
}

/// Returns whether a band has any height.
fn is_visible(band: &[(f64, f64)]) -> bool {
    band.iter().any(|(low, high)| low - high > STROKE)
}

/// Returns the outline of a band: along the upper edge, and back along the lower one.
fn outline(thinned: &Thinned) -> String {
    let upper = thinned.line.iter().zip(&thinned.band).map(|(&(x, _), &(_, high))| (x, high));
    let lower = thinned.line.iter().zip(&thinned.band).rev().map(|(&(x, _), &(low, _))| (x, low));
    path(&upper.chain(lower).collect::<Vec<_>>())
}

fn path(points: &[(f64, f64)]) -> String {
    let mut path = String::with_capacity(points.len() * 10);
    for &(x, y) in points {
        if !path.is_empty() {
            path.push(' ');
        }
        path.push_str(&px(x));
        path.push(',');
        path.push_str(&px(y));
    }
    path
}

#[cfg(test)]
mod tests {
    use super::super::line_chart::Annotation;
    use super::super::scale::Axis;
    use super::*;

    fn chart(names: LegendPlacement) -> Chart {
        let line = |name: &str, colour, y| Line {
            name: name.into(),
            note: Some("peak <1 KB".into()),
            colour,
            dash: colour,
            points: vec![(0.0, y), (1000.0, y)],
            spread: vec![(y - 0.5, y + 0.5), (y, y)],
            ..Line::default()
        };
        Chart {
            alt: "a \"test\" & more".into(),
            x: Axis::exactly("time (us)", 0.0, 1000.0),
            y: Axis::from_zero("queue (KB)", 10.0),
            lines: vec![line("fncc", 0, 2.0), line("hpcc eta=0.95", 1, 9.0)],
            marks: vec![
                Annotation { x: 300.0, label: "h2->h3 starts".into() },
                Annotation { x: 990.0, label: "end".into() },
            ],
            names,
        }
    }

    #[test]
    fn is_well_formed_xml_for_any_names() {
        for names in [LegendPlacement::Legend, LegendPlacement::Direct, LegendPlacement::None] {
            for size in [Size::Wide, Size::Narrow] {
                let file = chart(names).svg_file(size);
                let tree = roxmltree::Document::parse(&file).unwrap();
                let lines =
                    tree.descendants().filter(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "polyline")));
                assert_eq!(lines.count(), 2);
                let named = file.contains("hpcc eta=0.95</t");
                assert_eq!(named, names != LegendPlacement::None, "{names:?}");
            }
        }
    }

    #[test]
    fn everything_is_inside_the_picture() {
        let file = chart(LegendPlacement::Legend).svg_file(Size::Narrow);
        let tree = roxmltree::Document::parse(&file).unwrap();
        let (width, height) = Size::Narrow.pixels();
        for node in tree.descendants() {
            for (attribute, max) in
                [("x", width), ("x1", width), ("x2", width), ("y", height), ("y2", height)]
            {
                let value = node.attribute(attribute).map(|v| v.parse::<f64>().unwrap());
                assert!(value.is_none_or(|v| (0.0..=max).contains(&v)), "{attribute} of {node:?}");
            }
        }
    }

    #[test]
    fn labels_of_marks_do_not_overlap() {
        let mut chart = chart(LegendPlacement::None);
        chart.marks = (0..5)
            .map(|n| Annotation { x: 10.0 * f64::from(n), label: "eight flows start".into() })
            .collect();
        let file = chart.svg_file(Size::Narrow);
        let tree = roxmltree::Document::parse(&file).unwrap();
        let words =
            tree.descendants().filter(|node| node.text() == Some("eight flows start") && node.is_element());
        let rows: Vec<&str> = words.filter_map(|node| node.attribute("y")).collect();
        assert_eq!(rows.len(), MARK_ROWS, "labels without room are omitted");
        assert!(rows.windows(2).all(|two| two[0] != two[1]), "{rows:?}");
        assert_eq!(
            file.matches("stroke-dasharray=\"2 3\"").count(),
            5,
            "the lines of omitted labels are drawn"
        );
    }

    #[test]
    fn a_long_legend_takes_more_rows() {
        let mut chart = chart(LegendPlacement::Legend);
        let rows = |chart: &Chart| chart.legend_rows(430.0).len();
        assert_eq!(rows(&chart), 1);
        let line = chart.lines[1].clone();
        chart.lines.extend(std::iter::repeat_n(line, 4));
        assert!(rows(&chart) >= 3);
    }

    #[test]
    fn points_are_separated_by_spaces() {
        assert_eq!(path(&[(1.0, 2.0), (3.25, 4.0)]), "1,2 3.3,4");
    }
}
