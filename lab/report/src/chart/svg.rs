//! Sizes, texts and coordinates of the SVG of line charts and heat maps.

use super::color::PlotColor;
use maud::{Markup, html};

/// The width for which a chart is drawn. The font size is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// The full width of a wide page.
    Wide,
    /// Half of the width, or the width of a phone.
    Narrow,
}

impl Size {
    /// Returns width and height in CSS pixels.
    pub fn pixels(self) -> (f64, f64) {
        match self {
            Size::Wide => (900.0, 310.0),
            Size::Narrow => (430.0, 280.0),
        }
    }
}

/// Returns a text whose `anchor` (`start`, `middle` or `end`) is at this position.
pub(super) fn text((x, y): (f64, f64), anchor: &str, color: PlotColor, content: &str) -> Markup {
    html! { text x=(px(x)) y=(px(y)) text-anchor=(anchor) class=(color.class()) fill=(color.light()) { (content) } }
}

/// Formats a coordinate with a resolution of a tenth of a pixel.
pub(super) fn px(value: f64) -> String {
    let tenths = (value * 10.0).round() as i64;
    if tenths % 10 == 0 { (tenths / 10).to_string() } else { format!("{:.1}", tenths as f64 / 10.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_short() {
        assert_eq!((px(12.04), px(12.06), px(-0.51)), ("12".into(), "12.1".into(), "-0.5".into()));
    }
}
