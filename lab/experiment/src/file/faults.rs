//! The key `faults`: faults to inject, and their conversion to changes at points in time.

use super::{ExperimentError, ExperimentSpec, Scheme};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use weir_controller::topology::{AsText, HostIx, SwitchIx, Topology};
use weir_host::schemes::Registry;
use weir_units::{Ratio, Time};

/// A fault to inject.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", tag = "kind")]
pub enum FaultSpec {
    /// Frames on links are lost independently with the same probability, in both directions.
    Loss {
        /// Probability that a frame is lost.
        #[serde_as(as = "AsText")]
        rate: Ratio,
        /// Links: `<node>-<node>`, or a node for all of its links; absent: all links.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// Frames on links are lost, delayed, reordered, duplicated or corrupted, in both directions.
    Impair {
        /// Probability that a frame is lost.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        loss: Option<Ratio>,
        /// Maximum additional delay, uniformly distributed from 0; frames are not reordered.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        jitter: Option<Time>,
        /// Probability that a frame is delayed by `reorder_by`, so that later frames overtake it.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reorder: Option<Ratio>,
        /// Additional delay of a reordered frame.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reorder_by: Option<Time>,
        /// Probability that a frame arrives twice.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        duplicate: Option<Ratio>,
        /// Probability that one bit of a frame is inverted.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        corrupt: Option<Ratio>,
        /// Links: `<node>-<node>`, or a node for all of its links; absent: all links.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// Links are down: frames in flight and frames sent on them are lost. Several links can partition the fabric.
    Down {
        /// Links: `<node>-<node>`, or a node for all of its links.
        links: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// The links of hosts are down from `from` to `to`. With `from: 0` the hosts join late.
    Away {
        /// Names of the hosts.
        hosts: Vec<String>,
        /// Start of the fault.
        #[serde_as(as = "AsText")]
        #[serde(default)]
        from: Time,
        /// End of the fault; absent: the end of the run.
        #[serde_as(as = "Option<AsText>")]
        #[serde(default, skip_serializing_if = "Option::is_none")]
        to: Option<Time>,
    },
    /// A switch restarts: its queued packets are lost and its tables are empty until the controller restores them.
    Restart {
        /// The switch that restarts.
        switch: String,
        /// Time of the restart.
        #[serde_as(as = "AsText")]
        at: Time,
        /// Time from the restart until the controller has restored the tables.
        #[serde_as(as = "AsText")]
        refill_after: Time,
    },
    /// A host that does not know the policy key sends POLICY packets.
    Attack {
        /// The attacking host.
        host: String,
        /// Kind of packets: `forged`, `replayed`, `malformed` or `unicast`.
        with: Attack,
        /// Time of the first packet.
        #[serde_as(as = "AsText")]
        at: Time,
        /// Interval between packets.
        #[serde_as(as = "AsText")]
        every: Time,
        /// Number of packets.
        times: u32,
    },
}

/// The kind of packets that an attacker sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Attack {
    /// A policy with a high version, authenticated with a different key.
    Forged,
    /// POLICY packets that the host received before, the oldest first.
    Replayed,
    /// Replayed packets, truncated.
    Malformed,
    /// Replayed packets, sent to a single host.
    Unicast,
}

/// A change of the fabric or of a policy at a point in time.
#[derive(Clone, Debug, PartialEq)]
pub struct ScheduledChange {
    pub at: Time,
    pub change: Change,
}

/// A change of the impairments of a link; `None` leaves a property unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Impairment {
    /// Probability that a frame is lost.
    pub loss: Option<Ratio>,
    /// Maximum additional delay, without reordering.
    pub jitter: Option<Time>,
    /// Probability that a frame is reordered, and its additional delay.
    pub reorder: Option<(Ratio, Time)>,
    /// Probability that a frame arrives twice.
    pub duplicate: Option<Ratio>,
    /// Probability that one bit is inverted.
    pub corrupt: Option<Ratio>,
}

impl Impairment {
    /// Returns the change that resets the properties that `self` sets.
    fn ended(&self) -> Impairment {
        let none = |ratio: Option<Ratio>| ratio.map(|_| Ratio::default());
        Impairment {
            loss: none(self.loss),
            jitter: self.jitter.map(|_| Time::ZERO),
            reorder: self.reorder.map(|(_, by)| (Ratio::default(), by)),
            duplicate: none(self.duplicate),
            corrupt: none(self.corrupt),
        }
    }

    fn ratios(&self) -> impl Iterator<Item = (&'static str, Ratio)> {
        let reorder = self.reorder.map(|(ratio, _)| ratio);
        [("loss", self.loss), ("reorder", reorder), ("duplicate", self.duplicate), ("corrupt", self.corrupt)]
            .into_iter()
            .filter_map(|(key, ratio)| Some((key, ratio?)))
    }
}

/// One step of a fault, or the setting of a policy. Links are indices into [`Topology::links`].
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// These links get new impairments.
    Impair(Vec<usize>, Impairment),
    /// These links go down.
    Down(Vec<usize>),
    /// These links come up, unless another fault still keeps them down.
    Up(Vec<usize>),
    /// A switch loses its queued packets and its table entries.
    Restart(SwitchIx),
    /// The controller has restored the tables of a switch.
    Refill(SwitchIx),
    /// The policy with this index in `policy.set` is set.
    SetPolicy(usize),
    /// A host sends one packet of an attack.
    Attack(HostIx, Attack),
}

impl FaultSpec {
    /// Returns whether the fault affects only links. Mininet supports these faults too.
    pub fn is_link_fault(&self) -> bool {
        match self {
            FaultSpec::Loss { .. }
            | FaultSpec::Impair { .. }
            | FaultSpec::Down { .. }
            | FaultSpec::Away { .. } => true,
            FaultSpec::Restart { .. } | FaultSpec::Attack { .. } => false,
        }
    }

    /// Returns all times of the fault; a scale model multiplies them.
    pub(super) fn times_mut(&mut self) -> Vec<&mut Time> {
        match self {
            FaultSpec::Impair { from, to, jitter, reorder_by, .. } => {
                [from].into_iter().chain(to).chain(jitter).chain(reorder_by).collect()
            }
            FaultSpec::Loss { from, to, .. }
            | FaultSpec::Down { from, to, .. }
            | FaultSpec::Away { from, to, .. } => [from].into_iter().chain(to).collect(),
            FaultSpec::Restart { at, refill_after, .. } => vec![at, refill_after],
            FaultSpec::Attack { at, every, .. } => vec![at, every],
        }
    }
}

/// Maximum number of packets of an attack. A limit of Weir: each packet is an event of the whole fabric, at which all threads
/// synchronise.
const MAX_ATTACK: u64 = 100_000;

/// Returns the host of this name.
pub(super) fn host(
    topology: &Topology,
    name: &str,
    place: &str,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<HostIx, ExperimentError> {
    let found = topology.host_ixs().find(|&ix| topology.host(ix).name == name);
    found.ok_or_else(|| wrong(place, format!("host \"{name}\" is not declared")))
}

/// Returns the indices of the links that `names` select, in ascending order without duplicates.
fn links(
    topology: &Topology,
    names: &[String],
    place: &str,
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<usize>, ExperimentError> {
    let mut all = Vec::new();
    for name in names {
        let before = all.len();
        for (i, link) in topology.links.iter().enumerate() {
            let ends = [link.a, link.b].map(|end| topology.node_name(end.node));
            // Names of nodes may contain dashes, so the name cannot be split at the first one.
            let between =
                |a: &str, b: &str| name.strip_prefix(a).and_then(|rest| rest.strip_prefix('-')) == Some(b);
            if ends.contains(&name.as_str()) || between(ends[0], ends[1]) || between(ends[1], ends[0]) {
                all.push(i);
            }
        }
        if all.len() == before {
            return Err(wrong(
                place,
                format!("\"{name}\" is neither a node nor a link; a link is written as s1-s2"),
            ));
        }
    }
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Returns all changes, sorted by time. Changes at the same time are in the order of the file, policies last.
pub(super) fn resolve(
    spec: &ExperimentSpec,
    registry: &Registry,
    topology: &Topology,
    schemes: &[Scheme],
    wrong: &impl Fn(&str, String) -> ExperimentError,
) -> Result<Vec<ScheduledChange>, ExperimentError> {
    let mut all = Vec::new();
    let mut add = |at: Time, change: Change| all.push(ScheduledChange { at, change });
    for (i, fault) in spec.faults.iter().enumerate() {
        let place = |key: &str| format!("faults[{i}].{key}");
        let in_order = |from: Time, to: Option<Time>| match to {
            Some(to) if to <= from => Err(wrong(&place("to"), format!("{to} is not after {from}"))),
            _ => Ok(()),
        };
        let links_or_all = |names: &[String], place: &str| match names.is_empty() {
            true => Ok((0..topology.links.len()).collect()),
            false => links(topology, names, place, wrong),
        };
        match fault {
            FaultSpec::Loss { rate, links: names, from, to } => {
                in_order(*from, *to)?;
                if *rate > Ratio::ONE {
                    return Err(wrong(&place("rate"), format!("must be at most 100 %, found {rate}")));
                }
                let links = links_or_all(names, &place("links"))?;
                let impairment = Impairment { loss: Some(*rate), ..Impairment::default() };
                add(*from, Change::Impair(links.clone(), impairment));
                to.iter().for_each(|to| add(*to, Change::Impair(links.clone(), impairment.ended())));
            }
            FaultSpec::Impair {
                loss,
                jitter,
                reorder,
                reorder_by,
                duplicate,
                corrupt,
                links: names,
                from,
                to,
            } => {
                in_order(*from, *to)?;
                let by = match (reorder, reorder_by) {
                    (Some(_), None | Some(Time::ZERO)) => {
                        let what = "`reorder` requires `reorder_by`, for example reorder_by: 5us";
                        return Err(wrong(&place("reorder"), what.to_owned()));
                    }
                    (None, Some(_)) => {
                        let what = "`reorder_by` requires `reorder`, for example reorder: 1%";
                        return Err(wrong(&place("reorder_by"), what.to_owned()));
                    }
                    (_, by) => by.unwrap_or_default(),
                };
                let impairment = Impairment {
                    loss: *loss,
                    jitter: *jitter,
                    reorder: reorder.map(|ratio| (ratio, by)),
                    duplicate: *duplicate,
                    corrupt: *corrupt,
                };
                if impairment == Impairment::default() {
                    let what = "no effect; set at least one of loss, jitter, reorder, duplicate, corrupt";
                    return Err(wrong(&place("kind"), what.to_owned()));
                }
                if let Some((key, ratio)) = impairment.ratios().find(|(_, ratio)| *ratio > Ratio::ONE) {
                    return Err(wrong(&place(key), format!("must be at most 100 %, found {ratio}")));
                }
                let links = links_or_all(names, &place("links"))?;
                add(*from, Change::Impair(links.clone(), impairment));
                to.iter().for_each(|to| add(*to, Change::Impair(links.clone(), impairment.ended())));
            }
            FaultSpec::Down { links: names, from, to } => {
                in_order(*from, *to)?;
                let links = links(topology, names, &place("links"), wrong)?;
                add(*from, Change::Down(links.clone()));
                to.iter().for_each(|to| add(*to, Change::Up(links.clone())));
            }
            FaultSpec::Away { hosts, from, to } => {
                in_order(*from, *to)?;
                for name in hosts {
                    host(topology, name, &place("hosts"), wrong)?;
                }
                let links = links(topology, hosts, &place("hosts"), wrong)?;
                add(*from, Change::Down(links.clone()));
                to.iter().for_each(|to| add(*to, Change::Up(links.clone())));
            }
            FaultSpec::Restart { switch, at, refill_after } => {
                let found = topology.switch_ixs().find(|&ix| topology.switch(ix).name == *switch);
                let none = || wrong(&place("switch"), format!("switch \"{switch}\" is not declared"));
                let ix = found.ok_or_else(none)?;
                add(*at, Change::Restart(ix));
                add(*at + *refill_after, Change::Refill(ix));
            }
            FaultSpec::Attack { host: name, with, at, every, times } => {
                if spec.policy.is_none() {
                    return Err(wrong(
                        &place("kind"),
                        "`attack` requires `policy`; add policy: {}".to_owned(),
                    ));
                }
                let ix = host(topology, name, &place("host"), wrong)?;
                // Packets after the end are never sent.
                let span = spec.duration.saturating_sub(*at);
                let in_run = span.as_ps().checked_div(every.as_ps()).map_or(u64::MAX, |gaps| gaps + 1);
                let packets = u64::from(*times).min(in_run);
                if packets > MAX_ATTACK {
                    let why = format!(
                        "{packets} packets before the end of the run exceed {MAX_ATTACK}; reduce `times` or increase `every`"
                    );
                    return Err(wrong(&place("times"), why));
                }
                (0..packets).for_each(|n| add(*at + *every * n, Change::Attack(ix, *with)));
            }
        }
    }
    if let Some(policy) = &spec.policy {
        policy.check(registry, topology, schemes, wrong)?;
        policy.set.iter().enumerate().for_each(|(i, set)| add(set.at, Change::SetPolicy(i)));
    }
    all.sort_by_key(|scheduled| scheduled.at); // stable
    Ok(all)
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
