//! Calls of actions, as entries make them.

/// An action with its parameters by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The action.
    pub action: &'static str,
    /// Names and values.
    pub params: Vec<(&'static str, u128)>,
}
