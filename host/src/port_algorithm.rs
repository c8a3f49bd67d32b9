//! The computations that every port of a switch performs for a scheme, beside telemetry and marks. A scheme states them
//! as part of its needs, and the controller translates them into table entries, in the integers of the P4 program.

use weir_units::{Bandwidth, Bytes, Time};

/// The unit of a rate in the grant field of ACKs and of RATE packets, in bit/s.
pub const GRANT_UNIT_BPS: u64 = 1_000;
/// The grant of an ACK that a receiver sends out for switches to lower: no limit.
pub const UNLIMITED_GRANT: u32 = u32::MAX;

/// The computation of a port. Rates and queues are relative to the port's own rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PortAlgorithm {
    /// FNCC's All_INT_Table, refreshed this often (`p4src/controls/all_int_table.p4`).
    IntRefresh(Time),
    /// RoCC's PI controller of the queue (`p4src/controls/rocc_rate.p4`).
    Rocc(RoccParams),
    /// RCP's fair rate (`p4src/controls/rcp_rate.p4`).
    Rcp(RcpParams),
    /// ExpressPass' limit of credits (`p4src/controls/credit_shaper.p4`). Senders of such a scheme send one packet per
    /// credit, and ask for credits first.
    Credits(CreditLimit),
    /// The queue from which a port is congested, for records upon congestion (`p4src/controls/record_condition.p4`).
    Congestion(CongestionThreshold),
}

/// The queue from which a port is congested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CongestionThreshold {
    /// Bytes that wait at a port of rate `per`, in proportion at other rates.
    pub queue: Bytes,
    /// The rate that `queue` is for.
    pub per: Bandwidth,
}

/// Bytes of a credit: a frame's headers.
pub const CREDIT_BYTES: u64 = 66;

/// Of the credits that come to a port those beyond a rate are dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CreditLimit {
    /// The credits' part of the port's rate.
    pub share: f64,
    /// Number of credits that may pass at once.
    pub burst: u32,
}

/// RoCC's controller. The paper's units of rate and queue are a ten thousandth of the port's rate, and 3/2500 of what
/// the port sends in a period (600 B at 100 Gbit/s): so the gains fit any port.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoccParams {
    /// T: how often the rate is computed.
    pub period: Time,
    /// Q_ref over what the port sends in a period.
    pub q_ref: f64,
    /// Q_mid, likewise.
    pub q_mid: f64,
    /// Q_max, likewise.
    pub q_max: f64,
    /// Gain of the queue's distance from Q_ref, in units of rate per unit of queue.
    pub alpha: f64,
    /// Gain of the queue's growth.
    pub beta: f64,
    /// F_min over the port's rate.
    pub min_share: f64,
}

impl RoccParams {
    /// A unit of rate, over the port's rate.
    pub const RATE_UNIT: f64 = 1e-4;
    /// A unit of queue, over what the port sends in a period: 600 B of 500 KB.
    pub const QUEUE_UNIT: f64 = 600.0 / 500_000.0;
    /// Number of times that gains halve as the rate falls below each half of F_max.
    pub const LEVELS: u32 = 5;
}

/// RCP with the round-trip time of the fabric.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RcpParams {
    /// T: how often the rate is computed.
    pub period: Time,
    /// d: the round-trip time.
    pub rtt: Time,
    /// Weight of the spare capacity.
    pub alpha: f64,
    /// Gain of the queue.
    pub beta: f64,
    /// gamma: the share of the port's rate that is given out.
    pub target: f64,
    /// The least rate over the port's rate.
    pub floor: f64,
}
