//! The keys of an experiment file, as serde types. Unknown keys are errors.
//!
//! The doc comments of these types are the descriptions in the JSON Schema (`weir schema`) and in `docs/keys.md`.

use super::faults::FaultSpec;
use super::nic::NicSpec;
use super::policy::PolicySpec;
use super::program::{EntriesSpec, ProgramSpec};
use super::scheme::SchemeEntry;
use super::transport::TransportSpec;
use crate::scalar::{OffOr, one_or_many, one_or_many_schema};
use crate::workload::{DynWorkload, WorkloadSpec, Workloads};
use crate::yaml::join_path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::num::{NonZeroU16, NonZeroU32};
use weir_controller::routes::RoutingMethod;
use weir_controller::thresholds::EcnConfig;
use weir_controller::topology::{AsText, TopologySpec};
use weir_host::scheme::{EcnThresholds, SchemeConfig};
use weir_units::{Bandwidth, Bytes, Time};

/// An experiment file.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// Name of the run directory; absent: the file name without its extension.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One sentence for the heading of the report.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Hosts, switches and links.
    pub topology: TopologySpec,
    /// Run as a scale model: the slowest hosts have this rate, all other rates are divided by the same factor, and all times
    /// are multiplied by it.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_rate: Option<Bandwidth>,
    /// Routing method: `auto`, `ecmp`, `trees` or `up-down`.
    #[serde(default)]
    pub routing: RoutingMethod,
    /// Schemes to compare. Each runs separately, on its own copy of the fabric and with the same flows. In the long form a
    /// scheme may have a `program` and `entries` of its own, in place of the experiment's.
    pub schemes: Vec<SchemeEntry>,
    /// P4 program of all switches for every scheme: the name of a program of `p4src`, or a file; absent: the program of each
    /// scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSpec>,
    /// Table entries in addition to those that the controller plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntriesSpec>,
    /// Largest Ethernet frame on any link, including the Ethernet header, without FCS and preamble.
    #[serde_as(as = "AsText")]
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
    /// Priority flow control; absent: a static threshold of 500 KB; `{}`: the dynamic threshold with headroom of the HPCC
    /// simulator; `off`: none, so that a switch whose buffer is full drops packets.
    #[serde(default = "default_pfc")]
    pub pfc: OffOr<PfcSpec>,
    /// Packet buffer of each switch, shared by its ports.
    #[serde_as(as = "AsText")]
    #[serde(default = "default_buffer")]
    pub buffer: Bytes,
    /// Maximum number of packets in a port's queue, per priority class; absent: limited by the buffer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
    /// ECN thresholds of every port; absent: the thresholds of each scheme; `off`: switches never mark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<OffOr<EcnConfig>>,
    /// If true, ACKs and other feedback packets have a priority class of their own above data.
    #[serde(default)]
    pub ack_priority: bool,
    /// Weighted queues for DATA packets at each port, selected by the sending host; empty: a single queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueSpec>,
    /// Transport parameters.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Delays and limits of every host between its transport and the wire; absent: none. For virtual time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nic: Option<NicSpec>,
    /// Individually listed flows.
    #[serde(default)]
    pub flows: Vec<FlowSpec>,
    /// Workload that generates flows, in addition to `flows`.
    // `None` but while the file is read and written (`merge_workloads`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) workload: Option<WorkloadSpec>,
    /// Several workloads that run at the same time, in addition to `workload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadSpec>,
    /// If true, the run ends as soon as every flow with a size has finished and no further flow will start, at the latest
    /// after `duration`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_idle: bool,
    /// Policy dissemination by Trickle, and the policies to set; absent: no policies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Faults to inject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
    /// Length of the run, in the time of the experiment.
    #[serde_as(as = "AsText")]
    pub duration: Time,
    /// Seed of all random number streams.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Quantities to record.
    #[serde(default)]
    pub observe: ObserveSpec,
    /// Values published in the paper for this experiment, shown next to the measured values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperNote>,
    /// Default keys and metrics of `weir sweep`; options on the command line take precedence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSpec>,
}

/// A parameter sweep over this experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepSpec {
    /// Keys and their values, in the syntax of `--over`: `workload.load=0.2,0.4`, `seed=1..5`.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub over: Vec<String>,
    /// Metrics to show for every run, in the syntax of `--metric`.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub metrics: Vec<String>,
}

/// FNCC §5: 1500 bytes of IP, the 14-byte Ethernet header, and 4 bytes as for a VLAN tag.
fn default_mtu() -> Bytes {
    Bytes::new(1518)
}

/// FNCC §5.1.
fn default_pfc() -> OffOr<PfcSpec> {
    OffOr::On(PfcSpec { threshold: Some(Bytes::from_kb(500)), ..PfcSpec::default() })
}

/// HPCC §5.1: 32 MB per switch.
fn default_buffer() -> Bytes {
    Bytes::new(32 << 20)
}

fn default_seed() -> u64 {
    1
}

/// A weighted queue of every port.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Weight of the queue; ports serve these queues by deficit round robin.
    pub weight: NonZeroU16,
    /// Hosts whose DATA packets use this queue: `h1-h4`, `h1, h3`, `h1-h127/2`. DATA of hosts without a queue has lower
    /// priority than all of these queues.
    pub hosts: String,
}

impl ExperimentSpec {
    /// Returns the weights of `queues`, in their order.
    pub fn weights(&self) -> Vec<u16> {
        self.queues.iter().map(|queue| queue.weight.get()).collect()
    }

    /// Returns the PFC threshold, if it is above what the buffer of a switch can hold, so that no switch pauses.
    pub(super) fn unreachable_pfc_threshold(&self) -> Option<Bytes> {
        self.pfc.on().and_then(|pfc| pfc.threshold).filter(|&threshold| threshold > self.buffer)
    }

    /// Returns whether the buffer is the one that a file without the key `buffer` has.
    pub(super) fn has_default_buffer(&self) -> bool {
        self.buffer == default_buffer()
    }

    /// Returns whether the PFC threshold is the one that a file without the key `pfc` has.
    pub(super) fn has_default_pfc_threshold(&self) -> bool {
        let threshold = |pfc: &OffOr<PfcSpec>| pfc.on().and_then(|pfc| pfc.threshold);
        threshold(&self.pfc) == threshold(&default_pfc())
    }

    /// Keeps the threshold of files without the key `pfc` where it only has keys that set no thresholds.
    pub(super) fn keep_default_pfc_threshold(&mut self) {
        let default = default_pfc().on().and_then(|pfc| pfc.threshold);
        if let Some(pfc) = self.pfc.on_mut()
            && pfc.threshold.is_none()
            && pfc.resume_offset.is_none()
            && (pfc.quanta.is_some() || pfc.watchdog.is_some())
        {
            pfc.threshold = default;
        }
    }

    /// Moves the single `workload` of a file to the front of `workloads`.
    pub(super) fn merge_workloads(&mut self) {
        self.workloads.splice(0..0, self.workload.take());
    }

    /// Moves a single workload to `workload`, so that `--set workload.load=0.5` applies to a `run.yaml` too.
    pub(super) fn split_workloads(&mut self) {
        if self.workloads.len() == 1 {
            self.workload = self.workloads.pop();
        }
    }

    /// Returns the schemes of the run and those of `flows`, without the schemes of workloads.
    pub(super) fn all_schemes_mut(&mut self) -> impl Iterator<Item = &mut SchemeEntry> {
        self.schemes.iter_mut().chain(self.flows.iter_mut().filter_map(|flow| flow.scheme.as_mut()))
    }

    /// Calls `change` for every workload and writes the changed keys back.
    ///
    /// # Errors
    ///
    /// If the keys of a workload are invalid: the path of the key, and the reason.
    pub(super) fn edit_workloads(
        &mut self,
        kinds: &Workloads,
        mut change: impl FnMut(&mut dyn DynWorkload),
    ) -> Result<(), (String, String)> {
        self.workloads.iter_mut().enumerate().try_for_each(|(i, workload)| {
            let at = |(key, reason): (String, _)| (join_path(&format!("workloads[{i}]"), &key), reason);
            kinds.edit(workload, &mut change).map_err(at)
        })
    }

    /// Returns the ECN thresholds of ports for `scheme`: those of the file, else those of the scheme. `None`: no marking.
    pub fn ecn_for(&self, scheme: &dyn SchemeConfig) -> Option<EcnConfig> {
        match &self.ecn {
            Some(ecn) => ecn.on().copied(),
            None => scheme.needs().ecn.map(|EcnThresholds { kmin, kmax, pmax, reference_rate }| EcnConfig {
                kmin,
                kmax,
                pmax,
                reference_rate: Some(reference_rate),
            }),
        }
    }
}

/// Priority flow control per ingress port (docs/algorithms/pfc.md).
#[serde_as]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfcSpec {
    /// Buffer usage of an ingress port above which the switch pauses the neighbour; absent, although `pfc` is present: the
    /// dynamic threshold with headroom of the HPCC simulator, or 500 KB if only `quanta` or `watchdog` are present.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Bytes>,
    /// The switch resumes the neighbour when usage has fallen this far below the threshold; absent: 3,072 B.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_offset: Option<Bytes>,
    /// Length of a pause in units of 512 bit times of the link (IEEE 802.1Qbb). A switch refreshes the pause after half of
    /// it, as long as usage is too high; absent: 65535, which is 335.5 us at 100 Gbit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quanta: Option<NonZeroU16>,
    /// The run warns of ports that are paused for this time or longer without interruption; absent: 200 ms, the detection time
    /// of SONiC's PFC watchdog.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watchdog: Option<Time>,
}

impl PfcSpec {
    /// `DEFAULT_DETECTION_TIME` of SONiC's command `pfcwd start_default`.
    pub(super) const WATCHDOG: Time = Time::from_ms(200);

    /// Returns the length from which a pause is reported.
    pub fn watchdog(&self) -> Time {
        self.watchdog.unwrap_or(Self::WATCHDOG)
    }
}

/// A flow between two hosts.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Time at which the flow starts, at line rate.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    pub start: Time,
    /// Payload; absent: the flow sends until `stop` or the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Time at which the flow stops sending new data.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// Hosts that are about to send to the same receiver. The first packets of the flow carry this list (Dart's
    /// look-ahead). Every flow of an incast should list all its senders.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announces: Vec<String>,
    /// Number of the incast that `announces` describes. Receivers count a sender once among lists with the same number;
    /// absent: each list is counted separately.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<NonZeroU32>,
    /// UDP source port of the first subflow; the ports of further subflows are derived from it. ECMP selects paths by
    /// this port. Absent: drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// Scheme of this flow, in place of the run's scheme. All flows of a sending host must use the same scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeEntry>,
}

/// Quantities to record during the run.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveSpec {
    /// Sampling interval.
    #[serde_as(as = "AsText")]
    pub interval: Time,
    /// Ports whose time series are recorded: `<switch>:<port>`, `<switch>:<neighbour>` or `all`; empty: the ports on the
    /// paths of flows, if there are at most 8. Peaks, means and percentiles are recorded for every port.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub ports: Vec<String>,
    /// Record the rates of the first flows that are known before the run, 16 at most.
    pub rates: bool,
    /// Quantities of senders to record over time: `rtt`, `window`, `rate`, a gauge of a scheme such as `alpha`, or `all`;
    /// empty: none. Recorded are the same flows as with `rates`, and up to 16 together the first that workloads start.
    #[serde(deserialize_with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub sender: Vec<String>,
    /// Length of the window at the end of the run over which Jain's index is computed; absent: 30 % of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_window: Option<Time>,
    /// Tables to write: `flows`, `queues`, `rates`, `pauses`, `fct`.
    pub csv: Vec<CsvFile>,
    /// Format of the tables: `csv` or `parquet`.
    #[serde(skip_serializing_if = "TableFormat::is_default")]
    #[schemars(extend("default" = "csv"))]
    pub format: TableFormat,
    /// Upper bounds of flow size classes, in ascending order; completion times are also summarised per class.
    #[serde_as(as = "Vec<AsText>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub size_classes: Vec<Bytes>,
    /// Flows that start earlier are left out of completion times: until then the fabric fills.
    #[serde_as(as = "Option<AsText>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Time>,
    /// Count data packets, their ECN marks and the links that they crossed, per class of `size_classes`, and the bytes on
    /// all links.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub packets: bool,
    /// Summarise the goodput of flows without a size.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goodput: bool,
    /// Report the mean link utilisation per layer of the fabric.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layers: bool,
}

impl Default for ObserveSpec {
    fn default() -> Self {
        ObserveSpec {
            interval: Time::from_us(1),
            ports: Vec::new(),
            rates: true,
            sender: Vec::new(),
            fairness_window: None,
            csv: vec![CsvFile::Flows, CsvFile::Queues, CsvFile::Rates, CsvFile::Pauses],
            format: TableFormat::Csv,
            size_classes: Vec::new(),
            warmup: None,
            packets: false,
            goodput: false,
            layers: false,
        }
    }
}

/// Format of the tables in the run directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TableFormat {
    /// CSV, such as `flows.csv`
    #[default]
    Csv,
    /// Apache Parquet, such as `flows.parquet`
    Parquet,
}

impl TableFormat {
    fn is_default(&self) -> bool {
        *self == TableFormat::default()
    }
}

/// A table in the run directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CsvFile {
    /// One row per flow
    Flows,
    /// Queue lengths and utilisation of observed ports
    Queues,
    /// Sending rates of observed flows
    Rates,
    /// PFC pause and resume frames
    Pauses,
    /// Completion times in `fct-<scheme>.txt`, in the eight columns of the HPCC simulator
    Fct,
}

/// A value published in the paper.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaperNote {
    /// The quantity that was measured.
    pub what: String,
    /// The paper's value, as printed.
    pub value: String,
    /// Figure or section of the paper.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Measured value to compare with: a path in a scheme's summary such as `fncc.first_slowdown_us`, or two paths, `A /
    /// B` for their ratio or `A vs B` for the change from B to A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// Reason for a difference from the paper, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
