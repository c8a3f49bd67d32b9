//! A row of the table of a program that computes something for each port, in the integers with which `p4src/controls`
//! computes. The caller knows the computation; the controller only writes the row.

use crate::call::Call;

/// The row of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortParams {
    /// The table, whose key is the port.
    pub table: &'static str,
    /// Its action and parameters.
    pub call: Call,
}
