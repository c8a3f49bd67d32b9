//! Semantic colours of charts.
//!
//! A colour becomes a CSS class of `plot.css`, so that charts follow the light or dark theme of the page. The light
//! colour is also written as an attribute, for viewers without CSS.

/// The style sheet of charts: colours for the light theme, the dark theme and print, and fonts.
pub const PLOT_CSS: &str = include_str!("plot.css");

/// Colours of lines in the light theme: the colour-blind safe palette of Okabe and Ito, in an order in which neighbours also
/// differ in greyscale. Yellow is omitted, because it is invisible on white.
const COLOURS: [&str; 7] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#444444"];

/// Dash patterns in CSS pixels; the first is solid.
const DASHES: [&str; 5] = ["none", "8 3", "2 3", "10 3 2 3", "5 2 1 2 1 2"];

/// The meaning of a stroke or text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlotColor {
    /// The background.
    Paper,
    Text,
    /// Secondary text.
    Faint,
    Axis,
    /// Grid lines.
    Grid,
    /// A vertical line at an event.
    Mark,
    /// A data line, by colour index. Indices wrap around.
    Line(usize),
    /// The name of a line, in its colour.
    Name(usize),
}

impl PlotColor {
    /// Returns the CSS class in `plot.css`.
    pub(super) fn class(self) -> String {
        match self {
            PlotColor::Paper => "paper".into(),
            PlotColor::Text => "text".into(),
            PlotColor::Faint => "faint".into(),
            PlotColor::Axis => "axis".into(),
            PlotColor::Grid => "grid".into(),
            PlotColor::Mark => "mark".into(),
            PlotColor::Line(colour) => format!("line-{}", colour % COLOURS.len()),
            PlotColor::Name(colour) => format!("name-{}", colour % COLOURS.len()),
        }
    }

    /// Returns the colour of the light theme.
    pub(super) fn light(self) -> &'static str {
        match self {
            PlotColor::Paper => "#FFFFFF",
            PlotColor::Text => "#222222",
            PlotColor::Faint => "#666666",
            PlotColor::Axis | PlotColor::Mark => "#888888",
            PlotColor::Grid => "#E4E4E4",
            PlotColor::Line(colour) | PlotColor::Name(colour) => COLOURS[colour % COLOURS.len()],
        }
    }
}

/// Returns the `stroke-dasharray` of a dash index. Indices wrap around.
pub(super) fn dash(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_color_is_in_the_style_sheet_with_the_same_light_value() {
        let lines = (0..COLOURS.len()).map(PlotColor::Line);
        for color in [
            PlotColor::Paper,
            PlotColor::Text,
            PlotColor::Faint,
            PlotColor::Axis,
            PlotColor::Grid,
            PlotColor::Mark,
        ]
        .into_iter()
        .chain(lines)
        {
            let (class, colour) = (color.class(), color.light());
            assert!(PLOT_CSS.contains(&format!("--{class}: {colour}")), "--{class}: {colour}");
            assert!(PLOT_CSS.contains(&format!(".{class} {{")), "no rule for .{class}");
        }
        for name in (0..COLOURS.len()).map(PlotColor::Name) {
            assert!(PLOT_CSS.contains(&format!(".{} {{", name.class())), "no rule for {name:?}");
        }
    }

    #[test]
    fn colours_and_dashes_wrap_around() {
        assert_eq!(PlotColor::Line(COLOURS.len()).class(), "line-0");
        assert_eq!(dash(0), dash(DASHES.len()));
    }
}
