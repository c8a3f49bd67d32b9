//! The message transport: what one host sends ([`Outbound`]) and what it receives ([`Inbound`]), apart from each other.
//!
//! A message has 1 to 16 subflows. Each has a UDP port of its own, and so its own path, its own sequence space, and
//! makes up for its own losses. A byte of the message is given to one subflow, and to another one too if the path of
//! the first is dead. The message has arrived when all of its bytes have, by whichever subflows.
//!
//! There are two strategies against losses ([`LossRecovery`](crate::scheme::Recovery)). With go-back-N a message has one
//! subflow, `seq` is the offset in the message, and a receiver answers a gap with a NACK. With selective retransmission
//! DATA has its offset in the subflow in `seq` and its offset in the message in `grant`, and the receiver keeps what is
//! behind a gap.

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

/// A map by message id. Only looked up, never iterated, so its order shows nowhere.
type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<IdHasher>>;

/// Spreads ids, which are dense and not secret, in one multiplication. A peer that picks ids to
/// collide slows down its own receiver only, and [`max_inbound`](crate::TransportConfig) bounds how
/// many it can hold.
#[derive(Default)]
struct IdHasher(u64);

/// 2^64 over the golden ratio, odd (Knuth, TAOCP 6.4).
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

/// Returns the 64-bit offset that the 32 bits on the wire mean: the one nearest to `near`. `Open` if that is before
/// the first byte.
fn unwrap_seq(near: u64, wire: u32) -> Option<u64> {
    let ahead = wire.wrapping_sub(near as u32).cast_signed();
    near.checked_add_signed(i64::from(ahead))
}

/// Returns the path id of the acknowledged DATA packet, which the receiver writes into the grant field of schemes that
/// do not use it. The ACK's own path id is that of the return path.
fn echoed_path(grant: u32) -> u16 {
    (grant & 0xfff) as u16
}

/// The most a window may hold, so that 32 bits on the wire are never ambiguous: a quarter of them
/// ahead, a quarter behind, and room for the packets beyond the window.
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
