//! The state that a host keeps over a restart: the policy it holds, and the stamps by which it recognises replays. It
//! is signed, so that data damaged on disk is not mistaken for a policy.

use super::PolicyNode;
use super::key::MAC_LEN;
use super::node::{HeldPolicy, MAX_SENDERS};
use super::packet::{Body, read, read_slice, read_time, read_u64};
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
    Disabled,
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
        out.extend((self.last_stamps.len() as u32).to_be_bytes());
        for (sender, stamp) in &self.last_stamps {
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
        if !self.key.verify(&[DOMAIN, &self.addr.octets(), signed], signature) {
            return Err(StateError::Forged);
        }
        let (stamp, stamps, held) = parse_state(signed, now, asleep).ok_or(StateError::Malformed)?;
        self.stamp = self.stamp.max(stamp);
        let latest = self.max_accepted_stamp(now);
        for (sender, stamp) in stamps.into_iter().filter(|&(_, stamp)| stamp <= latest) {
            let last = self.last_stamps.entry(sender).or_default();
            *last = stamp.max(*last);
        }
        if held.id > self.held.id {
            self.install_restored(held);
        }
        Ok(())
    }
}

fn parse_state(
    mut rest: &[u8],
    now: Time,
    asleep: Time,
) -> Option<(u64, BTreeMap<Ipv4Addr, u64>, HeldPolicy)> {
    let rest = &mut rest;
    if read(rest)? != *MAGIC {
        return None;
    }
    let (stamp, age) = (read_u64(rest)?, read_time(rest)?);
    let len = usize::from(u16::from_be_bytes(read(rest)?));
    let bytes = read_slice(rest, len)?;
    let held = HeldPolicy::new(Body::decode(bytes)?, bytes, age.saturating_add(asleep), now);
    let count = u32::from_be_bytes(read(rest)?) as usize;
    let mut stamps = BTreeMap::new();
    for _ in 0..count.min(MAX_SENDERS) {
        stamps.insert(Ipv4Addr::from(read::<4>(rest)?), read_u64(rest)?);
    }
    rest.is_empty().then_some((stamp, stamps, held))
}
