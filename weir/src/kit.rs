//! What a command line is built with.

use crate::report::figures::Section;
use weir_sim::Catalogue;
use weir_sim::results::Results;

/// Makes one section of a report from the results of a run, or `None` if they have nothing to show.
pub type Chart = fn(&Results) -> Option<Section>;

/// What experiment files can name, and what reports show.
#[derive(Clone, Debug, Default)]
pub struct Kit {
    /// Schemes, workloads and topologies.
    pub catalogue: Catalogue,
    /// Sections of every report, after those that come with Weir.
    pub charts: Vec<Chart>,
}
