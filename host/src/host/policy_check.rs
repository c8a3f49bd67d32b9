//! Checks whether a host can change to another configuration while the switches keep theirs.

use crate::config::HostConfig;
use crate::policy::PolicyRefusal;

/// Checks that a host with the configuration `present`, for which the switches are configured, can change to
/// `wanted`; otherwise returns the refusal.
pub(super) fn check_applicable(present: &HostConfig, wanted: &HostConfig) -> Result<(), PolicyRefusal> {
    let (here, there) = (present.scheme.needs(), wanted.scheme.needs());
    if present.unmet_needs(&there).is_some() {
        return Err(PolicyRefusal::SwitchProgram);
    }
    let deflects =
        |config: &HostConfig| config.scheme.needs().deflection.map(|it| (it.threshold, it.lifetime));
    let computes = |config: &HostConfig| config.scheme.port_algorithm(config.base_rtt);
    // The record format needs no table entry: the packet selects the action of the same program. Mirroring for RATE
    // packets does.
    let notices =
        |needs: &crate::scheme::Needs| needs.telemetry == crate::scheme::TelemetrySource::RateNotifications;
    // Switches have as many classes for deflected packets as the present scheme has tokens; packets with more tokens
    // would not be deflected.
    let tokens = |config: &HostConfig| config.scheme.needs().deflection.map_or(0, |it| it.tokens);
    if computes(present) != computes(wanted)
        || deflects(present) != deflects(wanted)
        || tokens(wanted) > tokens(present)
        || notices(&here) != notices(&there)
    {
        return Err(PolicyRefusal::SwitchTables);
    }
    if there.ecn.is_some() && here.ecn.is_none() {
        return Err(PolicyRefusal::NoMarks);
    }
    if present.recovery() != wanted.recovery() {
        return Err(PolicyRefusal::Transport);
    }
    wanted.check().map_err(|_| PolicyRefusal::Config)
}
