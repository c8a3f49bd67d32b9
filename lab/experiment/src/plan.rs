//! The table entries that the controller writes for an experiment, the same in every backend.

use crate::backend::Error;
use crate::port_parameters::{self, PortParameterError};
use crate::{Experiment, Scheme};
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::collections::BTreeMap;
use weir_controller::plan::{PlanOptions, plan};
use weir_controller::{BaseRtt, Routes};
use weir_host::law::{CongestionLaw, PortLaw};
use weir_host::scheme::TelemetryOn;
use weir_units::Time;

/// Returns `T` of every sender: the experiment's, or the longest of its topology.
pub fn base_rtt(experiment: &Experiment, routes: &Routes) -> Time {
    let topology = &experiment.topology;
    let longest = || BaseRtt::new(topology, routes, experiment.spec.mtu).max(topology);
    experiment.spec.transport.base_rtt.unwrap_or_else(longest)
}

/// Returns what the controller writes into every switch, by name. `tick` is that of the switches' clock.
///
/// # Errors
///
/// If a port cannot hold a scheme's parameters, or the program lacks an object that the plan or the file's entries
/// name.
pub fn updates(
    experiment: &Experiment,
    scheme: &Scheme,
    routes: &Routes,
    base_rtt: Time,
    tick: Time,
    p4info: &Index,
) -> Result<BTreeMap<String, Vec<Update>>, Error> {
    let refused = |why: String| Error::Input(format!("plan: {why}"));
    let options = options(experiment, scheme, base_rtt, tick).map_err(|error| refused(error.to_string()))?;
    let options = PlanOptions { without_routes: experiment.brings_routes(p4info), ..options };
    let topology = &experiment.topology;
    let mut updates = plan(topology, routes, &options, p4info).map_err(|error| refused(error.to_string()))?;
    for ix in topology.switch_ixs() {
        let further = experiment.further_updates(ix, p4info).map_err(refused)?;
        updates.entry(topology.switch(ix).name.clone()).or_default().extend(further);
    }
    Ok(updates)
}

/// Returns the options of the tables besides routes while `scheme` runs.
fn options(
    experiment: &Experiment,
    scheme: &Scheme,
    base_rtt: Time,
    tick: Time,
) -> Result<PlanOptions, PortParameterError> {
    let mirrors = scheme.config.needs().telemetry == TelemetryOn::Notices;
    let mut options = PlanOptions {
        ecn: experiment.ecn_for(scheme),
        deflection: experiment.deflection_for(scheme, tick),
        mirrors,
        weights: experiment.spec.weights(),
        ..PlanOptions::default()
    };
    if let Some(law) = scheme.config.port_law(base_rtt) {
        // A queue for a rate, which a scheme states for the file's; the rest of a law fits any rate.
        let law = match law {
            PortLaw::Congestion(CongestionLaw { queue, per }) => {
                PortLaw::Congestion(CongestionLaw { queue, per: experiment.scale.rate(per) })
            }
            law => law,
        };
        port_parameters::put(&law, &experiment.topology, tick, &mut options)?;
    }
    Ok(options.first(experiment.first(scheme)))
}
