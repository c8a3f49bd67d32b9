//! The message transport of one host: the sending half ([`Outbound`]) and the receiving half ([`Inbound`]), which
//! share no state. It sets no rate or window; those come from the scheme's decisions.
//!
//! A message has 1 to 16 subflows. Each subflow has its own UDP port, hence its own path, its own sequence space and
//! its own loss recovery. A byte of the message is assigned to one subflow, and to a second one if the path of the
//! first is dead. The message is complete when all its bytes have arrived, by whichever subflows.
//!
//! There are two kinds of loss recovery ([`LossRecovery`](crate::scheme::LossRecovery)). With go-back-N a message has
//! one subflow, `seq` is the offset in the message, and a receiver answers a gap with a NACK. With selective
//! retransmission DATA carries its offset in the subflow in `seq` and its offset in the message in `grant`, and the
//! receiver keeps the bytes behind a gap.

mod control;
mod deadlines;
mod feedback;
mod inbound;
mod inbound_message;
mod lru;
mod message;
mod message_table;
mod open;
mod outbound;
mod pacer;
mod probes;
mod range_set;
mod ready;
mod reno;
mod requests;
mod rto;
mod subflow;

pub(crate) use control::ControlQueue;
pub(crate) use inbound::Inbound;
pub(crate) use outbound::{Outbound, TxFrame};

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by message id. Its order is not deterministic across hashers, so it is only looked up, never iterated.
type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Hashes message ids, which are dense and not secret, with one multiplication. A peer that picks colliding ids slows
/// down only the receiver that it sends to, and [`max_inbound`](crate::TransportConfig) bounds how many such ids that
/// receiver holds.
#[derive(Default)]
struct IdHasher(u64);

/// 2^64 divided by the golden ratio, rounded to an odd number (Knuth, TAOCP 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }
    fn write_u32(&mut self, id: u32) {
        self.write_u64(u64::from(id));
    }
    fn write_u64(&mut self, id: u64) {
        let spread = (self.0 ^ id).wrapping_mul(GOLDEN);
        // The table takes its index from the low bits, where a product is weakest.
        self.0 = spread ^ spread >> 32;
    }
}

/// Returns the 64-bit offset nearest to `near` whose low 32 bits are `wire`; `None` if that offset would be negative.
fn unwrap_seq(near: u64, wire: u32) -> Option<u64> {
    let ahead = wire.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(i64::from(ahead))
}

/// Returns the path id of the acknowledged DATA packet. The receiver writes it into the grant field if the scheme
/// does not use that field; the path id of the ACK itself is that of the return path.
fn echoed_path(grant: u32) -> u16 {
    (grant & 0xfff) as u16
}

/// Upper bound of a window in bytes. Offsets travel as 32 bits; a quarter of that range ahead and a quarter behind,
/// with room for packets beyond the window, keeps [`unwrap_seq`] unambiguous.
const MAX_WINDOW: u64 = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_unwrap_to_the_nearest() {
        assert_eq!(unwrap_seq(0, 5), Some(5));
        assert_eq!(unwrap_seq(0, u32::MAX), None);
        assert_eq!(unwrap_seq(1 << 32, u32::MAX), Some((1 << 32) - 1));
        assert_eq!(unwrap_seq((1 << 32) - 1, 0), Some(1 << 32));
        assert_eq!(unwrap_seq(5 << 32, 7), Some((5 << 32) + 7));
    }
}
