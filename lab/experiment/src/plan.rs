//! Table entries that the controller writes for an experiment, the same for every backend.

use crate::backend::Error;
use crate::port_parameters::{self, PortParameterError};
use crate::{Experiment, Scheme};
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::collections::BTreeMap;
use std::fmt::Display;
use weir_controller::Routes;
use weir_controller::plan::{PlanOptions, Planner};
use weir_controller::reconcile::DesiredState;
use weir_controller::topology::{SwitchIx, Topology};
use weir_host::port_algorithm::{CongestionThreshold, PortAlgorithm};
use weir_host::scheme::TelemetrySource;
use weir_units::Time;

/// The table contents of all switches in the run of one scheme.
pub struct SwitchTables<'e> {
    topology: &'e Topology,
    scheme: &'e Scheme,
    planner: Planner<'e>,
    p4info: &'e Index,
}

impl<'e> SwitchTables<'e> {
    /// Plans the tables. `tick` is the period of the switches' clock.
    ///
    /// # Errors
    ///
    /// If a parameter of the scheme does not fit the tables of a port, or the program lacks a table of the plan.
    pub fn new(
        experiment: &'e Experiment,
        scheme: &'e Scheme,
        routes: &'e Routes,
        base_rtt: Time,
        tick: Time,
        p4info: &'e Index,
    ) -> Result<SwitchTables<'e>, Error> {
        let options = options(experiment, scheme, base_rtt, tick).map_err(plan_error)?;
        let options = PlanOptions { skip_routes: scheme.provides_routes(p4info), ..options };
        let planner = Planner::new(&experiment.topology, routes, options, p4info).map_err(plan_error)?;
        Ok(SwitchTables { topology: &experiment.topology, scheme, planner, p4info })
    }

    /// Returns the updates for one switch.
    ///
    /// # Errors
    ///
    /// If the program lacks an object that the plan or the file's entries refer to.
    pub fn updates_for(&self, ix: SwitchIx) -> Result<Vec<Update>, Error> {
        let mut updates = self.planner.updates(ix).map_err(plan_error)?;
        updates.extend(self.scheme.entry_updates(ix, self.p4info).map_err(plan_error)?);
        Ok(updates)
    }

    /// Returns the planned entities of every switch, by the name of the switch, without those of the file's `entries`.
    ///
    /// # Errors
    ///
    /// Those of [`SwitchTables::updates_for`].
    pub fn desired_states(&self) -> Result<BTreeMap<String, DesiredState>, Error> {
        self.planner.desired_states().map_err(plan_error)
    }

    /// Returns the updates for every switch, by the name of the switch.
    ///
    /// # Errors
    ///
    /// Those of [`SwitchTables::updates_for`].
    pub fn all_updates(&self) -> Result<BTreeMap<String, Vec<Update>>, Error> {
        self.topology
            .switch_ixs()
            .map(|ix| Ok((self.topology.switch(ix).name.clone(), self.updates_for(ix)?)))
            .collect()
    }
}

fn plan_error(reason: impl Display) -> Error {
    Error::Input(format!("plan: {reason}"))
}

/// Returns the options of the plan in the run of `scheme`.
fn options(
    experiment: &Experiment,
    scheme: &Scheme,
    base_rtt: Time,
    tick: Time,
) -> Result<PlanOptions, PortParameterError> {
    let port_clone_sessions = scheme.config.needs().telemetry == TelemetrySource::RateNotifications;
    let mut options = PlanOptions {
        ecn: experiment.ecn_for(scheme),
        deflection: experiment.deflection_for(scheme, tick),
        port_clone_sessions,
        weights: experiment.spec.weights(),
        ..PlanOptions::default()
    };
    if let Some(algorithm) = scheme.config.port_algorithm(base_rtt) {
        // `reference_rate` is the rate for which the scheme states the threshold, so a scale model has to scale it. The
        // other port algorithms do not refer to a rate.
        let algorithm = match algorithm {
            PortAlgorithm::Congestion(CongestionThreshold { queue, reference_rate }) => {
                PortAlgorithm::Congestion(CongestionThreshold {
                    queue,
                    reference_rate: experiment.scale.rate(reference_rate),
                })
            }
            algorithm => algorithm,
        };
        port_parameters::apply_port_algorithm(&algorithm, &experiment.topology, tick, &mut options)?;
    }
    Ok(options.prioritise(experiment.priority_traffic(scheme)))
}
