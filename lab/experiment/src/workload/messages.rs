//! `messages`: messages of one size at random times.

use super::context::{self, InvalidKey, WorkloadContext, nonzero_size};
use super::kind::{Flows, StaticFlow, Workload};
use crate::rng::{mix, stream_seed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use weir_controller::topology::{AsText, HostIx};
use weir_units::{Bytes, Ratio, Time};

/// Every host sends messages of one size at random times, each to a random host: a Poisson process conditioned on its number
/// of arrivals.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MessagesSpec {
    /// Payload of each message.
    #[serde_as(as = "AsText")]
    size: Bytes,
    /// Payload that a host sends, as a share of the capacity of its link.
    #[serde_as(as = "AsText")]
    #[schemars(extend("maximum" = 1))]
    load: Ratio,
    /// No message starts before this time.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// No message starts at or after this time; absent: the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
}

impl Workload for MessagesSpec {
    const KIND: &'static str = "messages";
    const ABOUT: &'static str = "messages of one size, at random times and to random hosts";

    fn title(&self) -> String {
        format!("messages of {} at {}", self.size, self.load)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        [&mut self.start].into_iter().chain(&mut self.stop).collect()
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let size = nonzero_size("size", self.size)?;
        let start_range = context.start_range(self.start, self.stop)?;
        let load = context::check_load(self.load)?;
        let stream_seed = stream_seed(context.seed, "messages");
        let span = start_range.end - start_range.start;
        let messages_of = |host| context.rate(host).bytes_in(span).as_f64() * load / size.as_f64();
        let expected = context.topology.host_ixs().map(messages_of).sum();
        let remedy = "use `poisson`, which generates its flows during the run";
        context::check_count("size", expected, context::MAX_CONCURRENT_FLOWS, "messages", remedy)?;
        let hosts = context.topology.hosts.len() as u64;
        let mut draw_count = 0u64;
        let mut draw = || {
            draw_count += 1;
            mix(stream_seed ^ draw_count)
        };
        let mut flows = Vec::new();
        for from in context.topology.host_ixs() {
            for _ in 0..messages_of(from) as usize {
                // 1 to hosts - 1 further on, so that no host sends to itself.
                let to = HostIx(((u64::from(from.0) + 1 + draw() % (hosts - 1)) % hosts) as u32);
                let start = start_range.start + Time::from_ps(draw() % span.as_ps());
                flows.push(StaticFlow { from, to, start, size: Some(size), announces: None, incast: false });
            }
        }
        Ok(Flows::Static(flows))
    }
}
