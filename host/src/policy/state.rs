//! The state that a host keeps over a restart: the policy it holds, and the stamps by which it recognises replays. It
//! is signed, so that data damaged on disk is not mistaken for a policy.

use super::PolicyNode;
use super::key::MAC_LEN;
use super::node::{MAX_SENDERS, StoredPolicy};
use super::packet::{Body, take, take_slice, take_time, take_u64};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use weir_units::Time;

const MAGIC: &[u8; 5] = b"WPOL2";
const DOMAIN: &[u8] = b"weir policy state 2";

/// A state that is not one of this host and key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// The host takes no part.
    #[error("this host takes no part in policies: it has no policy key")]
    Off,
    /// Not what a node exports.
    #[error("the state is cut or is none at all")]
    Malformed,
    /// Another host's, another key's, or changed since.
    #[error("the state is not signed by this host with this key")]
    Forged,
}

impl PolicyNode {
    /// Returns the state for [`restore`](Self::restore).
    pub fn export(&self, now: Time) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.extend(self.stamp.to_be_bytes());
        out.extend(self.held.age(now).as_ps().to_be_bytes());
        out.extend((self.held.body.len() as u16).to_be_bytes());
        out.extend(&self.held.body);
        out.extend((self.stamps.len() as u32).to_be_bytes());
        for (sender, stamp) in &self.stamps {
            out.extend(sender.octets());
            out.extend(stamp.to_be_bytes());
        }
        let signature = self.key.sign(&[DOMAIN, &self.addr.octets(), &out]);
        out.extend(signature);
        out
    }

    /// Restores the state that an earlier run of this host exported `asleep` ago. Call it before anything is
    /// heard; a policy that is held already stays if it is newer.
    ///
    /// # Errors
    ///
    /// The state is cut or damaged, another host's, or signed with another key.
    pub fn restore(&mut self, now: Time, state: &[u8], asleep: Time) -> Result<(), StateError> {
        let (signed, signature) = state.split_last_chunk::<MAC_LEN>().ok_or(StateError::Malformed)?;
        if !self.key.verifies(&[DOMAIN, &self.addr.octets(), signed], signature) {
            return Err(StateError::Forged);
        }
        let (stamp, stamps, held) = read(signed, now, asleep).ok_or(StateError::Malformed)?;
        self.stamp = self.stamp.max(stamp);
        let latest = self.latest_stamp(now);
        for (sender, stamp) in stamps.into_iter().filter(|&(_, stamp)| stamp <= latest) {
            let last = self.stamps.entry(sender).or_default();
            *last = stamp.max(*last);
        }
        if held.id > self.held.id {
            self.hold_kept(held);
        }
        Ok(())
    }
}

fn read(mut rest: &[u8], now: Time, asleep: Time) -> Option<(u64, BTreeMap<Ipv4Addr, u64>, StoredPolicy)> {
    let rest = &mut rest;
    if take(rest)? != *MAGIC {
        return None;
    }
    let (stamp, age) = (take_u64(rest)?, take_time(rest)?);
    let len = usize::from(u16::from_be_bytes(take(rest)?));
    let bytes = take_slice(rest, len)?;
    let held = StoredPolicy::new(Body::decode(bytes)?, bytes, age.saturating_add(asleep), now);
    let count = u32::from_be_bytes(take(rest)?) as usize;
    let mut stamps = BTreeMap::new();
    for _ in 0..count.min(MAX_SENDERS) {
        stamps.insert(Ipv4Addr::from(take::<4>(rest)?), take_u64(rest)?);
    }
    rest.is_empty().then_some((stamp, stamps, held))
}
