//! Parameters of per-port computations, in the fixed-point integers of `p4src/controls`. The caller computes them; the
//! controller only writes the row.

/// The entry of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortParams {
    /// Table with the port as its only key.
    pub table: &'static str,
    pub action: &'static str,
    /// Parameters of the action by name, in any order.
    pub params: Vec<(&'static str, u128)>,
}
