//! The slots in which primitives leave requests to the target: drop, clone, resubmit, digest. After ingress and
//! egress the pipeline reads them.

use super::error::LoadError;
use super::json::JsonNode;
use super::layout::SlotAllocator;

/// The slots in which primitives leave requests to the target, such as the clone session. BMv2 has packet registers
/// and flags instead.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ControlSlots {
    /// 1 after `exit`.
    pub exit: u16,
    /// The number of the drop port. The pipeline writes it before ingress and egress, for primitives to read.
    pub drop_port: u16,
    /// The clone session, or-ed with [`CLONE_SESSION_VALID`]; 0: no clone.
    pub clone_session: u16,
    /// Index of the field list that a clone keeps, counted from 1; 0: none.
    pub clone_list: u16,
    /// Index of the field list of a resubmit, counted from 1; 0: no resubmit.
    pub resubmit: u16,
    /// Same as `resubmit`, for a recirculation.
    pub recirculate: u16,
    /// Index of the learn list of a digest, counted from 1; 0: no digest.
    pub digest: u16,
}

impl ControlSlots {
    pub(crate) fn alloc(root: &JsonNode, slots: &mut SlotAllocator) -> Result<ControlSlots, LoadError> {
        // One slot for each field below.
        let first = slots.alloc(root, 7)?;
        let [exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest] =
            std::array::from_fn(|index| first + index as u16);
        Ok(ControlSlots { exit, drop_port, clone_session, clone_list, resubmit, recirculate, digest })
    }
}

/// The bit that distinguishes clone session 0 from no session (BMv2's MIRROR_SESSION_ID_VALID_MASK).
pub(crate) const CLONE_SESSION_VALID: u64 = 1 << 15;
