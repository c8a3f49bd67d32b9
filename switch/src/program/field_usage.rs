//! Determines which fields a program uses: only those are moved between the frame and the header vector.

use super::access::Access;
use super::header_moves::HeaderMoves;
use super::layout::{Header, HeaderId};
use super::link::LinkedProgram;
use super::op::Slot;
use std::collections::BTreeSet;

/// Returns the moves of each header instance for a program with these accesses. If the address of a header is
/// taken, all its fields are moved.
pub(super) fn header_moves(program: &LinkedProgram, access: &Access) -> Vec<HeaderMoves> {
    let moves = |(id, header): (HeaderId, &Header)| {
        let ty = &program.layout.types[header.ty];
        if program.address_taken.contains(&id) {
            return HeaderMoves::new(ty, None);
        }
        let contains = |set: &BTreeSet<Slot>, rel: u16| set.contains(&(header.first_slot + rel));
        let read = |rel| contains(&access.read, rel) || contains(&access.logged, rel);
        HeaderMoves::new(ty, Some((&read, &|rel| contains(&access.written, rel))))
    };
    (0..).map(HeaderId).zip(&program.layout.headers).map(moves).collect()
}
