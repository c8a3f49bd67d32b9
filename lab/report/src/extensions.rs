//! The extensions of a command line that is built on Weir.

use super::describe::SectionBuilder;
use weir_experiment::Catalogue;

/// Schemes, workloads, topologies and report sections of a command line.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// Schemes, workloads and topologies that experiment files can use.
    pub catalogue: Catalogue,
    /// Sections of every report, after the built-in ones.
    pub charts: Vec<SectionBuilder>,
}
