//! Attaches, initializes and recycles the header vectors of packets, and preserves fields from one run to the next.

use super::state::State;
use crate::packet::Packet;
use crate::program::{Program, limb_count};

/// Attaches a header vector of this program to the packet, unless it has one. Constants are in place; all
/// other slots are undefined.
#[inline]
pub(super) fn attach_vector(program: &Program, state: &mut State, packet: &mut Packet) {
    if !packet.phv.slots.has_layout(program.layout_id) {
        packet.phv.slots = state.scratch.acquire_vector(program);
    }
}

/// Returns the header vector of a deparsed packet to the free list: from now on the packet is its bytes only.
#[inline(never)]
pub(super) fn recycle_vector(state: &mut State, packet: &mut Packet) {
    state.scratch.recycle_vector(packet.phv.slots.take());
}

/// Attaches a header vector and initializes it: no header is valid and all metadata is 0.
pub(super) fn init_phv(program: &Program, state: &mut State, packet: &mut Packet) {
    reset_phv(packet);
    attach_vector(program, state, packet);
    packet.phv.slots[..program.zeroed_slots].fill(0);
}

/// Resets the packet's values of the previous run, except for its slots. Returns the packet's length.
#[inline]
pub(super) fn reset_phv(packet: &mut Packet) -> u32 {
    let len = packet.len();
    let phv = &mut packet.phv;
    phv.parsed = 0;
    phv.length = len;
    phv.ingress_length = len;
    phv.truncate = u32::MAX;
    len
}

/// Copies the fields of a list to scratch memory. Ids of lists start at 1; list 0 is empty.
pub(super) fn save_fields(program: &Program, state: &mut State, slots: &[u64], list: u64) {
    state.scratch.saved_fields.clear();
    for (slot, bits) in fields(program, list) {
        state.scratch.saved_fields.extend_from_slice(&slots[usize::from(*slot)..][..limb_count(*bits)]);
    }
}

/// Clears the metadata, then restores the fields of a list that [`save_fields`] has saved, and sets the
/// instance type.
pub(super) fn restore_fields(
    program: &Program,
    state: &State,
    slots: &mut [u64],
    list: u64,
    instance_type: u64,
) {
    for (base, len) in &program.metadata_blocks {
        slots[usize::from(*base)..][..usize::from(*len)].fill(0);
    }
    let mut saved = state.scratch.saved_fields.as_slice();
    for (slot, bits) in fields(program, list) {
        let (value, rest) = saved.split_at(limb_count(*bits));
        slots[usize::from(*slot)..][..value.len()].copy_from_slice(value);
        saved = rest;
    }
    let flags = &program.control_slots;
    for flag in
        [flags.exit, flags.clone_session, flags.clone_list, flags.resubmit, flags.recirculate, flags.digest]
    {
        slots[usize::from(flag)] = 0;
    }
    slots[usize::from(program.standard.instance_type)] = instance_type;
}

fn fields(program: &Program, list: u64) -> &[(u16, u32)] {
    let list = (list as usize).checked_sub(1).and_then(|list| program.field_lists.get(list));
    list.map_or(&[], |list| list.fields.as_slice())
}

/// Prepares a packet to run ingress again: preserves the fields of the list, clears all other metadata, and
/// marks it as `reentered`.
pub(super) fn prepare_reentry(
    program: &Program,
    state: &mut State,
    packet: &mut Packet,
    list: u64,
    instance_type: u64,
) {
    let ingress_length = packet.phv.ingress_length;
    save_fields(program, state, &packet.phv.slots, list);
    init_phv(program, state, packet);
    restore_fields(program, state, &mut packet.phv.slots, list, instance_type);
    packet.phv.ingress_length = ingress_length;
    packet.reentered = true;
    let len = packet.len();
    packet.phv.slots[usize::from(program.standard.packet_length)] = u64::from(len);
}
