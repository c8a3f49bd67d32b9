//! What a command line is built with.

use crate::report::MakeSection;
use weir_sim::Catalogue;

/// What experiment files can name, and what reports show.
#[derive(Clone, Debug, Default)]
pub struct Kit {
    /// Schemes, workloads and topologies.
    pub catalogue: Catalogue,
    /// Sections of every report, after those that come with Weir.
    pub charts: Vec<MakeSection>,
}
