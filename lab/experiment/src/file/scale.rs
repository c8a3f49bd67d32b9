//! Scale models: the same experiment on slower links.
//!
//! Rates are divided by a factor and times multiplied by it; sizes in bytes are unchanged. Bandwidth-delay products,
//! queues and windows in bytes are therefore the same, and a fabric of 100 Gbit/s that runs at 10 Mbit/s behaves the same,
//! ten thousand times slower, which is slow enough for software switches.

use super::nic::NicSpec;
use super::spec::{ExperimentSpec, PfcSpec};
use crate::catalogue::Catalogue;
use crate::scalar::OffOr;
use std::fmt;
use std::num::NonZeroU64;
use weir_controller::thresholds::EcnConfig;
use weir_controller::topology::{Topology, TopologySpec};
use weir_host::parameter;
use weir_units::{Bandwidth, Time};

/// Converts rates and times of the file to those of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Rate of the slowest hosts in the file.
    pub from: Bandwidth,
    /// Rate of the slowest hosts in the run.
    pub to: Bandwidth,
}

impl Scale {
    /// Returns the scale of an experiment that is not a model: its slowest hosts have this rate.
    pub fn identity(rate: Bandwidth) -> Scale {
        Scale { from: rate, to: rate }
    }

    /// Returns whether the run has the rates of the file.
    pub fn is_identity(self) -> bool {
        self.from == self.to
    }

    /// Returns the factor by which times are longer than in the file.
    pub fn slowdown(self) -> f64 {
        self.from.as_bps_f64() / self.to.as_bps_f64()
    }

    fn time(self, time: Time) -> Time {
        let ps = u128::from(time.as_ps()) * u128::from(self.from.as_bps()) / u128::from(self.to.as_bps());
        Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    pub(crate) fn rate(self, rate: Bandwidth) -> Bandwidth {
        let bps = u128::from(rate.as_bps()) * u128::from(self.to.as_bps()) / u128::from(self.from.as_bps());
        Bandwidth::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    /// Scales the reference rate of the thresholds; the thresholds in bytes are unchanged.
    pub fn ecn(self, ecn: EcnConfig) -> EcnConfig {
        EcnConfig { reference_rate: ecn.reference_rate.map(|rate| self.rate(rate)), ..ecn }
    }

    /// Returns the scaled value of a policy's edit; `None` if it is neither a time nor a rate.
    fn edit(self, value: &str) -> Option<String> {
        let time = value.parse().map(|time| self.time(time).to_string());
        time.ok().or_else(|| value.parse().ok().map(|rate| self.rate(rate).to_string()))
    }

    /// Returns the scale of a model whose slowest hosts have the rate `to`.
    ///
    /// # Errors
    ///
    /// If `to` is 0 or above the rate of the slowest hosts.
    pub fn of_model(topology: &Topology, to: Bandwidth) -> Result<Scale, String> {
        let from = host_rate(topology);
        match to > Bandwidth::ZERO && to <= from {
            true => Ok(Scale { from, to }),
            false => Err(format!("must be above 0 and at most the file's {from}")),
        }
    }

    /// Scales the rates and delays of links.
    pub fn apply_to_topology(self, topology: &mut TopologySpec) {
        let (rates, delays) = topology.quantities();
        rates.into_iter().for_each(|rate| *rate = self.rate(*rate));
        delays.into_iter().for_each(|delay| *delay = self.time(*delay));
    }

    /// Scales all times and rates of an experiment, and removes the paper's values, which do not apply to the model.
    ///
    /// # Errors
    ///
    /// If the keys of a workload are invalid: the path of the key, and the reason.
    pub(super) fn apply(
        self,
        spec: &mut ExperimentSpec,
        catalogue: &Catalogue,
    ) -> Result<(), (String, String)> {
        self.apply_to_topology(&mut spec.topology);
        let mut times = vec![&mut spec.duration, &mut spec.observe.interval];
        times.extend(&mut spec.observe.fairness_window);
        times.extend(&mut spec.observe.warmup);
        times.extend(spec.transport.times_mut());
        if let Some(pfc) = spec.pfc.on_mut() {
            times.push(pfc.watchdog.get_or_insert(PfcSpec::WATCHDOG));
        }
        if let Some(NicSpec {
            send_delay,
            receive_delay,
            ack_delay,
            cnp_delay,
            coalesce_time,
            packet_rate,
            ..
        }) = &mut spec.nic
        {
            times.extend([send_delay, receive_delay, ack_delay, cnp_delay, coalesce_time]);
            if let Some(rate) = packet_rate {
                // A packet takes longer, like a bit.
                let scaled = self.rate(Bandwidth::from_bps(rate.get())).as_bps();
                *rate = NonZeroU64::new(scaled).unwrap_or(NonZeroU64::MIN);
            }
        }
        for flow in &mut spec.flows {
            times.push(&mut flow.start);
            times.extend(&mut flow.stop);
        }
        times.extend(spec.policy.iter_mut().flat_map(|policy| policy.times_mut()));
        times.extend(spec.faults.iter_mut().flat_map(|fault| fault.times_mut()));
        times.into_iter().for_each(|time| *time = self.time(*time));
        spec.edit_workloads(&catalogue.workloads, |workload| {
            workload.times_mut().into_iter().for_each(|time| *time = self.time(*time));
            workload.stretch(self.slowdown());
            if let Some(entry) = workload.scheme_mut() {
                entry.scale(&self, &catalogue.schemes);
            }
        })?;
        if let Some(ecn) = spec.ecn.as_mut().and_then(OffOr::on_mut) {
            *ecn = self.ecn(*ecn);
        }
        let sets = spec.policy.iter_mut().flat_map(|policy| &mut policy.set);
        for value in sets.flat_map(|set| set.edits.values_mut()) {
            if let Some(scaled) = self.edit(value.text()) {
                value.replace(scaled);
            }
        }
        spec.all_schemes_mut().for_each(|entry| entry.scale(&self, &catalogue.schemes));
        spec.paper.clear();
        Ok(())
    }
}

impl parameter::Scale for Scale {
    fn time(&self, time: Time) -> Time {
        Scale::time(*self, time)
    }
    fn rate(&self, rate: Bandwidth) -> Bandwidth {
        Scale::rate(*self, rate)
    }
}

/// `100Gbps runs at 10Mbps, 10000 times slower`
impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} runs at {}, {} times slower", self.from, self.to, self.slowdown())
    }
}

/// Returns the link rate of the slowest host.
pub(super) fn host_rate(topology: &Topology) -> Bandwidth {
    topology.hosts.iter().map(|host| topology.link(host.link).rate).min().unwrap_or_default()
}
