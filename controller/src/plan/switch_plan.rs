//! What the entries of one switch depend on: its routes, its ports and the options of the plan.

use super::entry::{Entry, Port, entry};
use super::error::PlanError;
use super::options::PlanOptions;
use crate::deflect;
use crate::flood::Meter;
use crate::routes::{Routes, SwitchRoutes};
use crate::thresholds::EcnRamp;
use crate::topology::{LinkIx, Node, Switch, SwitchIx, Topology};
use p4runtime::p4info::Index;
use weir_units::RateCode;

/// Table of the queue length above which packets are deflected, per port; programs without it do not deflect.
pub(super) const DEFLECTION: &str = "deflection";

/// One switch of a plan. Port numbers are those of the topology.
pub struct SwitchPlan<'a> {
    topology: &'a Topology,
    routes: &'a Routes,
    pub(super) options: &'a PlanOptions,
    p4info: &'a Index,
    ix: SwitchIx,
    pub(super) ports: Vec<PortPlan>,
    /// The ports from which packets are deflected.
    pub(super) deflecting: Vec<DeflectingPort>,
}

/// A port in use.
pub(super) struct PortPlan {
    pub number: u16,
    link: LinkIx,
    /// Code of the port's rate in telemetry records.
    pub rate_code: u8,
    ecn: EcnRamp,
    pub leads_to_switch: bool,
}

/// A port from which packets are deflected.
pub(super) struct DeflectingPort {
    pub number: u16,
    /// Queue length above which packets are deflected, in the unit of the target.
    pub limit: u32,
    /// The ports to which packets are deflected, each with the one for packets that arrived on it.
    pub candidates: Vec<(u16, u16)>,
}

impl DeflectingPort {
    /// Returns this number of entries of `deflect_port`, with the candidates in turn.
    pub(super) fn slots(&self, count: usize) -> impl Iterator<Item = Entry<'static>> + '_ {
        let slots = (0u16..).zip(self.candidates.iter().cycle()).take(count);
        slots.map(|(index, &(to, other))| {
            entry!(deflect_port[port = Port(self.number), index = index] -> deflect_to(
                port = Port(to), other = Port(other)))
        })
    }
}

impl<'a> SwitchPlan<'a> {
    /// # Errors
    ///
    /// The ECN thresholds or the options of deflection are invalid, or the target cannot represent them.
    pub(super) fn new(
        topology: &'a Topology,
        routes: &'a Routes,
        options: &'a PlanOptions,
        p4info: &'a Index,
        ix: SwitchIx,
    ) -> Result<SwitchPlan<'a>, PlanError> {
        let ports = topology.switch(ix).ports().map(|(number, link)| {
            let rate = topology.link(link).rate;
            Ok(PortPlan {
                number,
                link,
                rate_code: RateCode::from_bandwidth(rate).unwrap_or_default().bits(),
                ecn: options.ecn.map_or(Ok(EcnRamp::default()), |ecn| ecn.ramp(rate))?,
                leads_to_switch: topology
                    .peer(ix, number)
                    .is_some_and(|(_, peer)| matches!(peer.node, Node::Switch(_))),
            })
        });
        let ports = ports.collect::<Result<_, PlanError>>()?;
        let mut plan = SwitchPlan { topology, routes, options, p4info, ix, ports, deflecting: Vec::new() };
        plan.deflecting = plan.deflecting_ports()?;
        Ok(plan)
    }

    fn deflecting_ports(&self) -> Result<Vec<DeflectingPort>, PlanError> {
        let Some(config) = self.options.deflection.filter(|_| self.has(DEFLECTION)) else {
            return Ok(Vec::new());
        };
        config.check()?;
        let ports = self
            .ports
            .iter()
            .filter(|port| config.at_hosts || !self.topology.leads_to_host(self.ix, port.number));
        let mut deflecting = Vec::new();
        for port in ports {
            let candidates = deflect::candidates(self.topology, self.routes, self.ix, port.number);
            if candidates.is_empty() {
                continue;
            }
            // A packet is not deflected to the port on which it arrived: for packets from a candidate, the next one is
            // the alternative.
            let others = candidates.iter().copied().cycle().skip(1);
            let candidates = candidates.iter().copied().zip(others).collect();
            let threshold = config.scaled_threshold(self.topology.link(port.link).rate)?;
            let limit = self.options.target.target().queue_limit(threshold)?;
            deflecting.push(DeflectingPort { number: port.number, limit, candidates });
        }
        Ok(deflecting)
    }

    pub(super) fn has(&self, table: &str) -> bool {
        self.p4info.tables.named(table).is_ok()
    }

    pub fn topology(&self) -> &'a Topology {
        self.topology
    }

    pub fn switch(&self) -> &'a Switch {
        self.topology.switch(self.ix)
    }

    pub fn routes(&self) -> &'a SwitchRoutes {
        self.routes.of(self.ix)
    }

    /// Returns the routes, unless another controller writes them.
    pub(super) fn planned_routes(&self) -> impl Iterator<Item = &'a SwitchRoutes> + use<'a> {
        (!self.options.skip_routes).then_some(self.routes()).into_iter()
    }

    /// Returns the ports with their ECN thresholds. Empty if the program has no profiles and nothing is to be marked.
    pub(super) fn profiled_ports(&self) -> impl Iterator<Item = (&PortPlan, EcnRamp)> {
        let is_profiled = self.has("port_profile") || self.options.ecn.is_some();
        self.ports.iter().filter(move |_| is_profiled).map(|port| (port, port.ecn))
    }

    /// Returns the meter of POLICY packets that arrive on a port; `None` if the port has no link.
    pub(super) fn flood_meter(&self, port: u16) -> Option<Meter> {
        let link = self.topology.switch(self.ix).link_at(port)?;
        Some(self.options.target.target().meter(self.options.flood.meter(self.topology, link)))
    }

    /// Returns the number of tokens of new packets; `None` if the switch does not deflect.
    pub(super) fn deflection_tokens(&self) -> Option<u8> {
        self.options.deflection.filter(|_| self.has(DEFLECTION)).map(|config| config.tokens)
    }

    /// Returns the ticks without a packet after which a deflected message may be forgotten; 0: never.
    pub(super) fn deflection_lifetime(&self) -> u64 {
        self.options.deflection.map_or(0, |config| config.lifetime)
    }

    /// Returns the entries of a table of per-port computations.
    pub(super) fn port_params(&self, table: &str) -> Vec<Entry<'static>> {
        let params = |port: &PortPlan| {
            let params = self.options.port_params.get(&self.topology.link(port.link).rate)?;
            (params.table == table).then(|| Entry {
                table: params.table,
                params: params.params.iter().map(|&(name, number)| (name, number.into())).collect(),
                action: params.action,
                ..entry!(any[port = Port(port.number)] -> any())
            })
        };
        self.ports.iter().filter_map(params).collect()
    }
}
