//! Decides whether a host can change to another configuration while the switches stay as they are.

use crate::config::HostConfig;
use crate::policy::PolicyRefusal;

/// Checks that a host that is configured as `present`, as its switches are, may become as `wanted`.
pub(super) fn check_applicable(present: &HostConfig, wanted: &HostConfig) -> Result<(), PolicyRefusal> {
    let (here, there) = (present.scheme.needs(), wanted.scheme.needs());
    if present.unmet_needs(&there).is_some() {
        return Err(PolicyRefusal::SwitchProgram);
    }
    let deflects =
        |config: &HostConfig| config.scheme.needs().deflection.map(|it| (it.threshold, it.lifetime));
    let computes = |config: &HostConfig| config.scheme.port_algorithm(config.base_rtt);
    // Records of another form take another action of the same program, at the demand of the packet; mirrors do not.
    let notices =
        |needs: &crate::scheme::Needs| needs.telemetry == crate::scheme::TelemetrySource::RateNotifications;
    // Packets with more tokens than switches have classes for are not deflected.
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
