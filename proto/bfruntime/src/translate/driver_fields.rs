//! Fixed tables, and names, units and ranges of the fields that the driver defines.

/// `$MATCH_PRIORITY` of P4Runtime priority 0; drivers use 24 bits.
pub(super) const MAX_PRIORITY: u32 = (1 << 24) - 1;
/// Bytes per meter unit, 1 kbit.
pub const METER_UNIT_BYTES: u64 = 125;

pub(super) const CIR: &str = "$METER_SPEC_CIR_KBPS";
pub(super) const PIR: &str = "$METER_SPEC_PIR_KBPS";
pub(super) const CBS: &str = "$METER_SPEC_CBS_KBITS";
pub(super) const PBS: &str = "$METER_SPEC_PBS_KBITS";

pub(super) const MGID: &str = "$pre.mgid";
pub(super) const NODE: &str = "$pre.node";
pub(super) const MIRROR: &str = "$mirror.cfg";
/// Fixed tables that are read and written.
pub(super) const TABLES: [&str; 3] = [NODE, MGID, MIRROR];

pub(super) const NODE_ID: &str = "$MULTICAST_NODE_ID";
pub(super) const RID: &str = "$MULTICAST_RID";
pub(super) const LAG_ID: &str = "$MULTICAST_LAG_ID";
pub(super) const DEV_PORT: &str = "$DEV_PORT";
pub(super) const SESSION: &str = "$sid";
pub(super) const ENABLE: &str = "$session_enable";
pub(super) const EGRESS_PORT: &str = "$ucast_egress_port";
pub(super) const LENGTH: &str = "$max_pkt_len";
/// `$max_pkt_len` of a session that does not truncate.
pub(super) const NO_TRUNCATION: u64 = 16_384;
