//! Validates new messages and builds the headers of their packets.

use super::id_map::IdMap;
use crate::config::HostConfig;
use crate::event::{FlowSpec, OpenError};
use crate::scheme::Needs;
use crate::wire::{Ecn, Flags, FrameRepr, PacketKind, WeirRepr};
use weir_units::Bytes;

/// Checks that the message is not empty and that its id is not in use. `by_message` has the slots of the messages in
/// progress by id.
pub(super) fn validate(spec: &FlowSpec, by_message: &IdMap<u32, u32>) -> Result<(), OpenError> {
    if by_message.contains_key(&spec.message) {
        return Err(OpenError::MessageInUse { message: spec.message });
    }
    if spec.size == Some(Bytes::ZERO) {
        return Err(OpenError::Empty { message: spec.message });
    }
    Ok(())
}

/// Updates the headers of a message's packets after a scheme change. Tokens and class stay as they were when the
/// message was opened: switches find the entry of a deflected message by its tokens, and packets in another class
/// would overtake earlier ones.
pub(super) fn update_for_scheme(repr: &mut FrameRepr, needs: &Needs, payload_len: u32) {
    repr.ecn = ecn(needs);
    repr.weir.format = needs.records;
    repr.payload_len = payload_len;
}

fn ecn(needs: &Needs) -> Ecn {
    if needs.ecn.is_some() { Ecn::Ect0 } else { Ecn::NotEct }
}

/// Returns the headers of the full DATA packets of a message, with `tokens` deflection tokens.
pub(super) fn data_repr(
    config: &HostConfig,
    spec: &FlowSpec,
    needs: &Needs,
    tokens: u8,
    payload_len: u32,
) -> FrameRepr {
    // A message of unknown size is not short.
    let is_at_most = |max_size| spec.size.is_some_and(|size| size <= max_size);
    let flags = if config.scheme.needs().express_max_size.is_some_and(is_at_most) {
        Flags::EXPRESS
    } else {
        Flags::NONE
    };
    FrameRepr {
        source_mac: config.mac,
        destination_mac: spec.next_hop_mac,
        source: config.addr,
        destination: spec.peer,
        dscp: config.data_class,
        ecn: ecn(needs),
        entropy_port: spec.entropy_port,
        weir: WeirRepr {
            flags,
            tokens,
            format: needs.records,
            message: spec.message,
            ..WeirRepr::of(PacketKind::Data)
        },
        payload_len,
    }
}
