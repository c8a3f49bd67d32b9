//! The keys of an experiment file, as they stand in the YAML. Unknown keys are errors.

use super::faults::FaultSpec;
use super::policy::PolicySpec;
use super::program::{EntriesSpec, ProgramSpec};
use crate::scalar::{OffOr, SchemeEntry, one_or_many, one_or_many_schema};
use crate::workload::{DynWorkload, WorkloadSpec, Workloads};
use crate::yaml::join_path;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::serde_as;
use std::num::{NonZeroU16, NonZeroU32};
use weir_controller::profile::EcnConfig;
use weir_controller::routes::RoutingMethod;
use weir_controller::topology::{AsText, TopologySpec};
use weir_host::scheme::{EcnThresholds, LossRecovery, SchemeConfig};
use weir_units::{Bandwidth, Bytes, Time};

/// One experiment file.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExperimentSpec {
    /// Names the run directory; the file's stem if absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// One sentence for the report's heading.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Hosts, switches and links.
    pub topology: TopologySpec,
    /// Run as a scale model: the slowest hosts have this rate, all times are longer in proportion.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_rate: Option<Bandwidth>,
    /// Kind of routes: `auto`, `ecmp` or `trees`.
    #[serde(default)]
    pub routing: RoutingMethod,
    /// Schemes to compare. Each runs separately, on the same fabric and flows.
    pub schemes: Vec<SchemeEntry>,
    /// The P4 program of all switches, whatever the scheme: one of `p4src`, or a file; absent: each scheme's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub program: Option<ProgramSpec>,
    /// Entries of tables, besides those that the controller plans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entries: Vec<EntriesSpec>,
    /// Largest Ethernet frame on any link, header included, FCS and preamble not.
    #[serde_as(as = "AsText")]
    #[serde(default = "default_mtu")]
    pub mtu: Bytes,
    /// Priority flow control; `off` makes a full buffer drop.
    #[serde(default = "default_pfc")]
    pub pfc: OffOr<PfcSpec>,
    /// Packet buffer of each switch, shared by its ports.
    #[serde_as(as = "AsText")]
    #[serde(default = "default_buffer")]
    pub buffer: Bytes,
    /// Packets that a port's queue holds, of each class; absent: what the buffer holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue_packets: Option<u32>,
    /// ECN thresholds of every port; absent: those that each scheme asks for; `off` never marks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<OffOr<EcnConfig>>,
    /// True puts ACKs and other control packets into a class of their own above data.
    #[serde(default)]
    pub ack_priority: bool,
    /// Queues of DATA that share each port by weight, by sending host; empty: DATA has one queue.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<QueueSpec>,
    /// Transport parameters.
    #[serde(default)]
    pub transport: TransportSpec,
    /// Flows one by one.
    #[serde(default)]
    pub flows: Vec<FlowSpec>,
    /// Flows by a rule, beside the listed ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<WorkloadSpec>,
    /// Several of them at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workloads: Vec<WorkloadSpec>,
    /// Ends when every flow of a size has finished and none is to come, `duration` at the latest.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub until_idle: bool,
    /// Hosts agree on a policy by Trickle, and who changes it; absent: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicySpec>,
    /// Faults to inject.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
    /// Virtual time to simulate.
    #[serde_as(as = "AsText")]
    pub duration: Time,
    /// Seed of every random stream.
    #[serde(default = "default_seed")]
    pub seed: u64,
    /// Quantities to record.
    #[serde(default)]
    pub observe: ObserveSpec,
    /// Numbers that the paper prints for this experiment, shown beside the measured ones.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paper: Vec<PaperNote>,
    /// Keys and metrics of `weir sweep` unless the command line has others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepSpec>,
}

/// A sweep over this experiment.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SweepSpec {
    /// Keys and their values, as `--over` takes them: `load=0.2,0.4`, `seed=1..5`.
    pub over: Vec<String>,
    /// Metrics to show of every run, as in `--metric`.
    pub metrics: Vec<String>,
}

/// Returns a frame of 1500 bytes of IP, its Ethernet header and a VLAN tag's worth: FNCC §5's MTU.
fn default_mtu() -> Bytes {
    Bytes::new(1518)
}

/// FNCC §5.1.
fn default_pfc() -> OffOr<PfcSpec> {
    OffOr::On(PfcSpec { threshold: Some(Bytes::from_kb(500)), resume_offset: None })
}

/// HPCC §5.1: 32 MB per switch.
fn default_buffer() -> Bytes {
    Bytes::new(32 << 20)
}

fn default_seed() -> u64 {
    1
}

/// A queue of each port.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Its weight: ports serve such queues by deficit round robin.
    pub weight: NonZeroU16,
    /// Hosts whose DATA waits in it: `h1-h4`, `h1, h3`, `h1-h127/2`. DATA of hosts without a queue is served after all
    /// others.
    pub hosts: String,
}

impl ExperimentSpec {
    /// Returns the weights of `queues`.
    pub fn weights(&self) -> Vec<u16> {
        self.queues.iter().map(|queue| queue.weight.get()).collect()
    }

    /// Returns all workloads, with the places where they stand.
    pub fn all_workloads(&self) -> impl Iterator<Item = (String, &WorkloadSpec)> {
        let listed = self.workloads.iter().enumerate();
        let one = self.workload.iter().map(|workload| ("workload".to_owned(), workload));
        one.chain(listed.map(|(i, workload)| (format!("workloads[{i}]"), workload)))
    }

    /// Returns the schemes of the run and of its listed flows, to be changed in place.
    pub(super) fn all_schemes_mut(&mut self) -> impl Iterator<Item = &mut SchemeEntry> {
        self.schemes.iter_mut().chain(self.flows.iter_mut().filter_map(|flow| flow.scheme.as_mut()))
    }

    /// Changes every workload. An error has the place of the key.
    pub(super) fn edit_workloads(
        &mut self,
        kinds: &Workloads,
        mut change: impl FnMut(&mut dyn DynWorkload),
    ) -> Result<(), (String, String)> {
        let listed = self.workloads.iter_mut().enumerate();
        let one = self.workload.iter_mut().map(|workload| ("workload".to_owned(), workload));
        let mut all = one.chain(listed.map(|(i, workload)| (format!("workloads[{i}]"), workload)));
        all.try_for_each(|(place, workload)| {
            kinds.edit(workload, &mut change).map_err(|(key, reason)| (join_path(&place, &key), reason))
        })
    }

    /// Returns the ECN thresholds that ports have while `scheme` runs.
    pub fn ecn_for(&self, scheme: &dyn SchemeConfig) -> Option<EcnConfig> {
        match &self.ecn {
            Some(ecn) => ecn.on().copied(),
            None => scheme.needs().ecn.map(|EcnThresholds { kmin, kmax, pmax, reference_rate: per }| {
                EcnConfig { kmin, kmax, pmax, per: Some(per) }
            }),
        }
    }
}

/// Priority flow control per ingress port (docs/algorithms/pfc.md).
#[serde_as]
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PfcSpec {
    /// Pause the neighbour when this much of its traffic is held; absent: the HPCC simulator's
    /// dynamic threshold with headroom.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold: Option<Bytes>,
    /// Resume when usage has fallen this far below the threshold.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_offset: Option<Bytes>,
}

/// Transport parameters.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TransportSpec {
    /// The receiver acknowledges every this many packets.
    #[serde(default = "default_ack_every")]
    pub ack_every: u32,
    /// Base RTT `T` of every sender; absent: the largest of the topology (docs/algorithms/hpcc.md#base-rtt).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_rtt: Option<Time>,
    /// Kind of loss recovery; absent: that of each scheme.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<RecoverySpec>,
    /// Shortest retransmission timeout with selective recovery; absent: 200 ms.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_rto: Option<Time>,
    /// Retransmission timeout with selective recovery until a round-trip time is known; absent: 1 s (RFC 6298).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_rto: Option<Time>,
    /// Time for which nothing new may be acknowledged before a sender gives a flow up, looked at when a retransmission
    /// timeout expires; absent: 100 s (RFC 1122).
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_timeout: Option<Time>,
    /// Time for which a receiver counts a flow in N after its last packet; absent: the larger of 8 base RTTs and 1,024
    /// frame times.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub active_window: Option<Time>,
}

/// The loss recovery of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RecoverySpec {
    /// `go-back-n`
    GoBackN,
    /// `selective`, as TCP does it
    Selective,
}

impl From<RecoverySpec> for LossRecovery {
    fn from(spec: RecoverySpec) -> LossRecovery {
        match spec {
            RecoverySpec::GoBackN => LossRecovery::GoBackN,
            RecoverySpec::Selective => LossRecovery::Selective,
        }
    }
}

fn default_ack_every() -> u32 {
    1
}

impl Default for TransportSpec {
    fn default() -> Self {
        TransportSpec {
            ack_every: default_ack_every(),
            base_rtt: None,
            recovery: None,
            min_rto: None,
            initial_rto: None,
            user_timeout: None,
            active_window: None,
        }
    }
}

/// One flow.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FlowSpec {
    /// Sending host.
    pub from: String,
    /// Receiving host.
    pub to: String,
    /// Opened at this time, at line rate.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    pub start: Time,
    /// Payload; absent: sends until `stop` or the end.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Bytes>,
    /// Stops sending new data at this time.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Time>,
    /// Hosts that are about to send to the same receiver, which its first packets tell (Dart's
    /// look-ahead). Each flow of an incast should.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub announces: Vec<String>,
    /// Number of the incast that `announces` lists; lists of one number count a sender once. Absent: each list counts
    /// by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incast: Option<NonZeroU32>,
    /// The UDP port of its first subflow, from which those of the others follow; absent: drawn from the seed.
    /// It says which paths they take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// The flow's own scheme, independent of the others compared with; all flows of a host have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheme: Option<SchemeEntry>,
}

/// The time series to record.
#[serde_as]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ObserveSpec {
    /// Time between two samples.
    #[serde_as(as = "AsText")]
    pub interval: Time,
    /// Ports whose series are kept, `<switch>:<port>`, `<switch>:<neighbour>` or `all`; empty: those that a
    /// flow crosses, if they are few. Peaks, means and percentiles are kept for every port anyway.
    #[serde(deserialize_with = "one_or_many")]
    #[schemars(schema_with = "one_or_many_schema")]
    pub ports: Vec<String>,
    /// Keep rate series of the listed flows.
    pub rates: bool,
    /// Jain's index is taken over this last part of the run; absent: the last 30 %.
    #[serde_as(as = "Option<AsText>")]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fairness_window: Option<Time>,
    /// Tables to write: `flows`, `queues`, `rates`, `pauses`, `fct`.
    pub csv: Vec<CsvFile>,
    /// Format of the tables: `csv` or `parquet`.
    #[serde(skip_serializing_if = "TableFormat::is_default")]
    pub format: TableFormat,
    /// Bounds of classes by size, for which completion times are summed up apart.
    #[serde_as(as = "Vec<AsText>")]
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub size_classes: Vec<Bytes>,
    /// Count marked data packets and the links they crossed, by these classes, and the bytes on all links.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub packets: bool,
    /// Sum up the goodput of flows without a size.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub goodput: bool,
    /// Average the utilisation of links by layer of the fabric.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub layers: bool,
}

impl Default for ObserveSpec {
    fn default() -> Self {
        ObserveSpec {
            interval: Time::from_us(1),
            ports: Vec::new(),
            rates: true,
            fairness_window: None,
            csv: vec![CsvFile::Flows, CsvFile::Queues, CsvFile::Rates, CsvFile::Pauses],
            format: TableFormat::Csv,
            size_classes: Vec::new(),
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
    /// Text, `flows.csv`
    #[default]
    Csv,
    /// Apache Parquet, `flows.parquet`
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
    /// Each flow
    Flows,
    /// Queues and utilisation
    Queues,
    /// Sending rates
    Rates,
    /// PFC frames
    Pauses,
    /// `fct-<scheme>.txt`, in the HPCC simulator's eight columns
    Fct,
}

/// A number that the paper prints.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PaperNote {
    /// The quantity that was measured.
    pub what: String,
    /// The paper's value, as printed.
    pub value: String,
    /// Figure or section.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Number to show beside it: a place in a scheme's summary such as `fncc.first_slowdown_us`, or two of them, `A /
    /// B` for their ratio or `A vs B` for the change from B to A.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ours: Option<String>,
    /// The reason why ours differs, if it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
