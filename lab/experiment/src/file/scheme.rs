//! A scheme of an experiment, and its configuration from an entry of the file.

use super::error::ExperimentError;
use crate::scalar::SchemeEntry;
use crate::yaml::join_path;
use std::sync::Arc;
use weir_host::parameter::ParameterError;
use weir_host::scheme::SchemeConfig;
use weir_host::schemes::{Registry, SchemeError};

/// A scheme of an experiment with its parameters.
#[derive(Clone)]
pub struct Scheme {
    /// Name in the results; unique within the experiment.
    pub label: String,
    /// Factory of the scheme's senders and receivers.
    pub config: Arc<dyn SchemeConfig>,
}

/// Returns the configuration of the scheme `entry`, at `key_path`.
pub(super) fn configure(
    registry: &Registry,
    entry: &SchemeEntry,
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Arc<dyn SchemeConfig>, ExperimentError> {
    entry.config(registry).map_err(|error| {
        let reason = error.to_string();
        let SchemeError::Parameter(error) = error else { return invalid(key_path, reason) };
        let at_parameter = invalid(&join_path(key_path, &format!("set.{}", error.parameter())), reason);
        match error {
            ParameterError::Unknown { .. } => at_parameter.about_key(),
            ParameterError::InvalidValue { .. } => at_parameter,
        }
    })
}
