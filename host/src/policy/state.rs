//! The state that a host saves for a restart: the held policy, and the timestamps by which it detects replays. The
//! state is signed, so that data damaged on disk is not mistaken for a policy.

use super::key::MAC_LEN;
use super::node::{HeldPolicy, MAX_SENDERS, PolicyNode};
use super::packet::{Body, read, read_slice, read_time, read_u64};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::Time;

const MAGIC: &[u8; 5] = b"WPOL2";
/// Keeps a signature of another use of the key, such as a packet, from being valid here.
const DOMAIN_SEPARATOR: &[u8] = b"weir policy state 2";

/// The reason why a saved state cannot be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// Policies are disabled on this host.
    #[error("policies are disabled on this host (no policy key)")]
    Disabled,
    /// The state is truncated or has an unknown format.
    #[error("policy state is truncated or has an unknown format")]
    Malformed,
    /// The signature is invalid.
    #[error("policy state has an invalid signature (other host, other key, or corrupted)")]
    Forged,
}

impl PolicyNode {
    /// Returns the state to save, as of `now`, for [`restore`](Self::restore).
    pub fn export(&self, now: Time) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.stamp.to_be_bytes());
        out.extend(self.held.age(now).as_ps().to_be_bytes());
        out.extend((self.held.body.len() as u16).to_be_bytes());
        out.extend(&self.held.body);
        out.extend((self.last_stamps.len() as u32).to_be_bytes());
        for (sender, stamp) in &self.last_stamps {
            out.extend(sender.octets());
            out.extend(stamp.to_be_bytes());
        }
        let signature = self.key.sign(&[DOMAIN_SEPARATOR, &self.addr.octets(), &out]);
        out.extend(signature);
        out
    }

    /// Restores the state that an earlier run of this host exported; `downtime` is the time since the export. Call
    /// before any packet is received. A policy that is already held is kept unless the restored one is newer.
    ///
    /// # Errors
    ///
    /// The state is truncated or damaged, another host's, or signed with another key.
    pub fn restore(&mut self, now: Time, state: &[u8], downtime: Time) -> Result<(), StateError> {
        let (signed, signature) = state.split_last_chunk::<MAC_LEN>().ok_or(StateError::Malformed)?;
        if !self.key.verify(&[DOMAIN_SEPARATOR, &self.addr.octets(), signed], signature) {
            return Err(StateError::Forged);
        }
        let SavedState { stamp, last_stamps, held } =
            parse_state(signed, now, downtime).ok_or(StateError::Malformed)?;
        self.stamp = self.stamp.max(stamp);
        let max_stamp = self.max_accepted_stamp(now);
        // Skip timestamps from the future, for example because this host's clock was set back: they would make the next
        // packets of their senders look replayed.
        for (sender, stamp) in last_stamps.into_iter().filter(|&(_, stamp)| stamp <= max_stamp) {
            let last = self.last_stamps.entry(sender).or_default();
            *last = stamp.max(*last);
        }
        if held.id > self.held.id {
            self.install_restored(held);
        }
        Ok(())
    }
}

/// The content of a saved state.
struct SavedState {
    /// The last timestamp that the host sent.
    stamp: u64,
    /// The last timestamp accepted from each sender.
    last_stamps: BTreeMap<Ipv4Addr, u64>,
    held: HeldPolicy,
}

/// Parses the signed part of a state.
fn parse_state(mut rest: &[u8], now: Time, downtime: Time) -> Option<SavedState> {
    let rest = &mut rest;
    if read(rest)? != *MAGIC {
        return None;
    }
    let (stamp, age) = (read_u64(rest)?, read_time(rest)?);
    let len = usize::from(u16::from_be_bytes(read(rest)?));
    let body = read_slice(rest, len)?;
    let held = HeldPolicy::new(Body::decode(body)?, body, age.saturating_add(downtime), now);
    let count = u32::from_be_bytes(read(rest)?) as usize;
    let mut last_stamps = BTreeMap::new();
    // A larger count leaves bytes over, so the state is then malformed.
    for _ in 0..count.min(MAX_SENDERS) {
        last_stamps.insert(Ipv4Addr::from(read::<4>(rest)?), read_u64(rest)?);
    }
    rest.is_empty().then_some(SavedState { stamp, last_stamps, held })
}
