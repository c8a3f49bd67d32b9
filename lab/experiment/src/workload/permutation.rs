//! `permutation`: every host sends to one other host and receives from one other host.

use super::context::{InvalidKey, WorkloadContext, nonzero_size};
use super::kind::{Flows, StaticFlow, Workload};
use crate::file::SchemeEntry;
use crate::rng::{mix, stream_seed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use weir_controller::topology::{AsText, HostIx};
use weir_units::{Bytes, Time};

/// Every host sends to one other host and receives from one other host, drawn from the seed.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PermutationSpec {
    /// Payload of each flow; absent: flows send until the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    size: Option<Bytes>,
    /// Start of all flows.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// Participating hosts; absent: all hosts.
    #[serde(default)]
    hosts: Option<String>,
    /// Scheme of these hosts, in place of the run's scheme.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for PermutationSpec {
    const KIND: &'static str = "permutation";
    const ABOUT: &'static str = "every host sends to one other host and receives from one other host";

    fn times_mut(&mut self) -> Vec<&mut Time> {
        vec![&mut self.start]
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        context.hosts("hosts", self.hosts.as_deref())
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        self.size.map(|size| nonzero_size("size", size)).transpose()?;
        // Checks that `start` is before the end of the run; all flows start at once, so no range is needed.
        context.start_range(self.start, None)?;
        let hosts = self.senders(context)?;
        if hosts.len() < 2 {
            return Err(InvalidKey::new("hosts", "requires at least two hosts"));
        }
        let flow = |(from, to): (usize, usize)| StaticFlow {
            from: hosts[from],
            to: hosts[to],
            start: self.start,
            size: self.size,
            announces: None,
            incast: false,
        };
        Ok(Flows::Static(permutation(hosts.len(), context.seed).into_iter().enumerate().map(flow).collect()))
    }
}

/// Returns the successor of each host in a random cyclic order, so that no host sends to itself.
fn permutation(count: usize, seed: u64) -> Vec<usize> {
    let stream = stream_seed(seed, "permutation");
    let mut order: Vec<usize> = (0..count).collect();
    for i in (1..count).rev() {
        order.swap(i, (mix(stream ^ i as u64) % (i as u64 + 1)) as usize);
    }
    let mut successor = vec![0; count];
    for (i, &host) in order.iter().enumerate() {
        successor[host] = order[(i + 1) % count];
    }
    successor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_sends_and_receives_once() {
        for count in [2, 3, 128] {
            let successor = permutation(count, 1);
            let mut receivers = successor.clone();
            receivers.sort_unstable();
            assert_eq!(receivers, (0..count).collect::<Vec<_>>());
            assert!(successor.iter().enumerate().all(|(from, to)| from != *to));
        }
        assert_ne!(permutation(16, 1), permutation(16, 2));
    }
}
