//! Renders a [`ViewModel`] on a terminal.

use super::interaction::{Colours, Order, ViewState};
use super::model::ViewModel;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table, TableState};
use weir_report::format;

/// Minimum width in columns at which the other tables are to the right of the ports rather than below.
const TWO_COLUMN_WIDTH: u16 = 120;
/// Number of totals in a line.
const TOTALS_PER_LINE: usize = 3;
/// Width of a load bar in cells.
const BAR_WIDTH: usize = 10;
/// Loads from which a link is shown in yellow and in red.
const YELLOW_LOAD: f64 = 0.5;
const RED_LOAD: f64 = 0.8;

pub(super) fn draw(frame: &mut Frame<'_>, model: &ViewModel, view_state: &ViewState) {
    let [header_area, body, footer_area] =
        Layout::vertical([Constraint::Length(2), Constraint::Fill(1), Constraint::Length(2)])
            .areas(frame.area());
    frame.render_widget(header(model, header_area.width), header_area);
    let side_rows = side_table_rows(model);
    if frame.area().width >= TWO_COLUMN_WIDTH {
        let [left, right] =
            Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]).spacing(2).areas(body);
        ports_table(frame, left, model, view_state);
        side_tables(frame, right, model);
    } else {
        // At most half of the height is used for tables other than the ports.
        let side_height = u16::try_from(side_rows).unwrap_or(u16::MAX).min(body.height / 2);
        let [top, bottom] =
            Layout::vertical([Constraint::Fill(1), Constraint::Length(side_height)]).areas(body);
        ports_table(frame, top, model, view_state);
        side_tables(frame, bottom, model);
    }
    frame.render_widget(footer(model, view_state), footer_area);
}

/// Returns the height of all tables except that of the ports, including headings.
fn side_table_rows(model: &ViewModel) -> usize {
    let with_heading = |rows: usize| if rows == 0 { 0 } else { rows + 1 };
    model.totals.len().div_ceil(TOTALS_PER_LINE)
        + with_heading(model.switches.len())
        + with_heading(model.flows.len().max(usize::from(!model.flows_note.is_empty())))
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn header(model: &ViewModel, width: u16) -> Paragraph<'_> {
    let mut first =
        vec![Span::styled(model.title.as_str(), bold()), Span::raw("  "), Span::raw(model.status.as_str())];
    if model.is_paused {
        first.push(Span::styled("  paused", bold()));
    }
    let bar = model.progress.map_or_else(String::new, |share| {
        let cells = usize::from(width);
        let done = (share.clamp(0.0, 1.0) * cells as f64).round() as usize;
        "━".repeat(done) + &"─".repeat(cells - done)
    });
    Paragraph::new(vec![Line::from(first), Line::raw(bar)])
}

fn footer<'a>(model: &'a ViewModel, view_state: &ViewState) -> Paragraph<'a> {
    let order = match view_state.order {
        Order::Topology => "order: topology",
        Order::Load => "order: load",
        Order::Queue => "order: queue",
    };
    let keys = model.keys.iter().copied().chain([("↑↓", "select"), ("o", order), ("q", "quit")]);
    let keys = keys.flat_map(|(key, word)| {
        [Span::styled(key, bold()), Span::raw(" "), Span::raw(word), Span::raw("  ")]
    });
    Paragraph::new(vec![Line::raw(model.note.as_str()), Line::from_iter(keys)])
}

/// Returns a bar with a resolution of an eighth of a cell.
fn bar(load: f64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = (load.clamp(0.0, 1.0) * (BAR_WIDTH * 8) as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if bar.chars().count() < BAR_WIDTH {
        bar.push(EIGHTHS[eighths % 8]);
    }
    bar
}

/// Formats a rate in bit/s.
fn format_rate(rate: f64) -> String {
    match rate {
        ..1e3 => format!("{} b/s", format::significant(rate)),
        ..1e6 => format!("{} kb/s", format::significant(rate / 1e3)),
        ..1e9 => format!("{} Mb/s", format::significant(rate / 1e6)),
        _ => format!("{} Gb/s", format::significant(rate / 1e9)),
    }
}

fn right_aligned(text: String) -> Cell<'static> {
    Cell::new(Line::from(text).right_aligned())
}

fn bytes_cell(value: Option<u64>) -> Cell<'static> {
    right_aligned(value.map_or_else(|| "-".to_owned(), |value| format::bytes(value as f64)))
}

fn count_cell(value: Option<u64>) -> Cell<'static> {
    right_aligned(value.map_or_else(|| "-".to_owned(), format::count))
}

/// Returns the style of a load bar.
fn bar_style(load: f64, is_up: bool, view_state: &ViewState) -> Style {
    let style = Style::new();
    match load {
        _ if view_state.colours == Colours::Off => style,
        _ if !is_up => style.fg(Color::Red).add_modifier(Modifier::BOLD),
        RED_LOAD.. => style.fg(Color::Red),
        YELLOW_LOAD.. => style.fg(Color::Yellow),
        _ => style.fg(Color::Green),
    }
}

fn ports_table(frame: &mut Frame<'_>, area: Rect, model: &ViewModel, view_state: &ViewState) {
    let rows = view_state.order(model).into_iter().map(|index| {
        let port = &model.ports[index];
        let state = if port.is_up { bar(port.load) } else { "down".to_owned() };
        let percent = if port.is_up { format!("{:.0} %", port.load * 100.0) } else { String::new() };
        Row::new([
            Cell::new(port.name.clone()),
            Cell::new(format!("→ {}", port.peer)),
            Cell::new(state).style(bar_style(port.load, port.is_up, view_state)),
            right_aligned(percent),
            right_aligned(format_rate(port.rate_bps)),
            bytes_cell(port.queue),
            bytes_cell(port.peak),
        ])
    });
    let name_width = model.ports.iter().map(|port| port.name.chars().count()).max().unwrap_or(0).clamp(4, 14);
    let peer_width =
        model.ports.iter().map(|port| port.peer.chars().count() + 2).max().unwrap_or(0).clamp(4, 16);
    let widths = [
        Constraint::Length(name_width as u16),
        Constraint::Length(peer_width as u16),
        Constraint::Length(BAR_WIDTH as u16),
        Constraint::Length(5),
        Constraint::Length(10),
        Constraint::Length(9),
        Constraint::Length(9),
    ];
    let header = Row::new([
        Cell::new("port"),
        Cell::new("to"),
        Cell::new("load"),
        Cell::new(""),
        right_aligned("rate".into()),
        right_aligned("queue".into()),
        right_aligned("peak".into()),
    ]);
    let table = Table::new(rows, widths)
        .header(header.style(bold()))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let row = (!model.ports.is_empty()).then(|| view_state.row.min(model.ports.len() - 1));
    frame.render_stateful_widget(table, area, &mut TableState::new().with_selected(row));
}

/// Draws totals, switches and flows below each other, as far as they fit.
fn side_tables(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let totals = model.totals.len().div_ceil(TOTALS_PER_LINE) as u16;
    let switches = if model.switches.is_empty() { 0 } else { model.switches.len() as u16 + 1 };
    // Flows change more often than switches, so they get half of the height if both do not fit.
    let available = area.height.saturating_sub(totals);
    let switches = if model.flows.is_empty() { switches } else { switches.min(available / 2) };
    let areas =
        Layout::vertical([Constraint::Length(totals), Constraint::Length(switches), Constraint::Fill(1)]);
    let [top, middle, bottom] = areas.areas(area);
    let lines = model.totals.chunks(TOTALS_PER_LINE).map(|chunk| {
        Line::from_iter(chunk.iter().flat_map(|(word, value)| {
            [Span::raw(format!("{word} ")), Span::styled(value.clone(), bold()), Span::raw("   ")]
        }))
    });
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), top);
    if switches > 0 {
        switch_table(frame, middle, model);
    }
    if !model.flows.is_empty() {
        flow_table(frame, bottom, model);
    } else if !model.flows_note.is_empty() {
        let lines = [Line::from(Span::styled("flows", bold())), Line::from(model.flows_note)];
        frame.render_widget(Paragraph::new(Vec::from(lines)), bottom);
    }
}

fn switch_table(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    // Switches with errors come first, so that they are visible if not all fit.
    let (failed, healthy): (Vec<_>, Vec<_>) =
        model.switches.iter().partition(|switch| switch.error.is_some());
    let rows = failed.into_iter().chain(healthy).map(|switch| {
        let error = Cell::new(switch.error.clone().unwrap_or_default());
        Row::new([
            Cell::new(switch.name.clone()),
            count_cell(switch.routes),
            count_cell(switch.marks),
            count_cell(switch.drops),
            error,
        ])
    });
    let [name, number] = [Constraint::Length(8), Constraint::Length(9)];
    let header = Row::new([
        Cell::new("switch"),
        right_aligned("routes".into()),
        right_aligned("marks".into()),
        right_aligned("drops".into()),
        Cell::new(""),
    ]);
    let table = Table::new(rows, [name, number, number, number, Constraint::Fill(1)]);
    frame.render_widget(table.header(header.style(bold())), area);
}

fn flow_table(frame: &mut Frame<'_>, area: Rect, model: &ViewModel) {
    let rows = model.flows.iter().map(|flow| {
        let done = flow.size.filter(|&size| size > 0).map(|size| flow.acked as f64 / size as f64);
        Row::new([
            Cell::new(flow.name.clone()),
            right_aligned(flow.rate_bps.map_or_else(|| "-".to_owned(), format_rate)),
            bytes_cell(Some(flow.acked)),
            right_aligned(done.map_or_else(String::new, |done| format!("{:.0} %", done * 100.0))),
        ])
    });
    let widths = [Constraint::Fill(1), Constraint::Length(10), Constraint::Length(9), Constraint::Length(5)];
    let header = Row::new([
        Cell::new("flow"),
        right_aligned("rate".into()),
        right_aligned("acked".into()),
        Cell::new(""),
    ]);
    frame.render_widget(Table::new(rows, widths).header(header.style(bold())), area);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::{FlowRow, PortRow, SwitchRow};
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Buffer;

    fn model() -> ViewModel {
        let port = |name: &str, peer: &str, load: f64, queue| PortRow {
            name: name.into(),
            peer: peer.into(),
            is_up: true,
            load,
            rate_bps: load * 10e9,
            queue: Some(queue),
            peak: Some(queue * 2),
        };
        let mut ports = vec![
            port("s1:1", "h1", 0.02, 0),
            port("s1:2", "s2:1", 0.97, 48_000),
            port("s2:1", "s1:2", 0.6, 1_500),
            port("s2:2", "h2", 0.4, 12_000_000),
        ];
        ports[3].is_up = false;
        let switch = |name: &str| SwitchRow {
            name: name.into(),
            error: None,
            routes: Some(4),
            marks: Some(12_345),
            drops: Some(0),
        };
        let mut switches = vec![switch("s1"), switch("s2")];
        switches[1].error = Some("no answer".into());
        ViewModel {
            title: "fabric.yaml".into(),
            status: "12.3 of 20 ms".into(),
            progress: Some(0.615),
            is_paused: true,
            is_over: false,
            ports,
            switches,
            flows: vec![FlowRow {
                name: "h1 → h2".into(),
                size: Some(1_000_000),
                acked: 250_000,
                rate_bps: Some(9.7e9),
            }],
            flows_note: "",
            totals: [("drops", "0"), ("marks", "12,345"), ("retransmits", "7"), ("hops", "1,000,000")]
                .map(|(word, value)| (word.to_owned(), value.to_owned()))
                .into(),
            note: "s1:2 is down".into(),
            keys: vec![("space", "go on"), ("s", "step")],
        }
    }

    fn render(width: u16, height: u16, model: &ViewModel, view_state: &ViewState) -> Buffer {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, model, view_state)).unwrap();
        terminal.backend().buffer().clone()
    }

    fn text(buffer: &Buffer) -> String {
        let width = usize::from(buffer.area.width);
        let lines = buffer
            .content
            .chunks(width)
            .map(|line| line.iter().map(|cell| cell.symbol()).collect::<String>());
        lines.map(|line| format!("{}\n", line.trim_end())).collect()
    }

    #[test]
    fn a_scene_at_80_columns() {
        insta::assert_snapshot!(text(&render(80, 20, &model(), &ViewState::default())));
    }

    #[test]
    fn a_scene_at_200_columns() {
        let view_state = ViewState { order: Order::Load, row: 1, colours: Colours::On };
        insta::assert_snapshot!(text(&render(200, 16, &model(), &view_state)));
    }

    #[test]
    fn links_are_coloured_by_load_unless_plain() {
        let colours = |view_state: &ViewState| {
            let buffer = render(80, 20, &model(), view_state);
            // The first cell of the bars: the rows follow the heading and the table's header.
            let x = (0..80).find(|&x| buffer[(x, 2)].symbol() == "l").unwrap();
            (3..7).map(|y| buffer[(x, y)].fg).collect::<Vec<_>>()
        };
        let view_state = ViewState::default();
        assert_eq!(colours(&view_state), [Color::Green, Color::Red, Color::Yellow, Color::Red]);
        assert_eq!(colours(&ViewState { colours: Colours::Off, ..view_state }), [Color::Reset; 4]);
    }

    #[test]
    fn any_size_can_be_drawn() {
        for (width, height) in [(1, 1), (10, 3), (40, 5), (119, 2), (300, 80)] {
            render(width, height, &model(), &ViewState { row: 99, ..ViewState::default() });
            render(width, height, &ViewModel::default(), &ViewState::default());
        }
    }

    #[test]
    fn the_selected_port_is_visible_and_depends_on_the_order() {
        let mut model = model();
        let port = model.ports[0].clone();
        model.ports =
            (0..500).map(|n| PortRow { name: format!("s{n}:1"), queue: Some(n), ..port.clone() }).collect();
        let mut view_state = ViewState::default();
        view_state.move_selection(400, &model);
        assert!(text(&render(80, 20, &model, &view_state)).contains("s400:1"));
        view_state.move_selection(isize::MAX, &model);
        assert_eq!(view_state.selected(&model), Some(499));
        view_state.next_order();
        view_state.next_order();
        assert_eq!(
            (view_state.order, view_state.selected(&model)),
            (Order::Queue, Some(499)),
            "the longest queue"
        );
        assert_eq!(ViewState::default().selected(&ViewModel::default()), None);
    }
}
