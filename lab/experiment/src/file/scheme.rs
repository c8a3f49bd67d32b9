//! A scheme of an experiment, and its configuration from an entry of the file.

use super::error::ExperimentError;
use super::program::{Entries, Program};
use crate::artifacts::Artifact;
use crate::scalar::SchemeEntry;
use crate::yaml::join_path;
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::sync::Arc;
use weir_controller::plan::FORWARD;
use weir_controller::reconcile::{DesiredState, updates};
use weir_controller::topology::SwitchIx;
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
    /// P4 program from the file; `None`: the scheme's own.
    pub(super) program: Option<Program>,
    /// Table entries in addition to the controller's plan.
    pub(super) entries: Arc<[Entries]>,
}

impl Scheme {
    /// Returns the P4 program of the switches.
    pub(super) fn artifact(&self) -> Artifact {
        let own = || Artifact::builtin(self.config.needs().program);
        self.program.as_ref().map_or_else(own, |program| program.artifact.clone())
    }

    /// Returns the P4Runtime updates for the file's `entries` on a switch, in addition to the controller's plan.
    ///
    /// # Errors
    ///
    /// If the program lacks an object that the entries refer to. The text has file, line and column.
    pub fn entry_updates(&self, switch: SwitchIx, p4info: &Index) -> Result<Vec<Update>, String> {
        let mut desired = DesiredState::default();
        for entries in &*self.entries {
            desired.merge(&entries.desired_state(switch, p4info)?);
        }
        Ok(updates(&desired))
    }

    /// Returns whether `entries` provide the routes, because the program lacks the controller's routing table.
    pub fn provides_routes(&self, p4info: &Index) -> bool {
        !self.entries.is_empty() && p4info.tables.named(FORWARD).is_err()
    }
}

/// Returns the configuration of the scheme `entry`, at `key_path`.
pub(super) fn configure(
    registry: &Registry,
    entry: &SchemeEntry,
    key_path: &str,
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Arc<dyn SchemeConfig>, ExperimentError> {
    entry.config(registry).map_err(|error| {
        let SchemeError::Parameter(error) = error else { return invalid(key_path, error.to_string()) };
        let at_parameter =
            invalid(&join_path(key_path, &format!("set.{}", error.parameter())), error.reason());
        match error {
            ParameterError::Unknown { .. } => at_parameter.about_key(),
            ParameterError::InvalidValue { .. } => at_parameter,
        }
    })
}
