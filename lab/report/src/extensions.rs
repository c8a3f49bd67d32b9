//! The extensions of a command line that is built on Weir.

use super::describe::{RunDescription, SectionBuilder, describe};
use super::program::ProgramInfo;
use weir_experiment::{Catalogue, Experiment};

/// Schemes, workloads, topologies and report sections of a command line.
#[derive(Clone, Debug, Default)]
pub struct Extensions {
    /// Schemes, workloads and topologies that experiment files can use.
    pub catalogue: Catalogue,
    /// Sections of every report, after the built-in ones.
    pub charts: Vec<SectionBuilder>,
    /// The program, as results name it.
    pub program: ProgramInfo,
}

impl Extensions {
    /// Returns the description of an experiment that this program runs.
    pub fn describe(&self, experiment: &Experiment) -> RunDescription {
        RunDescription { program: self.program.clone(), ..describe(experiment, &self.charts) }
    }
}
