//! Changes of the fabric and of policies at points in time, from the keys `faults` and `policy`.

use super::error::ExperimentError;
use super::faults::{Attack, FaultSpec};
use super::lookup::{host, links};
use super::scheme::Scheme;
use super::spec::ExperimentSpec;
use std::collections::BTreeMap;
use weir_controller::topology::{HostIx, LinkIx, SwitchIx, Topology};
use weir_controller::{RouteError, Routes, RoutingMethod, reroute};
use weir_host::schemes::Registry;
use weir_host::suggest::did_you_mean;
use weir_switch::link::LinkChange;
use weir_units::{Ratio, Time};

/// A change of the fabric or of a policy at a point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledChange {
    pub at: Time,
    pub change: Change,
}

/// Returns the change that resets the impairments that `change` sets.
fn reset(change: &LinkChange) -> LinkChange {
    let zero = |ratio: Option<Ratio>| ratio.map(|_| Ratio::default());
    LinkChange {
        loss: zero(change.loss),
        jitter: change.jitter.map(|_| Time::ZERO),
        reorder: zero(change.reorder),
        duplicate: zero(change.duplicate),
        corrupt: zero(change.corrupt),
        ..*change
    }
}

/// Returns the probabilities that `change` sets, with their keys.
fn ratios(change: &LinkChange) -> impl Iterator<Item = (&'static str, Ratio)> {
    let LinkChange { loss, reorder, duplicate, corrupt, .. } = *change;
    [("loss", loss), ("reorder", reorder), ("duplicate", duplicate), ("corrupt", corrupt)]
        .into_iter()
        .filter_map(|(key, ratio)| Some((key, ratio?)))
}

/// One step of a fault, or the setting of a policy. Links are indices into [`Topology::links`].
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// These links get new impairments.
    Impair(Vec<usize>, LinkChange),
    /// These links go down.
    Down(Vec<usize>),
    /// These links come up, unless another fault still keeps them down.
    Up(Vec<usize>),
    /// Routes avoid these links.
    Avoid(Vec<usize>),
    /// Routes use these links again, unless another fault still makes them avoid them.
    UseAgain(Vec<usize>),
    /// A switch loses its queued packets and its table entries.
    Restart(SwitchIx),
    /// The controller has restored the tables of a switch.
    Refill(SwitchIx),
    /// The policy with this index in `policy.set` is set.
    SetPolicy(usize),
    /// A host sends one packet of an attack.
    Attack(HostIx, Attack),
}

/// Maximum number of packets of an attack. More would make the simulation slow: all threads synchronise at each packet.
const MAX_ATTACK_PACKETS: u64 = 100_000;

/// Returns the reason why a fault or a policy at this time has no effect.
fn after_end(time: Time, duration: Time) -> String {
    format!("{time} is not before the end of the run ({duration})")
}

/// Returns all changes, sorted by time. Changes at the same time are in the order of the file, policies last.
pub(super) fn resolve(
    spec: &ExperimentSpec,
    registry: &Registry,
    topology: &Topology,
    schemes: &[Scheme],
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<ScheduledChange>, ExperimentError> {
    let mut changes = Vec::new();
    for (index, fault) in spec.faults.iter().enumerate() {
        FaultResolver { spec, topology, index, invalid }.resolve(fault, &mut changes)?;
    }
    if let Some(policy) = &spec.policy {
        policy.check(registry, topology, schemes, invalid)?;
        for (i, set) in policy.set.iter().enumerate() {
            if set.at >= spec.duration {
                return Err(invalid(&format!("policy.set[{i}].at"), after_end(set.at, spec.duration)));
            }
            changes.push(ScheduledChange { at: set.at, change: Change::SetPolicy(i) });
        }
    }
    changes.sort_by_key(|scheduled| scheduled.at); // stable
    Ok(changes)
}

/// Resolves one entry of `faults`.
struct FaultResolver<'a, F> {
    spec: &'a ExperimentSpec,
    topology: &'a Topology,
    /// Position in `faults`.
    index: usize,
    /// Makes an error at a key path.
    invalid: &'a F,
}

impl<F: Fn(&str, String) -> ExperimentError> FaultResolver<'_, F> {
    /// Appends the changes of the fault, and checks that it begins before the end.
    fn resolve(&self, fault: &FaultSpec, changes: &mut Vec<ScheduledChange>) -> Result<(), ExperimentError> {
        let (key, start) = match fault {
            FaultSpec::Impair { from, .. }
            | FaultSpec::Down { from, .. }
            | FaultSpec::Reroute { from, .. }
            | FaultSpec::Away { from, .. } => ("from", *from),
            FaultSpec::Restart { at, .. } | FaultSpec::Attack { at, .. } => ("at", *at),
        };
        if start >= self.spec.duration {
            return Err(self.error(key, after_end(start, self.spec.duration)));
        }
        if let Some(to) = fault.end().filter(|&to| to <= start) {
            return Err(self.error("to", format!("{to} is not after {start}")));
        }
        let mut schedule = |at: Time, change: Change| changes.push(ScheduledChange { at, change });
        let begin_and_end = match fault {
            FaultSpec::Impair { links, .. } => {
                let impairment = self.impairment(fault)?;
                let links = match links.is_empty() {
                    true => (0..self.topology.links.len()).collect(),
                    false => self.links("links", links)?,
                };
                (Change::Impair(links.clone(), impairment), Change::Impair(links, reset(&impairment)))
            }
            FaultSpec::Down { links, .. } => {
                if links.is_empty() {
                    return Err(self.error("links", "no link; name at least one, for example s1-h1"));
                }
                let links = self.links("links", links)?;
                (Change::Down(links.clone()), Change::Up(links))
            }
            FaultSpec::Reroute { links, .. } => {
                let links = self.links("links", links)?;
                (Change::Avoid(links.clone()), Change::UseAgain(links))
            }
            FaultSpec::Away { hosts, .. } => {
                if hosts.is_empty() {
                    return Err(self.error("hosts", "no host; name at least one, for example h1"));
                }
                for (position, name) in hosts.iter().enumerate() {
                    let key_path = self.key_path(&format!("hosts[{position}]"));
                    host(self.topology, name, &key_path, self.invalid)?;
                }
                let links = self.links("hosts", hosts)?;
                (Change::Down(links.clone()), Change::Up(links))
            }
            FaultSpec::Restart { switch, refill_after, .. } => {
                let ix = self.switch(switch)?;
                schedule(start, Change::Restart(ix));
                // Another restart before the tables are restored makes the controller start again.
                let refill_at = start + *refill_after;
                let is_interrupted = restarts(self.spec, switch)
                    .any(|other| other > (start, self.index) && other.0 <= refill_at);
                if !is_interrupted {
                    schedule(refill_at, Change::Refill(ix));
                }
                return Ok(());
            }
            FaultSpec::Attack { host: name, with, every, times, .. } => {
                if self.spec.policy.is_none() {
                    return Err(self.error("kind", "`attack` requires `policy`; add policy: {}"));
                }
                let ix = host(self.topology, name, &self.key_path("host"), self.invalid)?;
                let packets = self.attack_packets(start, *every, *times)?;
                (0..packets).for_each(|n| schedule(start + *every * n, Change::Attack(ix, *with)));
                return Ok(());
            }
        };
        schedule(start, begin_and_end.0);
        fault.end().into_iter().for_each(|to| schedule(to, begin_and_end.1.clone()));
        Ok(())
    }

    fn key_path(&self, key: &str) -> String {
        format!("faults[{}].{key}", self.index)
    }

    fn error(&self, key: &str, reason: impl Into<String>) -> ExperimentError {
        (self.invalid)(&self.key_path(key), reason.into())
    }

    fn links(&self, key: &str, names: &[String]) -> Result<Vec<usize>, ExperimentError> {
        links(self.topology, names, &self.key_path(key), self.invalid)
    }

    /// Returns the change that an `impair` makes to its links.
    fn impairment(&self, fault: &FaultSpec) -> Result<LinkChange, ExperimentError> {
        let FaultSpec::Impair { loss, jitter, reorder, reorder_by, duplicate, corrupt, .. } = fault else {
            return Ok(LinkChange::default());
        };
        match (reorder, reorder_by) {
            (Some(_), None | Some(Time::ZERO)) => {
                let reason = "`reorder` requires `reorder_by`, for example reorder_by: 5us";
                return Err(self.error("reorder", reason));
            }
            (None, Some(_)) => {
                return Err(
                    self.error("reorder_by", "`reorder_by` requires `reorder`, for example reorder: 1%")
                );
            }
            _ => {}
        }
        let impairment = LinkChange {
            loss: *loss,
            jitter: *jitter,
            reorder: *reorder,
            reorder_by: *reorder_by,
            duplicate: *duplicate,
            corrupt: *corrupt,
            ..LinkChange::default()
        };
        if impairment.is_empty() {
            let reason = "no effect; set at least one of loss, jitter, reorder, duplicate, corrupt";
            return Err(self.error("kind", reason));
        }
        if let Some((key, ratio)) = ratios(&impairment).find(|(_, ratio)| *ratio > Ratio::ONE) {
            return Err(self.error(key, ratio.exceeds_one()));
        }
        Ok(impairment)
    }

    fn switch(&self, name: &str) -> Result<SwitchIx, ExperimentError> {
        let topology = self.topology;
        let found = topology.switch_ixs().find(|&ix| topology.switch(ix).name == *name);
        found.ok_or_else(|| {
            let names = || topology.switch_ixs().map(|ix| topology.switch(ix).name.as_str());
            let meant = did_you_mean(name, names());
            let known = names().next().zip(names().last());
            let known = known
                .map_or_else(String::new, |(first, last)| format!("; the topology has {first} to {last}"));
            self.error("switch", format!("switch \"{name}\" is not declared{known}{meant}"))
        })
    }

    /// Returns the number of packets that an attack sends before the end of the run; packets after it are never sent.
    fn attack_packets(&self, at: Time, every: Time, times: u32) -> Result<u64, ExperimentError> {
        let remaining = self.spec.duration.saturating_sub(at);
        let in_run = remaining.as_ps().checked_div(every.as_ps()).map_or(u64::MAX, |intervals| intervals + 1);
        let packets = u64::from(times).min(in_run);
        if packets > MAX_ATTACK_PACKETS {
            let reason = format!(
                "{packets} packets before the end of the run exceed {MAX_ATTACK_PACKETS}; reduce `times` or increase `every`"
            );
            return Err(self.error("times", reason));
        }
        Ok(packets)
    }
}

/// The links that routes avoid at a point in time.
#[derive(Clone, Debug, Default)]
pub struct AvoidedLinks {
    /// Number of faults that make routes avoid each link.
    faults: BTreeMap<LinkIx, u32>,
}

impl AvoidedLinks {
    /// Follows a change. Returns whether it concerns routes.
    pub fn apply(&mut self, change: &Change) -> bool {
        match change {
            Change::Avoid(links) => {
                links.iter().for_each(|&link| *self.faults.entry(LinkIx(link as u32)).or_default() += 1);
            }
            Change::UseAgain(links) => {
                for &link in links {
                    let faults = self.faults.entry(LinkIx(link as u32)).or_default();
                    *faults = faults.saturating_sub(1);
                }
            }
            _ => return false,
        }
        self.faults.retain(|_, faults| *faults > 0);
        true
    }

    /// Returns the routes that avoid the links. `base` are those with all links, `current` those in force.
    ///
    /// # Errors
    ///
    /// `method` is ECMP, which is not symmetric without these links.
    pub fn routes(
        &self,
        topology: &Topology,
        method: RoutingMethod,
        base: &Routes,
        current: &Routes,
    ) -> Result<Routes, RouteError> {
        if self.faults.is_empty() {
            return Ok(base.clone());
        }
        reroute(&topology.without_links(&self.faults.keys().copied().collect()), method, current)
    }
}

/// Checks that ECMP stays symmetric after every change. Other methods always have routes.
pub(super) fn check_reroutes(
    topology: &Topology,
    routes: &Routes,
    changes: &[ScheduledChange],
    invalid: &impl Fn(&str, String) -> ExperimentError,
) -> Result<(), ExperimentError> {
    let mut avoided = AvoidedLinks::default();
    for ScheduledChange { at, change } in changes {
        if avoided.apply(change)
            && let Err(error) = avoided.routes(topology, RoutingMethod::Ecmp, routes, routes)
        {
            return Err(invalid("routing", format!("after the `reroute` at {at}: {error}")));
        }
    }
    Ok(())
}

/// Returns the times of all restarts of a switch, each with its index in `faults`.
fn restarts(spec: &ExperimentSpec, name: &str) -> impl Iterator<Item = (Time, usize)> {
    spec.faults.iter().enumerate().filter_map(move |(i, fault)| match fault {
        FaultSpec::Restart { switch, at, .. } if switch == name => Some((*at, i)),
        _ => None,
    })
}

/// Returns the time at which a host joins: the end of its last `away` from time 0, or 0.
pub(super) fn join_time(spec: &ExperimentSpec, name: &str) -> Time {
    let away = spec.faults.iter().filter_map(|fault| match fault {
        FaultSpec::Away { hosts, from: Time::ZERO, to: Some(to) }
            if hosts.iter().any(|host| host == name) =>
        {
            Some(*to)
        }
        _ => None,
    });
    away.max().unwrap_or(Time::ZERO)
}
