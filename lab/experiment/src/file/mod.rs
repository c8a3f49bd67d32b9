//! Experiment files: one YAML says everything that a run needs, so that others get the same bytes
//! from the same file.
//!
//! [`Experiment::load`] reads, checks and resolves a file; whatever is wrong with it is found here,
//! before anything runs or is written, and named with its place.

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

/// The default fairness window: this many tenths of the run, at its end.
const FAIRNESS_TENTHS: u64 = 3;

/// A scheme of an experiment, its parameters set.
#[derive(Clone)]
pub struct Scheme {
    /// Its name in the results.
    pub label: String,
    /// The factory of its senders and receivers.
    pub config: Arc<dyn SchemeConfig>,
}

/// The program that a file names.
#[derive(Clone)]
struct Program {
    artifact: Artifact,
    offer: SwitchProfile,
}

/// A checked experiment.
pub struct Experiment {
    /// The keys, defaults filled in and overrides applied.
    pub spec: ExperimentSpec,
    /// The fabric.
    pub topology: Topology,
    /// The schemes to compare, in the file's order.
    pub schemes: Vec<Scheme>,
    /// Hosts whose flows have a scheme of their own.
    scheme_overrides: BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    /// Flows that are known beforehand, by start time, ties in the file's order.
    pub flows: Vec<Flow>,
    /// Faults and policies, by time.
    pub changes: Vec<ScheduledChange>,
    /// Workloads that create flows during the run, each with a few words about it.
    workloads: Vec<(String, SourceFactory)>,
    /// The program of all switches, if the file names one.
    program: Option<Program>,
    /// Entries besides the plan's.
    entries: Vec<Entries>,
    /// Hosts whose DATA has a queue of its own, and its class.
    classes: BTreeMap<HostIx, u8>,
    /// The switch ports that `observe.ports` names.
    pub observed_ports: Vec<(SwitchIx, u16)>,
    /// Factor by which the run is slower than the file.
    pub scale: Scale,
    /// The schemes, workloads and topologies that it can name.
    pub catalogue: Catalogue,
    /// The keys as they are written: those of the original, if this is a model of it.
    original_spec: ExperimentSpec,
    /// The routes while all links are up, once somebody has asked for them.
    routes: OnceLock<Routes>,
}

impl Experiment {
    /// As [`load_with`](Self::load_with), with what comes with Weir.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or anything in it is wrong.
    pub fn load(path: &Path, overrides: &[String], seed: Option<u64>) -> Result<Experiment, ExperimentError> {
        Experiment::load_with(&Catalogue::builtin(), path, overrides, seed)
    }

    /// Reads `path`, applies `overrides` (`a.b=c`) and the seed of the command line. Names of schemes and kinds
    /// are looked up in `catalogue`.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or anything in it is wrong.
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

    /// As [`parse_with`](Self::parse_with), with what comes with Weir.
    ///
    /// # Errors
    ///
    /// If anything in the text is wrong.
    pub fn parse(
        text: &str,
        file: &str,
        default_name: &str,
        overrides: &[String],
        seed: Option<u64>,
    ) -> Result<Experiment, ExperimentError> {
        Experiment::parse_with(&Catalogue::builtin(), text, file, default_name, overrides, seed)
    }

    /// As [`load_with`](Self::load_with), from text. `file` stands in messages and is what paths in the text are
    /// relative to; `default_name` names an experiment that has no `name`.
    ///
    /// # Errors
    ///
    /// If anything in the text is wrong.
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

    /// Returns the experiment as a scale model: its slowest hosts have `rate`, and all other rates, sizes and times
    /// are in proportion.
    ///
    /// # Errors
    ///
    /// `rate` is 0 or above the file's, or a scaled value is outside its range.
    pub fn at_rate(&self, rate: Bandwidth) -> Result<Experiment, ExperimentError> {
        let scale = Scale { from: self.scale.from, to: rate };
        let refuse = |reason: String| ExperimentError::Rate { rate, reason };
        if rate == Bandwidth::ZERO || rate > scale.from {
            return Err(refuse(format!("a model is slower than the file's {}, not stopped", scale.from)));
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

    /// Returns the number of spanning trees by which packets go because ECMP would not be symmetric; `None` if they go by
    /// ECMP, or the file chooses the routes.
    pub fn trees_instead_of_ecmp(&self) -> Option<usize> {
        let of_file = self.program.as_ref().is_some_and(|program| {
            program.artifact.index().is_ok_and(|p4info| self.provides_routes(&p4info))
        });
        let is_fallback = || self.routes().method == RoutingMethod::Trees;
        (self.spec.routing == RoutingMethod::Auto && !of_file && is_fallback()).then(|| self.routes().trees())
    }

    /// Returns the scheme that `host` uses while `scheme` runs: its own, if it has one.
    pub fn scheme_of(&self, host: HostIx, scheme: &Scheme) -> Arc<dyn SchemeConfig> {
        Arc::clone(self.scheme_overrides.get(&host).unwrap_or(&scheme.config))
    }

    /// Returns the policy configuration of a host; `None` if the experiment has no policies.
    pub fn policy_of(&self, host: HostIx, base_rtt: Time) -> Option<PolicyConfig> {
        let policy = self.spec.policy.as_ref()?;
        let start = faults::join_time(&self.spec, &self.topology.host(host).name);
        Some(policy.config(&self.topology, host, base_rtt, self.spec.seed, start))
    }

    /// Returns the kind of loss recovery while `scheme` runs.
    pub fn recovery(&self, scheme: &Scheme) -> LossRecovery {
        self.spec.transport.recovery.map_or(scheme.config.needs().transport.recovery, LossRecovery::from)
    }

    /// Returns the number of flows whose rates are recorded: the first ones, in order of their start.
    pub fn recorded_flow_count(&self) -> usize {
        /// More cannot be told apart in a plot.
        const MAX_RECORDED_FLOWS: usize = 16;
        if self.spec.observe.rates { self.flows.len().min(MAX_RECORDED_FLOWS) } else { 0 }
    }

    /// Returns the time at which the window begins over which Jain's index is taken.
    pub fn fairness_window_start(&self) -> Time {
        let share = Time::from_ps(self.spec.duration.as_ps() / 10) * FAIRNESS_TENTHS;
        self.spec.duration.saturating_sub(self.spec.observe.fairness_window.unwrap_or(share))
    }

    /// Returns the time at which the first flow starts that is not among the earliest.
    pub fn first_join(&self) -> Option<Time> {
        let first = self.flows.first().map(|flow| flow.start);
        self.flows.iter().map(|flow| flow.start).find(|&start| Some(start) > first)
    }

    /// Returns the program that switches run while `scheme` does.
    pub fn artifact_of(&self, scheme: &Scheme) -> Artifact {
        let own = || Artifact::of(scheme.config.needs().program);
        self.program.as_ref().map_or_else(own, |program| program.artifact.clone())
    }

    /// Returns what the switches' program offers, if the file names one.
    pub fn offer(&self) -> Option<SwitchProfile> {
        self.program.as_ref().map(|program| program.offer.clone())
    }

    /// Returns the updates that write the file's `entries` to a switch, in addition to the controller's plan.
    ///
    /// # Errors
    ///
    /// If the program lacks what they name. The text names file and place.
    pub fn further_updates(&self, switch: SwitchIx, p4info: &Index) -> Result<Vec<Update>, String> {
        let mut goal = DesiredState::default();
        for entries in &self.entries {
            goal.merge(&entries.goal(switch, p4info)?);
        }
        Ok(updates(&goal))
    }

    /// Returns whether the file brings the routes: its program has other tables than the controller's for them.
    pub fn provides_routes(&self, p4info: &Index) -> bool {
        !self.entries.is_empty() && p4info.tables.named(FORWARD).is_err()
    }

    /// Returns the ECN thresholds that ports have while `scheme` runs.
    pub fn ecn_for(&self, scheme: &Scheme) -> Option<EcnConfig> {
        let ecn = self.spec.ecn_for(&*scheme.config)?;
        // Those of the file were scaled with it; a scheme knows nothing of models.
        Some(if self.spec.ecn.is_some() { ecn } else { self.scale.ecn(ecn) })
    }

    /// Returns the deflection of switches while `scheme` runs, if any; `tick` is that of their clock.
    pub fn deflection_for(&self, scheme: &Scheme, tick: Time) -> Option<DeflectionConfig> {
        let deflection = scheme.config.needs().deflection?;
        // A lifetime is a parameter, and was scaled as one.
        let lifetime = deflection.lifetime.map_or(0, |time| (time / tick).max(1));
        let Deflection { threshold: QueueThreshold { queue, per }, at_hosts, tokens, .. } = deflection;
        let per = Some(self.scale.rate(per));
        Some(DeflectionConfig { threshold: queue, per, at_hosts, lifetime, tokens })
    }

    /// Returns what ports serve before the rest while `scheme` runs.
    pub fn first(&self, scheme: &Scheme) -> PriorityTraffic {
        PriorityTraffic {
            short_messages: scheme.config.needs().express_max_size.is_some(),
            feedback: self.spec.ack_priority,
            weighted: self.spec.queues.len() as u8, // at most MOST_WEIGHTED
        }
    }

    /// Returns the class of feedback while `scheme` runs.
    pub fn feedback_class(&self, scheme: &Scheme) -> u8 {
        self.first(scheme).feedback_queue()
    }

    /// Returns the class of a host's DATA.
    pub fn data_class(&self, host: HostIx) -> u8 {
        self.classes.get(&host).copied().unwrap_or(DATA_PRIORITY)
    }

    /// Priority queues of a port while `scheme` runs.
    pub fn priorities(&self, scheme: &Scheme) -> u8 {
        let own = [
            scheme.config.needs().deflection.map(|it| last_escape_priority(it.tokens)),
            scheme.config.needs().express_max_size.map(|_| EXPRESS_PRIORITY),
        ];
        own.into_iter().flatten().fold(self.feedback_class(scheme), u8::max) + 1
    }

    /// Rate of the slowest host.
    pub fn host_rate(&self) -> Bandwidth {
        host_rate(&self.topology)
    }

    /// Returns the keys with every default written out, as `run.yaml` holds them.
    #[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
    pub fn resolved_yaml(&self) -> String {
        serde_yaml::to_string(&self.original_spec).expect("plain data serialises")
    }

    /// Returns whether flows start that are not among [`flows`](Self::flows).
    pub fn has_dynamic_flows(&self) -> bool {
        !self.workloads.is_empty()
    }

    /// Returns a few words on each workload whose flows are not among [`flows`](Self::flows).
    pub fn workload_titles(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().map(|(title, _)| title.as_str())
    }

    /// Returns the flows that are not known beforehand, from the beginning.
    pub fn feed(&self) -> FlowFeed {
        FlowFeed::new(self.workloads.iter().map(|(_, make)| make), self.spec.seed)
    }

    /// Returns all flows that start before the end, by start.
    ///
    /// # Errors
    ///
    /// Flows of a workload start only when others end, so they cannot be listed beforehand.
    pub fn all_flows(&self) -> Result<Vec<Flow>, ExperimentError> {
        let mut flows = self.flows.clone();
        let mut names = FlowNamer::new(&self.topology, &flows);
        let mut feed = self.feed();
        if feed.is_closed() {
            let reason = "its flows start when others end, so they cannot be listed beforehand".to_owned();
            return Err(ExperimentError::Override { reason: format!("workload: {reason}") });
        }
        while let Some(due) = feed.due().filter(|&due| due < self.spec.duration) {
            let Some((_, arrival, random)) = feed.take(due) else { break };
            flows.push(names.flow(arrival, random));
        }
        flows.sort_by_key(|flow| flow.start);
        Ok(flows)
    }

    /// Lists the flows that would be created during the run, for callers that need them in advance.
    ///
    /// # Errors
    ///
    /// As [`Experiment::all_flows`].
    pub fn list_flows(&mut self) -> Result<(), ExperimentError> {
        if self.has_dynamic_flows() {
            self.flows = self.all_flows()?;
            self.workloads.clear();
        }
        Ok(())
    }

    /// Removes all schemes but those with these labels.
    ///
    /// # Errors
    ///
    /// No scheme has one of the labels.
    pub fn retain_schemes(&mut self, labels: &[String]) -> Result<(), ExperimentError> {
        let known: Vec<&str> = self.schemes.iter().map(|s| s.label.as_str()).collect();
        if let Some(unknown) = labels.iter().find(|l| !known.contains(&l.as_str())) {
            let meant = did_you_mean(unknown, known.iter().copied());
            let reason =
                format!("\"{unknown}\" is not among this experiment's schemes: {}{meant}", known.join(", "));
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
