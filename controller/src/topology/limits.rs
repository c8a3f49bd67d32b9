//! Reserved port numbers, and the maximum size of switches and fabrics.

/// The port between a switch and its controller (`CPU_PORT` in `p4src/include/constants.p4`).
pub const CPU_PORT: u16 = 255;
/// Maximum number of links of a switch: the port registers of the P4 programs have 512 cells, and BMv2 reserves port
/// 511 for dropped packets.
pub const MAX_PORTS: usize = 500;
/// Maximum number of switches: `path_id` and `switch_identity` have 12 bits, and 0 means none.
pub const MAX_SWITCHES: usize = 4095;
/// Port number of a host's only NIC.
pub const HOST_PORT: u16 = 0;
