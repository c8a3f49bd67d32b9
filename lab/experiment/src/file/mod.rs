//! Experiment files: one YAML file holds all inputs of a run, so that the run can be reproduced from it bit for bit.
//!
//! [`Experiment::load`] reads, checks and resolves a file. All errors are found before anything runs or is written, and
//! are reported with file, line, column and key path.

mod error;
mod faults;
mod flow;
mod overrides;
mod policy;
mod program;
mod resolve;
mod scale;
mod spec;

pub use crate::scalar::{OffOr, Scalar, SchemeEntry};
pub use crate::workload::{SizeRule, SizesSpec, WorkloadSpec};
pub use error::ExperimentError;
pub use faults::{Attack, Change, FaultSpec, Impairment, ScheduledChange};
pub use flow::{Flow, FlowNamer, flow_name};
pub use policy::{PolicySpec, SetSpec, TuneSpec};
pub use program::{Entries, EntriesSpec, ProgramFiles, ProgramSpec};
pub use scale::Scale;
pub use spec::{
    CsvFile, ExperimentSpec, FlowSpec, ObserveSpec, PaperNote, PfcSpec, RecoverySpec, SweepSpec, TableFormat,
    TransportSpec,
};

use crate::artifacts::Artifact;
use crate::catalogue::Catalogue;
use crate::input::read_text;
use crate::workload::{FlowFeed, SourceFactory};
use crate::yaml::Positions;
use p4runtime::p4::v1::Update;
use p4runtime::p4info::Index;
use resolve::{host_rate, locate, read, resolve};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use weir_controller::Routes;
use weir_controller::plan::{
    DATA_PRIORITY, EXPRESS_PRIORITY, FORWARD, PriorityTraffic, last_escape_priority,
};
use weir_controller::profile::{DeflectionConfig, EcnConfig};
use weir_controller::reconcile::{DesiredState, updates};
use weir_controller::routes::RoutingMethod;
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_host::policy::PolicyConfig;
use weir_host::scheme::{Deflection, LossRecovery, QueueThreshold, SchemeConfig};
use weir_host::suggest::did_you_mean;
use weir_host::switch_profile::SwitchProfile;
use weir_units::{Bandwidth, Time};

/// Default length of the fairness window, in tenths of the run.
const FAIRNESS_TENTHS: u64 = 3;

/// A scheme of an experiment with its parameters.
#[derive(Clone)]
pub struct Scheme {
    /// Name in the results; unique within the experiment.
    pub label: String,
    /// Factory of the scheme's senders and receivers.
    pub config: Arc<dyn SchemeConfig>,
}

/// The program of an experiment with the key `program`.
#[derive(Clone)]
struct Program {
    artifact: Artifact,
    offer: SwitchProfile,
}

/// An experiment after all checks: names are resolved to indices, and defaults and overrides are applied.
pub struct Experiment {
    /// The keys, with defaults and overrides applied, scaled if this is a scale model.
    pub spec: ExperimentSpec,
    pub topology: Topology,
    /// The schemes to compare, in the order of the file.
    pub schemes: Vec<Scheme>,
    /// Schemes of hosts whose flows or workload have a `scheme` of their own.
    scheme_overrides: BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    /// Flows that are known before the run, sorted by start; ties in the order of the file.
    pub flows: Vec<Flow>,
    /// Faults and policies, sorted by time.
    pub changes: Vec<ScheduledChange>,
    /// Title and factory of each workload that creates flows during the run.
    workloads: Vec<(String, SourceFactory)>,
    /// `None`: each scheme's own program.
    program: Option<Program>,
    /// Table entries in addition to the controller's plan.
    entries: Vec<Entries>,
    /// Priority class of DATA, for the hosts that `queues` lists.
    classes: BTreeMap<HostIx, u8>,
    /// The switch ports selected by `observe.ports`.
    pub observed_ports: Vec<(SwitchIx, u16)>,
    /// Ratio between the file's rates and those of the run.
    pub scale: Scale,
    pub catalogue: Catalogue,
    /// The keys before scaling, for `run.yaml`.
    original_spec: ExperimentSpec,
    /// The routes while all links are up, computed on first use.
    routes: OnceLock<Routes>,
}

impl Experiment {
    /// Calls [`load_with`](Self::load_with) with the built-in schemes, workloads and topologies.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn load(path: &Path, overrides: &[String], seed: Option<u64>) -> Result<Experiment, ExperimentError> {
        Experiment::load_with(&Catalogue::builtin(), path, overrides, seed)
    }

    /// Reads `path` and applies `overrides` (`a.b=c`) and `seed`. Names of schemes, workloads and topologies are looked up
    /// in `catalogue`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is invalid.
    pub fn load_with(
        catalogue: &Catalogue,
        path: &Path,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        let file = path.display().to_string();
        let text = read_text(path)
            .map_err(|e| ExperimentError::Unreadable { file: file.clone(), reason: e.to_string() })?;
        let stem =
            path.file_stem().map_or_else(|| "experiment".to_owned(), |s| s.to_string_lossy().into_owned());
        Experiment::parse_with(catalogue, &text, &file, &stem, overrides, seed)
    }

    /// Calls [`parse_with`](Self::parse_with) with the built-in schemes, workloads and topologies.
    ///
    /// # Errors
    ///
    /// If the text is not a valid experiment.
    pub fn parse(
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(&Catalogue::builtin(), text, file, default_name, overrides, seed)
    }

    /// Like [`load_with`](Self::load_with), for a text. `file` appears in messages, and paths in the text are relative to
    /// its directory. `default_name` is used if the text has no `name`.
    ///
    /// # Errors
    ///
    /// If the text is not a valid experiment.
    pub fn parse_with(
        catalogue: &Catalogue,
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        let mut positions = Positions::of(text).map_err(|error| ExperimentError::key(file, error))?;
        overrides.iter().for_each(|assignment| positions.mark_overridden(&overrides::path(assignment)));
        let located = |error: ExperimentError| error.located(&positions);
        let mut spec = read(catalogue, text, file, overrides, &positions)?;
        locate(catalogue, &mut spec, file).map_err(located)?;
        if spec.name.is_empty() {
            spec.name = default_name.to_owned();
        }
        if let Some(seed) = seed {
            spec.seed = seed;
        }
        let model_rate = spec.model_rate.take();
        let experiment = resolve(spec, file, catalogue).map_err(located)?;
        match model_rate {
            Some(rate) => experiment.at_rate(rate),
            None => Ok(experiment),
        }
    }

    /// Returns a scale model of the experiment: its slowest hosts have `rate`, all other rates are divided by the same
    /// factor, and times are multiplied by it. Sizes in bytes are unchanged.
    ///
    /// # Errors
    ///
    /// If `rate` is 0 or above the rate of the slowest hosts in the file, or a scaled value is out of its range.
    pub fn at_rate(&self, rate: Bandwidth) -> Result<Experiment, ExperimentError> {
        let scale = Scale { from: self.scale.from, to: rate };
        let refuse = |reason: String| ExperimentError::Rate { rate, reason };
        if rate == Bandwidth::ZERO || rate > scale.from {
            return Err(refuse(format!("must be above 0 and at most the file's {}", scale.from)));
        }
        let mut written = self.original_spec.clone();
        let mut spec = ExperimentSpec { model_rate: None, ..written.clone() };
        if !scale.is_none() {
            scale
                .apply(&mut spec, &self.catalogue)
                .map_err(|(place, reason)| refuse(format!("{place}: {reason}")))?;
            written.model_rate = Some(rate);
        }
        let model = resolve(spec, "the model", &self.catalogue).map_err(|error| refuse(error.to_string()))?;
        Ok(Experiment { scale, original_spec: written, ..model })
    }

    /// Returns the routes while all links are up.
    #[expect(clippy::missing_panics_doc, reason = "only ECMP fails, and loading has tried it")]
    pub fn routes(&self) -> &Routes {
        self.routes.get_or_init(|| {
            weir_controller::routes(&self.topology, self.spec.routing).expect("loading has tried them")
        })
    }

    /// Returns the number of spanning trees, if routes follow trees because ECMP would not be symmetric; `None` if routes use ECMP,
    /// or the file specifies the routing method.
    pub fn trees_instead_of_ecmp(&self) -> Option<usize> {
        let of_file = self.program.as_ref().is_some_and(|program| {
            program.artifact.index().is_ok_and(|p4info| self.provides_routes(&p4info))
        });
        let is_fallback = || self.routes().method == RoutingMethod::Trees;
        (self.spec.routing == RoutingMethod::Auto && !of_file && is_fallback()).then(|| self.routes().trees())
    }

    /// Returns the scheme that `host` uses in the run of `scheme`: the host's own, if it has one.
    pub fn scheme_of(&self, host: HostIx, scheme: &Scheme) -> Arc<dyn SchemeConfig> {
        Arc::clone(self.scheme_overrides.get(&host).unwrap_or(&scheme.config))
    }

    /// Returns the policy configuration of a host; `None` if the experiment has no policies.
    pub fn policy_of(&self, host: HostIx, base_rtt: Time) -> Option<PolicyConfig> {
        let policy = self.spec.policy.as_ref()?;
        let start = faults::join_time(&self.spec, &self.topology.host(host).name);
        Some(policy.config(&self.topology, host, base_rtt, self.spec.seed, start))
    }

    /// Returns the loss recovery in the run of `scheme`.
    pub fn recovery(&self, scheme: &Scheme) -> LossRecovery {
        self.spec.transport.recovery.map_or(scheme.config.needs().transport.recovery, LossRecovery::from)
    }

    /// Returns the number of flows whose rates are recorded: the first ones, in order of their start.
    pub fn recorded_flow_count(&self) -> usize {
        /// A plot with more lines is unreadable.
        const MAX_RECORDED_FLOWS: usize = 16;
        if self.spec.observe.rates { self.flows.len().min(MAX_RECORDED_FLOWS) } else { 0 }
    }

    /// Returns the start of the window over which Jain's index is computed. The window ends with the run.
    pub fn fairness_window_start(&self) -> Time {
        let share = Time::from_ps(self.spec.duration.as_ps() / 10) * FAIRNESS_TENTHS;
        self.spec.duration.saturating_sub(self.spec.observe.fairness_window.unwrap_or(share))
    }

    /// Returns the start of the first flow that starts later than the earliest flow, or `None` if all start together.
    pub fn first_join(&self) -> Option<Time> {
        let first = self.flows.first().map(|flow| flow.start);
        self.flows.iter().map(|flow| flow.start).find(|&start| Some(start) > first)
    }

    /// Returns the P4 program of the switches in the run of `scheme`.
    pub fn artifact_of(&self, scheme: &Scheme) -> Artifact {
        let own = || Artifact::of(scheme.config.needs().program);
        self.program.as_ref().map_or_else(own, |program| program.artifact.clone())
    }

    /// Returns the capabilities of the file's `program`; `None` if the file has no such key.
    pub fn offer(&self) -> Option<SwitchProfile> {
        self.program.as_ref().map(|program| program.offer.clone())
    }

    /// Returns the P4Runtime updates for the file's `entries` on a switch, in addition to the controller's plan.
    ///
    /// # Errors
    ///
    /// If the program lacks an object that the entries refer to. The text has file, line and column.
    pub fn further_updates(&self, switch: SwitchIx, p4info: &Index) -> Result<Vec<Update>, String> {
        let mut goal = DesiredState::default();
        for entries in &self.entries {
            goal.merge(&entries.goal(switch, p4info)?);
        }
        Ok(updates(&goal))
    }

    /// Returns whether `entries` provide the routes, because the program lacks the controller's routing table.
    pub fn provides_routes(&self, p4info: &Index) -> bool {
        !self.entries.is_empty() && p4info.tables.named(FORWARD).is_err()
    }

    /// Returns the ECN thresholds of ports in the run of `scheme`; `None`: no marking.
    pub fn ecn_for(&self, scheme: &Scheme) -> Option<EcnConfig> {
        let ecn = self.spec.ecn_for(&*scheme.config)?;
        // The file's thresholds were scaled with the file; a scheme states its thresholds for the full rate.
        Some(if self.spec.ecn.is_some() { ecn } else { self.scale.ecn(ecn) })
    }

    /// Returns the deflection of switches in the run of `scheme`, if it deflects. `tick` is the period of their clock.
    pub fn deflection_for(&self, scheme: &Scheme, tick: Time) -> Option<DeflectionConfig> {
        let deflection = scheme.config.needs().deflection?;
        // The lifetime is a parameter of the scheme, so it is already scaled.
        let lifetime = deflection.lifetime.map_or(0, |time| (time / tick).max(1));
        let Deflection { threshold: QueueThreshold { queue, per }, at_hosts, tokens, .. } = deflection;
        let per = Some(self.scale.rate(per));
        Some(DeflectionConfig { threshold: queue, per, at_hosts, lifetime, tokens })
    }

    /// Returns the traffic that ports serve with priority in the run of `scheme`.
    pub fn first(&self, scheme: &Scheme) -> PriorityTraffic {
        PriorityTraffic {
            short_messages: scheme.config.needs().express_max_size.is_some(),
            feedback: self.spec.ack_priority,
            weighted: self.spec.queues.len() as u8, // at most MAX_WEIGHTED_QUEUES
        }
    }

    /// Returns the priority class of feedback in the run of `scheme`.
    pub fn feedback_class(&self, scheme: &Scheme) -> u8 {
        self.first(scheme).feedback_queue()
    }

    /// Returns the priority class of a host's DATA packets.
    pub fn data_class(&self, host: HostIx) -> u8 {
        self.classes.get(&host).copied().unwrap_or(DATA_PRIORITY)
    }

    /// Returns the number of priority queues of a port in the run of `scheme`.
    pub fn priorities(&self, scheme: &Scheme) -> u8 {
        let own = [
            scheme.config.needs().deflection.map(|it| last_escape_priority(it.tokens)),
            scheme.config.needs().express_max_size.map(|_| EXPRESS_PRIORITY),
        ];
        own.into_iter().flatten().fold(self.feedback_class(scheme), u8::max) + 1
    }

    /// Returns the link rate of the slowest host.
    pub fn host_rate(&self) -> Bandwidth {
        host_rate(&self.topology)
    }

    /// Returns the content of `run.yaml`: all keys, with every default written out.
    #[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
    pub fn resolved_yaml(&self) -> String {
        serde_yaml::to_string(&self.original_spec).expect("plain data serialises")
    }

    /// Returns whether workloads create flows during the run, in addition to [`flows`](Self::flows).
    pub fn has_dynamic_flows(&self) -> bool {
        !self.workloads.is_empty()
    }

    /// Returns the titles of the workloads that create flows during the run.
    pub fn workload_titles(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().map(|(title, _)| title.as_str())
    }

    /// Returns a new feed of the flows that workloads create during the run.
    pub fn feed(&self) -> FlowFeed {
        FlowFeed::new(self.workloads.iter().map(|(_, make)| make), self.spec.seed)
    }

    /// Returns all flows that start before the end of the run, sorted by start.
    ///
    /// # Errors
    ///
    /// If a workload is a closed loop: its flows start when others end, so they are not known before the run.
    pub fn all_flows(&self) -> Result<Vec<Flow>, ExperimentError> {
        let mut flows = self.flows.clone();
        let mut names = FlowNamer::new(&self.topology, &flows);
        let mut feed = self.feed();
        if feed.is_closed() {
            return Err(ExperimentError::ClosedLoop);
        }
        while let Some(due) = feed.due().filter(|&due| due < self.spec.duration) {
            let Some((_, arrival, random)) = feed.take(due) else { break };
            flows.push(names.flow(arrival, random));
        }
        flows.sort_by_key(|flow| flow.start);
        Ok(flows)
    }

    /// Moves the flows that workloads would create during the run into [`flows`](Self::flows), for backends that need
    /// them in advance.
    ///
    /// # Errors
    ///
    /// Those of [`Experiment::all_flows`].
    pub fn list_flows(&mut self) -> Result<(), ExperimentError> {
        if self.has_dynamic_flows() {
            self.flows = self.all_flows()?;
            self.workloads.clear();
        }
        Ok(())
    }

    /// Removes all schemes except those with these labels.
    ///
    /// # Errors
    ///
    /// If no scheme has one of the labels.
    pub fn retain_schemes(&mut self, labels: &[String]) -> Result<(), ExperimentError> {
        let known: Vec<&str> = self.schemes.iter().map(|s| s.label.as_str()).collect();
        if let Some(unknown) = labels.iter().find(|l| !known.contains(&l.as_str())) {
            let meant = did_you_mean(unknown, known.iter().copied());
            let reason =
                format!("unknown scheme \"{unknown}\"; the experiment has {}{meant}", known.join(", "));
            return Err(ExperimentError::Schemes { reason });
        }
        self.schemes.retain(|s| labels.contains(&s.label));
        for spec in [&mut self.spec, &mut self.original_spec] {
            spec.schemes.retain(|s| labels.contains(&s.label));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
