use weir_units::Time;

/// The times of a received frame. They differ only if the host has a NIC model
/// ([`NicConfig`](crate::NicConfig)).
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameTimes {
    /// Time at which the frame arrived at the NIC.
    pub arrived_at: Time,
    /// Time at which the transport handles the frame.
    pub now: Time,
}
