//! An action with its arguments, as in a P4Runtime `Action`.

/// An action of the P4 program with its arguments. `params` holds parameter names and values, in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub action: &'static str,
    pub params: Vec<(&'static str, u128)>,
}
