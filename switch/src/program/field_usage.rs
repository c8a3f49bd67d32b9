//! Determines which fields a program uses: only those are moved between the frame and the header vector.

use super::access::Access;
use super::header_moves::{HeaderMoves, SlotUsage};
use super::layout::{Header, HeaderId};
use super::link::LinkedProgram;
use super::op::Slot;
use std::collections::BTreeSet;

/// Returns the moves of each header instance for a program with these accesses. All fields of a header are moved if
/// an operation accesses the header as a whole.
pub(super) fn header_moves(program: &LinkedProgram, access: &Access) -> Vec<HeaderMoves> {
    let moves = |(id, header): (HeaderId, &Header)| {
        let ty = &program.layout.types[header.ty];
        if program.address_taken.contains(&id) {
            return HeaderMoves::new(ty, None);
        }
        let contains = |set: &BTreeSet<Slot>, offset: u16| set.contains(&(header.first_slot + offset));
        let is_read = |offset| contains(&access.read, offset) || contains(&access.logged, offset);
        let is_written = |offset| contains(&access.written, offset);
        HeaderMoves::new(ty, Some(SlotUsage { is_read: &is_read, is_written: &is_written }))
    };
    (0..).map(HeaderId).zip(&program.layout.headers).map(moves).collect()
}
