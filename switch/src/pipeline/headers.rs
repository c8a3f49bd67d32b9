//! Operations on headers, which are blocks of slots: assignment, stacks, unions. The semantics are those of
//! P4_16 as BMv2 implements them for p4c's programs.

use crate::program::{self, HeaderInfo, HeaderStack, Slot};

const VALID_SLOT: usize = program::VALID_SLOT as usize;

/// Makes the other members of a header's union invalid, since a union has at most one valid member. The offsets count
/// slots from `base`, the first slot of the header.
pub(super) fn invalidate(slots: &mut [u64], base: usize, union_member_offsets: &[i32]) {
    for offset in union_member_offsets {
        if let Some(member) = base.checked_add_signed(*offset as isize) {
            slots[member + VALID_SLOT] = 0;
        }
    }
}

/// Assigns a header. If the source is invalid, the destination becomes invalid and keeps its fields.
pub(super) fn copy(slots: &mut [u64], to: usize, from: usize, op: &HeaderInfo) {
    if slots[from + VALID_SLOT] == 0 {
        slots[to + VALID_SLOT] = 0;
        return;
    }
    slots.copy_within(from..from + usize::from(op.slots), to);
    invalidate(slots, to, &op.union_member_offsets);
}

/// Returns the first slot of a stack element; `None` if the index is out of bounds.
pub(super) fn element(stack: &HeaderStack, index: u64) -> Option<Slot> {
    (index < u64::from(stack.size)).then(|| stack.base + index as u16 * stack.stride)
}

/// Returns the slots of the elements `from..to`.
fn range(stack: &HeaderStack, from: usize, to: usize) -> std::ops::Range<usize> {
    let first_slot = |index: usize| usize::from(stack.base) + index * usize::from(stack.stride);
    first_slot(from)..first_slot(to)
}

fn invalidate_elements(slots: &mut [u64], stack: &HeaderStack, from: usize, to: usize) {
    for index in from..to {
        let base = usize::from(stack.base) + index * usize::from(stack.stride);
        for (block, _) in &stack.member_blocks {
            slots[base + usize::from(*block) + VALID_SLOT] = 0;
        }
    }
}

/// Moves all elements to higher indices by `count`; the first `count` become invalid.
pub(super) fn push(slots: &mut [u64], stack: &HeaderStack, count: u64) {
    let size = usize::from(stack.size);
    let count = count.min(size as u64) as usize;
    slots.copy_within(range(stack, 0, size - count), range(stack, count, size).start);
    invalidate_elements(slots, stack, 0, count);
    let next = &mut slots[usize::from(stack.next_index_slot)];
    *next = (*next + count as u64).min(size as u64);
}

/// Moves all elements to lower indices by `count`; the last `count` become invalid.
pub(super) fn pop(slots: &mut [u64], stack: &HeaderStack, count: u64) {
    let size = usize::from(stack.size);
    let count = count.min(size as u64) as usize;
    slots.copy_within(range(stack, count, size), range(stack, 0, size).start);
    invalidate_elements(slots, stack, size - count, size);
    let next = &mut slots[usize::from(stack.next_index_slot)];
    *next = next.saturating_sub(count as u64);
}

/// Assigns a stack with its `nextIndex`.
pub(super) fn copy_stack(slots: &mut [u64], to: &HeaderStack, from: &HeaderStack) {
    let size = usize::from(to.size.min(from.size));
    slots.copy_within(range(from, 0, size), range(to, 0, size).start);
    slots[usize::from(to.next_index_slot)] = slots[usize::from(from.next_index_slot)];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn push_and_pop() {
        let stack = HeaderStack {
            name: "stack".to_owned(),
            is_union_stack: false,
            base: 1,
            stride: 3,
            size: 3,
            next_index_slot: 0,
            member_blocks: vec![(0, 0)],
        };
        // `nextIndex`, then per element: valid, frame offset, value.
        let mut slots = [2, 1, 0, 10, 1, 0, 20, 0, 0, 0];
        push(&mut slots, &stack, 1);
        assert_eq!(slots, [3, 0, 0, 10, 1, 0, 10, 1, 0, 20]);
        pop(&mut slots, &stack, 2);
        assert_eq!((slots[0], &slots[1..4], slots[4], slots[7]), (1, &[1, 0, 20][..], 0, 0));
        push(&mut slots, &stack, 1 << 40);
        assert_eq!((slots[0], slots[1], slots[4], slots[7]), (3, 0, 0, 0));
        assert_eq!(
            (element(&stack, 2), element(&stack, 3), element(&stack, u64::MAX)),
            (Some(7), None, None)
        );
    }
}
