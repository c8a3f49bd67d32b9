//! Builds the fabric of one scheme of an experiment: switches with the P4 program that the scheme needs and with the
//! controller's table entries, and hosts that run the scheme.

use crate::network::Network;
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use std::sync::Arc;
use weir_controller::Routes;
use weir_controller::reconcile::diff;
use weir_controller::topology::SwitchIx;
use weir_experiment::backend::Error;
use weir_experiment::hosts::base_rtt;
use weir_experiment::hosts::host_config;
use weir_experiment::plan::SwitchTables;
use weir_experiment::rng::stream_seed;
use weir_experiment::{Experiment, Scheme};
use weir_host::Host;
use weir_switch::control::{Control, ControlError};
use weir_switch::engine::{Clock, Switch, SwitchConfig};
use weir_switch::program::{Engine, Program};
use weir_switch::tm::{PauseQuanta, PfcConfig, PfcPort, PortConfig, QueueLimits};
use weir_units::Time;

/// Builds the fabric of one scheme, and new switches when a switch restarts during the run.
pub struct FabricBuilder<'e> {
    experiment: &'e Experiment,
    pub scheme: &'e Scheme,
    program: Arc<Program>,
    p4info: Arc<Index>,
    /// Base RTT of all senders (HPCC's `T`).
    pub base_rtt: Time,
}

impl<'e> FabricBuilder<'e> {
    /// Loads the program of `scheme` for this engine.
    ///
    /// # Errors
    ///
    /// The program does not load.
    pub fn new(
        experiment: &'e Experiment,
        scheme: &'e Scheme,
        engine: Engine,
    ) -> Result<FabricBuilder<'e>, Error> {
        let (program, p4info) = experiment.artifact_of(scheme).load(engine).map_err(Error::Work)?;
        let base_rtt = base_rtt(experiment, experiment.routes());
        Ok(FabricBuilder { experiment, scheme, program, p4info, base_rtt })
    }

    /// Builds the fabric, without pending events.
    ///
    /// # Errors
    ///
    /// A switch rejects a table entry, or a switch or host its configuration.
    pub fn build(&self) -> Result<Network, Error> {
        let topology = &self.experiment.topology;
        let tick = clock(self.base_rtt).time(1);
        let mut hosts = Vec::with_capacity(topology.hosts.len());
        for ix in topology.host_ixs() {
            let config = host_config(self.experiment, self.scheme, ix, self.base_rtt, tick);
            let rejected = |error| Error::Input(format!("host {}: {error}", topology.host(ix).name));
            hosts.push(Host::new(config).map_err(rejected)?);
        }
        Ok(Network::new(topology, self.switches()?, hosts))
    }

    /// Returns a switch with the program and empty tables, as after a restart.
    ///
    /// # Errors
    ///
    /// The switch rejects its configuration.
    pub fn empty_switch(&self, ix: SwitchIx) -> Result<Switch, Error> {
        let name = &self.experiment.topology.switch(ix).name;
        let config = switch_config(self.experiment, self.scheme, ix);
        let config = SwitchConfig { clock: clock(self.base_rtt), ..config };
        Switch::new(Arc::clone(&self.program), config, stream_seed(self.experiment.spec.seed, name))
            .map_err(|error| Error::Input(format!("switch {name}: {error}")))
    }

    /// Installs the table entries that the controller would install in the switch for these routes.
    ///
    /// # Errors
    ///
    /// The entries cannot be computed, or the switch rejects one.
    pub fn install_tables(&self, ix: SwitchIx, switch: &mut Switch, routes: &Routes) -> Result<(), Error> {
        let name = &self.experiment.topology.switch(ix).name;
        self.apply_updates(name, &self.tables(routes)?.updates_for(ix)?, switch)
    }

    /// Replaces the table entries for the routes `before` by those for `after` in the switches `of`, as the controller would.
    ///
    /// # Errors
    ///
    /// The entries cannot be computed, or a switch rejects an update.
    pub fn reroute(
        &self,
        (before, after): (&Routes, &Routes),
        of: impl Iterator<Item = SwitchIx>,
        network: &Network,
    ) -> Result<(), Error> {
        let before = self.tables(before)?.desired_states()?;
        let after = self.tables(after)?.desired_states()?;
        for ix in of {
            let name = &self.experiment.topology.switch(ix).name;
            let actual: Vec<_> = before[name].entities().map(|desired| desired.entity.clone()).collect();
            let steps = diff(&after[name], &actual, &self.p4info).steps;
            let updates: Vec<Update> = steps.into_iter().map(|step| step.update).collect();
            self.apply_updates(name, &updates, &mut network.view().switch_mut(ix).switch)?;
        }
        Ok(())
    }

    fn tables<'a>(&'a self, routes: &'a Routes) -> Result<SwitchTables<'a>, Error> {
        let tick = clock(self.base_rtt).time(1);
        SwitchTables::new(self.experiment, self.scheme, routes, self.base_rtt, tick, &self.p4info)
    }

    fn apply_updates(&self, name: &str, updates: &[Update], switch: &mut Switch) -> Result<(), Error> {
        let rejected = |error: ControlError| Error::Work(format!("switch {name}: {error}"));
        let mut control = Control::new(Arc::clone(&self.p4info), switch).map_err(rejected)?;
        updates.iter().try_for_each(|update| control.apply(switch, update).map_err(rejected))
    }

    fn switches(&self) -> Result<Vec<Switch>, Error> {
        let topology = &self.experiment.topology;
        let tables = self.tables(self.experiment.routes())?;
        let mut switches = Vec::with_capacity(topology.switches.len());
        for ix in topology.switch_ixs() {
            let name = &topology.switch(ix).name;
            let mut switch = self.empty_switch(ix)?;
            self.apply_updates(name, &tables.updates_for(ix)?, &mut switch)?;
            switches.push(switch);
        }
        Ok(switches)
    }
}

/// Largest base RTT with telemetry timestamps in ns. Half of the range of their 24 bits is 8.4 ms; two ACKs of a flow at
/// half of its fair share must be closer together.
const MAX_RTT_FOR_NS_CLOCK: Time = Time::from_ms(4);

/// Returns the unit of telemetry timestamps: ns as in hardware, or us as in BMv2 if the fabric is slow.
fn clock(base_rtt: Time) -> Clock {
    if base_rtt <= MAX_RTT_FOR_NS_CLOCK { Clock::Ns } else { Clock::Us }
}

fn switch_config(experiment: &Experiment, scheme: &Scheme, ix: SwitchIx) -> SwitchConfig {
    let (topology, spec) = (&experiment.topology, &experiment.spec);
    let slowest = topology.hosts.iter().map(|h| topology.link(h.link).rate).min().unwrap_or_default();
    let pfc = spec.pfc.on().map(|pfc| {
        let mut config = pfc.threshold.map_or_else(PfcConfig::dynamic, PfcConfig::fixed);
        config.resume_offset = pfc.resume_offset.unwrap_or(config.resume_offset);
        config.quanta = pfc.quanta.map_or(config.quanta, |quanta| PauseQuanta(quanta.get()));
        if spec.ack_priority {
            config.exempt = 1 << experiment.feedback_class(scheme); // docs/algorithms/pfc.md#classes: queue 0 is exempt
        }
        config
    });
    let ports = topology.switch(ix).ports().map(|(port, link)| {
        let link = topology.link(link);
        let pfc = pfc.map(|_| PfcPort::for_link(link.rate, link.delay, slowest));
        let packets = spec.queue_packets.unwrap_or(QueueLimits::NONE.packets);
        PortConfig { pfc, limits: QueueLimits { packets, ..QueueLimits::NONE }, ..PortConfig::new(port) }
    });
    SwitchConfig {
        ports: ports.collect(),
        priorities: experiment.priorities(scheme),
        weights: spec.weights(),
        buffer: spec.buffer,
        pfc,
        ..SwitchConfig::new([])
    }
}
