//! Writes and reads the output of runs: a directory with results, time series, charts and an HTML report.
//!
//! [`RunDir`] chooses the directory before a run and locks it ([`lock`]). [`CheckpointWriter`] writes checkpoints to
//! a partial directory next to it, and at the end the complete results with a [`manifest`] of the files, in one step.
//! [`table`](table::table) shows the summary on the terminal. [`sweep`] runs an experiment many times with varied
//! keys, and [`papers`] compares results with values published in papers.

pub mod chart;
pub mod checkpoint;
pub mod compare;
mod completion;
pub mod describe;
pub mod dir;
pub mod extensions;
pub mod figures;
pub mod files;
#[cfg(test)]
pub mod fixtures;
pub mod format;
pub mod formula;
pub mod interactive;
pub mod load;
pub mod lock;
pub mod manifest;
pub mod metrics;
pub mod names;
pub mod output;
pub mod page;
pub mod paper_value;
pub mod papers;
pub mod perfetto;
pub mod policy;
pub mod program;
pub mod rescale;
mod run_files;
pub mod sweep;
pub mod table;
pub mod tables;
pub mod unit;

pub use checkpoint::{CheckpointWriter, CheckpointingObserver};
pub use describe::{RunDescription, SectionBuilder, describe};
pub use dir::{DirError, RunDir};
pub use extensions::Extensions;
pub use names::file_name;
pub use page::failures;
pub use paper_value::PaperValue;
pub use program::{ProgramInfo, VERSION};
pub use run_files::{write, write_fabric};
pub use tables::TableSelection;
