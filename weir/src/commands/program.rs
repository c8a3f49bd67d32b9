//! Loading compiled P4 programs, and the option that selects their execution engine.

use super::files::read;
use crate::console::Failure;
use std::path::Path;
use std::sync::Arc;
use weir_experiment::yaml::with_file_position;
use weir_switch::program::{self, Program};

/// Loads a compiled P4 program. An error names the file and, where known, the position in it.
pub(super) fn load_program(path: &Path, engine: Engine) -> Result<Arc<Program>, Failure> {
    let text = read(path)?;
    if path.extension().is_some_and(|extension| extension == "p4") {
        let (source, program) = (path.display(), path.with_extension("json"));
        return Err(Failure::Input(format!(
            "{source}: P4 source is not accepted; compile it first with p4c-bm2-ss -o {} {source}",
            program.display()
        )));
    }
    let name = path.display().to_string();
    Program::load(&text, engine.into())
        .map_err(|error| Failure::Input(with_file_position(&name, &text, &error.to_string())))
}

/// How a switch executes its P4 program
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// Compile the program when it is loaded
    #[default]
    Compiled,
    /// Reference interpreter (slower)
    Interpreter,
}

impl From<Engine> for program::Engine {
    fn from(engine: Engine) -> program::Engine {
        match engine {
            Engine::Compiled => program::Engine::Compiled,
            Engine::Interpreter => program::Engine::Interpreter,
        }
    }
}

/// The switch implementations
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
pub(super) enum Switch {
    /// simple_switch_grpc
    Bmv2,
    /// Weir's embedded switch
    Weir,
}
