//! The display of a run in a build without the feature `full`: progress bars only, with the interface of `live.rs`.

use super::args::Args;
use crate::commands::progress::ProgressBars;
use crate::console::{Console, Failure};
use crate::output::ServeOptions;
use weir_experiment::Experiment;

pub(super) type ProgressView = ProgressBars;

impl ProgressBars {
    pub(super) fn open(
        _: &Experiment,
        _: &Args,
        _: Option<&WebView>,
        console: &Console,
    ) -> Result<ProgressBars, Failure> {
        Ok(ProgressBars::new(console.show_progress))
    }

    pub(super) fn close(self) -> (Result<(), Failure>, Vec<String>) {
        (Ok(()), Vec::new())
    }
}

/// The live view in browsers, which this build cannot open.
pub(super) enum WebView {}

impl WebView {
    /// Opens nothing; `check_build` rejects `--serve` before.
    pub(super) fn open(_: ServeOptions) -> Result<Option<WebView>, Failure> {
        Ok(None)
    }

    pub(super) fn url(&self) -> String {
        match *self {}
    }

    pub(super) fn end(&self, _: String) {
        match *self {}
    }
}
