//! Determines which fields a program uses: only those are moved between the frame and the header vector.

use super::HeaderId;
use super::access::Access;
use super::header_moves::HeaderMoves;
use super::layout::Header;
use super::link::Linked;
use super::op::Slot;
use std::collections::BTreeSet;

/// Returns how each header instance is taken from the frame and put back, if these slots are read and written. Headers
/// that some code treats as a address_taken have all of their fields moved.
pub(super) fn header_moves(program: &Linked, access: &Access) -> Vec<HeaderMoves> {
    let shape = |(id, header): (HeaderId, &Header)| {
        let ty = &program.layout.types[header.ty];
        if program.address_taken.contains(&id) {
            return HeaderMoves::new(ty, None);
        }
        let test = |set: &BTreeSet<Slot>, rel: u16| set.contains(&(header.first_slot + rel));
        let read = |rel| test(&access.read, rel) || test(&access.logged, rel);
        HeaderMoves::new(ty, Some((&read, &|rel| test(&access.written, rel))))
    };
    (0..).map(HeaderId).zip(&program.layout.headers).map(shape).collect()
}
