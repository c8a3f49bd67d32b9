//! The algorithms that switches run for each port on behalf of a scheme, apart from telemetry and ECN marks. They are
//! part of a scheme's needs; the controller translates them into table entries in the integer units of the P4
//! program. This module only describes them; the P4 programs in `p4src` run them.

use weir_units::{Bandwidth, Bytes, Time};

/// The unit of a rate in the grant field of ACKs and of RATE packets, in bit/s.
pub const GRANT_UNIT_BPS: u64 = 1_000;
/// The grant field of an ACK as its receiver sends it: no limit. Switches lower it.
pub const UNLIMITED_GRANT: u32 = u32::MAX;

/// The algorithm of a port, with parameters relative to the port's rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PortAlgorithm {
    /// FNCC's All_INT_Table, refreshed at this interval (`p4src/controls/all_int_table.p4`).
    IntRefresh(Time),
    /// RoCC's PI controller of the queue (`p4src/controls/rocc_rate.p4`).
    Rocc(RoccParams),
    /// RCP's fair rate (`p4src/controls/rcp_rate.p4`).
    Rcp(RcpParams),
    /// ExpressPass: rate limit of credits (`p4src/controls/credit_shaper.p4`). Senders of such a scheme request
    /// credits first and send one packet per credit.
    Credits(CreditLimit),
    /// The threshold for telemetry records on congestion (`p4src/controls/record_condition.p4`).
    Congestion(CongestionThreshold),
}

/// The queue length from which a port counts as congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionThreshold {
    /// Queue length in bytes at a port of rate `reference_rate`, scaled in proportion for other rates.
    pub queue: Bytes,
    /// The port rate to which `queue` applies.
    pub reference_rate: Bandwidth,
}

/// Frame length of a credit in bytes: the headers.
pub const CREDIT_BYTES: u64 = 66;

/// The rate limit up to which a port forwards credits; it drops the excess.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditLimit {
    /// Share of the port's rate that credits may use, in bytes of credits.
    pub share: f64,
    /// Number of credits that may pass in a burst.
    pub burst: u32,
}

/// Parameters of RoCC's PI controller. Rates are relative to the port's rate and queue lengths to the bytes that the
/// port sends in a period, so that the gains fit ports of any rate. The paper's units are 1/10,000 of the port's rate
/// for rates, and 600 B at 100 Gbit/s for queues, which is 3/2,500 of the bytes that the port sends in a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoccParams {
    /// T: interval between two computations of the rate.
    pub period: Time,
    /// Q_ref, over the bytes that the port sends in a period.
    pub q_ref: f64,
    /// Q_mid, in the same unit.
    pub q_mid: f64,
    /// Q_max, in the same unit.
    pub q_max: f64,
    /// Gain of the difference between queue length and Q_ref, in units of rate per unit of queue.
    pub alpha: f64,
    /// Gain of the queue's growth per period, in units of rate per unit of queue.
    pub beta: f64,
    /// F_min, over the port's rate.
    pub min_share: f64,
}

impl RoccParams {
    /// The paper's unit of rate, over the port's rate.
    pub const RATE_UNIT: f64 = 1e-4;
    /// The paper's unit of queue length, over the bytes that the port sends in a period: 600 B of 500 KB.
    pub const QUEUE_UNIT: f64 = 600.0 / 500_000.0;
    /// Number of times that the gains are halved as the rate falls below F_max/2, F_max/4, and so on.
    pub const LEVELS: u32 = 5;
}

/// Parameters of RCP.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RcpParams {
    /// T: interval between two computations of the rate.
    pub period: Time,
    /// d: the base round-trip time of the fabric.
    pub rtt: Time,
    /// Gain of the spare capacity.
    pub alpha: f64,
    /// Gain of the queue.
    pub beta: f64,
    /// gamma: the share of the port's rate that is assigned to flows.
    pub target: f64,
    /// Minimum rate, over the port's rate.
    pub min_share: f64,
}
