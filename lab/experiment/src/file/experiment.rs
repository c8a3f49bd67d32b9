//! An experiment after all checks, and what follows from its keys for hosts, switches and flows.

use super::changes::{ScheduledChange, join_time};
use super::error::ExperimentError;
use super::faults::FaultSpec;
use super::flow::{Flow, FlowNamer};
use super::program::ProgramSpec;
use super::scale::{Scale, host_rate};
use super::scheme::Scheme;
use super::spec::ExperimentSpec;
use crate::artifacts::Artifact;
use crate::catalogue::Catalogue;
use crate::workload::{FlowFeed, SourceFactory};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};
use weir_controller::plan::{DATA_PRIORITY, EXPRESS_PRIORITY, PriorityTraffic, last_escape_priority};
use weir_controller::routes::RoutingMethod;
use weir_controller::thresholds::{DeflectionConfig, EcnConfig};
use weir_controller::topology::{HostIx, SwitchIx, Topology};
use weir_controller::{Routes, verify_channels};
use weir_host::policy::PolicyConfig;
use weir_host::scheme::{BUILTIN_GAUGES, Deflection, LossRecovery, QueueThreshold, SchemeConfig};
use weir_host::suggest::did_you_mean;
use weir_host::switch_profile::SwitchProfile;
use weir_units::{Bandwidth, Time};

/// Stands for all quantities of a sender in `observe.sender`.
const ALL_QUANTITIES: &str = "all";
/// Maximum number of flows whose rates or senders are recorded. A plot with more lines is unreadable.
const MAX_RECORDED_FLOWS: usize = 16;
/// Default length of the fairness window, in tenths of the run.
const FAIRNESS_TENTHS: u64 = 3;

/// An experiment after all checks: names are resolved to indices, and defaults and overrides are applied.
pub struct Experiment {
    /// The keys, with defaults and overrides applied, scaled if this is a scale model.
    pub spec: ExperimentSpec,
    pub topology: Topology,
    /// The schemes to compare, in the order of the file.
    pub schemes: Vec<Scheme>,
    /// Schemes of hosts whose flows or workload have a `scheme` of their own.
    pub(super) scheme_overrides: BTreeMap<HostIx, Arc<dyn SchemeConfig>>,
    /// Flows that are known before the run, sorted by start; ties in the order of the file.
    pub flows: Vec<Flow>,
    /// Faults and policies, sorted by time.
    pub changes: Vec<ScheduledChange>,
    /// Workloads that create flows during the run.
    pub(super) workloads: Vec<DynamicWorkload>,
    /// See [`workload_names`](Self::workload_names).
    pub(super) workload_names: Vec<Arc<str>>,
    /// Priority class of DATA, for the hosts that `queues` lists.
    pub(super) classes: BTreeMap<HostIx, u8>,
    /// The switch ports selected by `observe.ports`.
    pub observed_ports: Vec<(SwitchIx, u16)>,
    /// Ratio between the file's rates and those of the run.
    pub scale: Scale,
    pub catalogue: Catalogue,
    /// The keys before scaling, for `run.yaml`.
    pub(super) original_spec: ExperimentSpec,
    /// The routes while all links are up, computed on first use.
    pub(super) routes: OnceLock<Routes>,
}

/// A workload that creates flows during the run.
pub(super) struct DynamicWorkload {
    /// Path in the file: `workloads[1]`.
    pub(super) key_path: String,
    pub(super) name: Arc<str>,
    pub(super) title: String,
    pub(super) make: SourceFactory,
}

impl Experiment {
    /// Returns the routes while all links are up.
    #[expect(
        clippy::missing_panics_doc,
        reason = "ECMP is computed when the file is loaded, the other methods cannot fail"
    )]
    pub fn routes(&self) -> &Routes {
        self.routes.get_or_init(|| {
            weir_controller::routes(&self.topology, self.spec.routing)
                .expect("only ECMP can fail, and it is computed when the file is loaded")
        })
    }

    /// Returns the number of spanning trees, if routes follow trees because ECMP would not be symmetric; `None` if routes use
    /// ECMP, or the file specifies the routing method or the routes.
    pub fn trees_instead_of_ecmp(&self) -> Option<usize> {
        let is_fallback = || self.routes().method == RoutingMethod::Trees;
        (self.spec.routing == RoutingMethod::Auto && !self.has_own_routes() && is_fallback())
            .then(|| self.routes().trees())
    }

    /// Rejects faults that change routes which the controller does not compute.
    pub(super) fn check_reroutes(
        &self,
        invalid: &impl Fn(&str, String) -> ExperimentError,
    ) -> Result<(), ExperimentError> {
        let is_reroute = |fault: &FaultSpec| matches!(fault, FaultSpec::Reroute { .. });
        match self.spec.faults.iter().position(is_reroute) {
            Some(i) if self.has_own_routes() => Err(invalid(
                &format!("faults[{i}].kind"),
                "`reroute` has no effect, because `entries` provide the routes; remove it".to_owned(),
            )),
            _ => Ok(()),
        }
    }

    /// Returns whether the `entries` of the file provide the routes of every scheme.
    fn has_own_routes(&self) -> bool {
        let provides_routes = |scheme: &Scheme| {
            scheme.program.as_ref().is_some_and(|program| {
                program.artifact.index().is_ok_and(|p4info| scheme.provides_routes(&p4info))
            })
        };
        self.schemes.iter().all(provides_routes)
    }

    /// Returns the switches of a cycle of the routes that PFC can turn into a deadlock, as `s1 -> s2 -> s3 -> s1`. `None`
    /// if there is none, PFC is off, or the file provides the routes.
    pub fn pfc_cycle(&self) -> Option<String> {
        self.spec.pfc.on().filter(|_| !self.has_own_routes())?;
        verify_channels(&self.topology, self.routes(), None).err().map(|cycle| cycle.switches())
    }

    /// Returns the scheme that `host` uses in the run of `scheme`: the host's own, if it has one.
    pub fn scheme_of(&self, host: HostIx, scheme: &Scheme) -> Arc<dyn SchemeConfig> {
        Arc::clone(self.scheme_overrides.get(&host).unwrap_or(&scheme.config))
    }

    /// Returns the policy configuration of a host; `None` if the experiment has no policies.
    pub fn policy_of(&self, host: HostIx, base_rtt: Time) -> Option<PolicyConfig> {
        let policy = self.spec.policy.as_ref()?;
        let start = join_time(&self.spec, &self.topology.host(host).name);
        Some(policy.config(&self.topology, host, base_rtt, self.spec.seed, start))
    }

    /// Returns the loss recovery in the run of `scheme`.
    pub fn recovery(&self, scheme: &Scheme) -> LossRecovery {
        self.spec.transport.recovery.map_or(scheme.config.needs().transport.recovery, LossRecovery::from)
    }

    /// Returns the number of flows known before the run whose rates or senders are recorded: the first ones, in order of
    /// their start.
    pub fn recorded_flow_count(&self) -> usize {
        let observe = &self.spec.observe;
        let is_recorded = observe.rates || !observe.sender.is_empty();
        if is_recorded { self.flows.len().min(MAX_RECORDED_FLOWS) } else { 0 }
    }

    /// Returns the number of flows that workloads create during the run whose senders are recorded, in addition to those of
    /// [`recorded_flow_count`](Self::recorded_flow_count): the first ones that start.
    pub fn recorded_dynamic_flow_count(&self) -> usize {
        match self.has_dynamic_flows() && !self.spec.observe.sender.is_empty() {
            true => MAX_RECORDED_FLOWS - self.recorded_flow_count(),
            false => 0,
        }
    }

    /// Returns the quantities of `observe.sender` that hosts have in the run of `scheme`, each once: those of every
    /// sender first, then gauges of the schemes.
    pub fn sender_quantities(&self, scheme: &Scheme) -> Vec<&'static str> {
        let requested = &self.spec.observe.sender;
        if requested.is_empty() {
            return Vec::new();
        }
        let configs = std::iter::once(&scheme.config).chain(self.scheme_overrides.values());
        let all = BUILTIN_GAUGES.into_iter().chain(configs.flat_map(|config| config.gauges()));
        let mut quantities = Vec::new();
        for name in all.filter(|name| requested.iter().any(|asked| asked == name || asked == ALL_QUANTITIES))
        {
            if !quantities.contains(&name) {
                quantities.push(name);
            }
        }
        quantities
    }

    /// Checks that every quantity of `observe.sender` exists in the run of some scheme. An error has the path of the key,
    /// and the reason.
    pub(super) fn check_sender_quantities(&self) -> Result<(), (String, String)> {
        let configs = self.schemes.iter().map(|scheme| &scheme.config).chain(self.scheme_overrides.values());
        let mut known = BUILTIN_GAUGES.to_vec();
        known.extend(configs.flat_map(|config| config.gauges()));
        known.push(ALL_QUANTITIES);
        let mut listed = BTreeSet::new();
        known.retain(|name| listed.insert(*name));
        for (i, name) in self.spec.observe.sender.iter().enumerate() {
            if !known.contains(&name.as_str()) {
                let meant = did_you_mean(name, known.iter().copied());
                let reason = format!(
                    "\"{name}\" is no quantity of a sender under these schemes; known: {}{meant}",
                    known.join(", ")
                );
                return Err((format!("observe.sender[{i}]"), reason));
            }
        }
        Ok(())
    }

    /// Returns the start of the window over which Jain's index is computed. The window ends with the run.
    pub fn fairness_window_start(&self) -> Time {
        let default = Time::from_ps(self.spec.duration.as_ps() / 10) * FAIRNESS_TENTHS;
        self.spec.duration.saturating_sub(self.spec.observe.fairness_window.unwrap_or(default))
    }

    /// Returns the start of the first flow that starts later than the earliest flow, or `None` if all start together.
    pub fn first_join(&self) -> Option<Time> {
        let first = self.flows.first().map(|flow| flow.start);
        self.flows.iter().map(|flow| flow.start).find(|&start| Some(start) > first)
    }

    /// Returns the P4 program of the switches in the run of `scheme`.
    pub fn artifact_of(&self, scheme: &Scheme) -> Artifact {
        scheme.artifact()
    }

    /// Returns the capabilities of the file's `program` in the run of `scheme`; `None` if the file has no such key.
    pub fn switch_profile(&self, scheme: &Scheme) -> Option<SwitchProfile> {
        scheme.program.as_ref().map(|program| program.profile.clone())
    }

    /// Returns the file's `program` in the run of `scheme`; `None`: the scheme's own.
    pub fn program_spec<'s>(&self, scheme: &'s Scheme) -> Option<&'s ProgramSpec> {
        scheme.program.as_ref().map(|program| &program.spec)
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
        let Deflection { threshold: QueueThreshold { queue, reference_rate }, at_hosts, tokens, .. } =
            deflection;
        let reference_rate = Some(self.scale.rate(reference_rate));
        Some(DeflectionConfig { threshold: queue, reference_rate, at_hosts, lifetime, tokens })
    }

    /// Returns the traffic that ports serve with priority in the run of `scheme`.
    pub fn priority_traffic(&self, scheme: &Scheme) -> PriorityTraffic {
        PriorityTraffic {
            short_messages: scheme.config.needs().express_max_size.is_some(),
            feedback: self.spec.ack_priority,
            weighted: self.spec.queues.len() as u8, // at most MAX_WEIGHTED_QUEUES
        }
    }

    /// Returns the priority class of feedback in the run of `scheme`.
    pub fn feedback_class(&self, scheme: &Scheme) -> u8 {
        self.priority_traffic(scheme).feedback_queue()
    }

    /// Returns the priority class of a host's DATA packets.
    pub fn data_class(&self, host: HostIx) -> u8 {
        self.classes.get(&host).copied().unwrap_or(DATA_PRIORITY)
    }

    /// Returns the number of priority queues of a port in the run of `scheme`.
    pub fn priorities(&self, scheme: &Scheme) -> u8 {
        let extra_classes = [
            scheme.config.needs().deflection.map(|deflection| last_escape_priority(deflection.tokens)),
            scheme.config.needs().express_max_size.map(|_| EXPRESS_PRIORITY),
        ];
        extra_classes.into_iter().flatten().fold(self.feedback_class(scheme), u8::max) + 1
    }

    /// Returns the link rate of the slowest host.
    pub fn host_rate(&self) -> Bandwidth {
        host_rate(&self.topology)
    }

    /// Returns the content of `run.yaml`: all keys, with every default written out.
    #[expect(clippy::missing_panics_doc, reason = "plain data serialises")]
    pub fn resolved_yaml(&self) -> String {
        let mut spec = self.original_spec.clone();
        spec.split_workloads();
        serde_yaml::to_string(&spec).expect("plain data serialises")
    }

    /// Returns whether workloads create flows during the run, in addition to [`flows`](Self::flows).
    pub fn has_dynamic_flows(&self) -> bool {
        !self.workloads.is_empty()
    }

    /// Returns the titles of the workloads that create flows during the run.
    pub fn workload_titles(&self) -> impl Iterator<Item = &str> {
        self.workloads.iter().map(|workload| workload.title.as_str())
    }

    /// Returns the name of each workload: `flows` for the flows of this key, if there are any, then the key `name` of
    /// each workload. A workload without a name has that of its kind, followed by its number if several workloads of
    /// this kind have no name.
    pub fn workload_names(&self) -> &[Arc<str>] {
        &self.workload_names
    }

    /// Returns the names of all workloads if the file names any of them, otherwise none. Summaries are divided by workload
    /// only if the file asks for it, so that other files keep their digests.
    pub fn named_workloads(&self) -> &[Arc<str>] {
        let is_any_named = self.spec.workloads.iter().any(|workload| workload.name.is_some());
        if is_any_named { &self.workload_names } else { &[] }
    }

    /// Returns the name of the workload with this index in the [`flow_feed`](Self::flow_feed).
    pub fn workload_of_source(&self, source: usize) -> &Arc<str> {
        &self.workloads[source].name
    }

    /// Returns a new feed of the flows that workloads create during the run.
    pub fn flow_feed(&self) -> FlowFeed {
        FlowFeed::new(self.workloads.iter().map(|workload| &workload.make), self.spec.seed)
    }

    /// Returns all flows that start before the end of the run, sorted by start.
    ///
    /// # Errors
    ///
    /// If a workload is a closed loop: its flows start when others end, so they are not known before the run.
    pub fn all_flows(&self) -> Result<Vec<Flow>, ExperimentError> {
        let mut flows = self.flows.clone();
        let mut namer = FlowNamer::new(&self.topology, &flows);
        let mut feed = self.flow_feed();
        if feed.is_closed_loop() {
            return Err(ExperimentError::ClosedLoop);
        }
        while let Some(start) = feed.next_start().filter(|&start| start < self.spec.duration) {
            let Some((source, arrival, random)) = feed.pop_due(start) else { break };
            flows.push(namer.flow(self.workload_of_source(source), arrival, random));
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
