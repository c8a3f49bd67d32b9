//! Inks: what a stroke or a letter means, rather than which colour it has.
//!
//! An ink becomes a class of `plot.css`, which turns with the page, and beside it the light colour
//! as an attribute, for programs that read SVG without style sheets.

/// The style sheet of every chart: colours for light, dark and paper; letters.
pub const PLOT_CSS: &str = include_str!("plot.css");

/// Colours in light dress: Okabe and Ito's palette for colour-blind readers, in an order in which
/// neighbours also differ in grey. Their yellow is left out: it vanishes on white.
const COLOURS: [&str; 7] = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#444444"];

/// Dash patterns in CSS pixels; solid first.
const DASHES: [&str; 5] = ["none", "8 3", "2 3", "10 3 2 3", "5 2 1 2 1 2"];

/// Everything that is drawn is drawn in one of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlotColor {
    /// The ground.
    Paper,
    /// Numbers and names.
    Text,
    /// Words that may be overlooked.
    Faint,
    /// The zero line.
    Axis,
    /// Lines to read values by.
    Grid,
    /// A vertical line at a moment.
    Mark,
    /// A data line, by its colour index; any number, they come round again.
    Line(usize),
    /// A name in the colour of its line.
    Name(usize),
}

impl PlotColor {
    /// Returns the class in `plot.css`.
    pub fn class(self) -> String {
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

    /// Returns the colour in light dress.
    pub fn light(self) -> &'static str {
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

/// Returns the `stroke-dasharray` of a dash index; any number, they come round again.
pub fn dash(index: usize) -> &'static str {
    DASHES[index % DASHES.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ink_is_in_the_style_sheet_with_the_same_light_colour() {
        let lines = (0..COLOURS.len()).map(PlotColor::Line);
        for ink in [
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
            let (class, colour) = (ink.class(), ink.light());
            assert!(PLOT_CSS.contains(&format!("--{class}: {colour}")), "--{class}: {colour}");
            assert!(PLOT_CSS.contains(&format!(".{class} {{")), "no rule for .{class}");
        }
        for name in (0..COLOURS.len()).map(PlotColor::Name) {
            assert!(PLOT_CSS.contains(&format!(".{} {{", name.class())), "no rule for {name:?}");
        }
    }

    #[test]
    fn colours_and_dashes_come_round() {
        assert_eq!(PlotColor::Line(COLOURS.len()).class(), "line-0");
        assert_eq!(dash(0), dash(DASHES.len()));
    }
}
