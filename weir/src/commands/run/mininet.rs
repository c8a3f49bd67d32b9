//! `weir run --backend mininet`: the backend in real time.

use super::args::Args;
use crate::commands::host::policy::check_key;
use crate::commands::program::Switch;
use crate::console::Failure;
use crate::interrupt::SIGNALS;
use crate::privilege;
use std::path::PathBuf;
use weir_experiment::Experiment;
use weir_experiment::backend::Backend;
use weir_testbed::Mininet;

/// Gives up the capabilities of root that a run in Mininet does not need.
pub(super) fn retain_capabilities() -> Result<(), Failure> {
    privilege::retain_capabilities(privilege::MININET_CAPABILITIES)
}

/// Returns the backend. `pcaps` is the directory for captures.
pub(super) fn backend(
    experiment: &Experiment,
    args: &Args,
    pcaps: Option<PathBuf>,
) -> Result<Box<dyn Backend>, Failure> {
    Ok(Box::new(Mininet {
        switch: args.switch.map(Switch::kind),
        process_per_switch: args.process_per_switch,
        cli: args.cli,
        pcaps,
        policy_key: policy_key(experiment, args)?,
        signals: SIGNALS,
    }))
}

/// Returns the absolute path of the policy key, after checking that agents can use the key.
fn policy_key(experiment: &Experiment, args: &Args) -> Result<Option<PathBuf>, Failure> {
    if experiment.spec.policy.is_some() && args.policy_key.is_none() {
        return Err(Failure::input("`policy` in Mininet requires --policy-key FILE"));
    }
    args.policy_key.as_deref().map(check_key).transpose()
}
