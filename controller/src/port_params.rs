//! Parameters of per-port computations, in the fixed-point integers of `p4src/controls`. The caller computes them; the
//! controller only writes the row.

use crate::call::Call;

/// The entry of one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortParams {
    /// Table with the port as its only key.
    pub table: &'static str,
    pub call: Call,
}
