//! Sections of the report, and the charts in them.

use crate::chart::Picture;

/// Some charts under one heading.
pub struct Section {
    pub title: String,
    /// Note on how to read the charts.
    pub note: Option<String>,
    pub figures: Vec<Figure>,
}

/// One chart of the report.
pub struct Figure {
    /// Name of its SVG file, without the extension.
    pub file: String,
    /// Heading; empty if the heading of the section is sufficient.
    pub title: String,
    /// Width on the page.
    pub layout: Layout,
    pub picture: Picture,
}

/// Width of a figure, as a part of the page's width.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    Full,
    /// Half of the width if the window is wide enough for two figures.
    Half,
}
