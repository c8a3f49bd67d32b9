//! The extensions with which a command line is built.

use crate::SectionBuilder;
use weir_experiment::Catalogue;

/// The names that experiment files can use, and the sections that reports show.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// Schemes, workloads and topologies.
    pub catalogue: Catalogue,
    /// Sections of every report, after those that come with Weir.
    pub charts: Vec<SectionBuilder>,
}
