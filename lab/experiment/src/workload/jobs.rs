//! `jobs`: barrier-synchronised reads.

use super::context::{self, InvalidKey, WorkloadContext, nonzero_size};
use super::kind::{Flows, Workload};
use super::source::{Arrival, FlowEnd, FlowSource};
use crate::file::SchemeEntry;
use crate::rng::RandomStream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::{serde_as, skip_serializing_none};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use weir_controller::topology::{AsText, HostIx};
use weir_units::{Bytes, Time};

/// Barrier-synchronised reads (AMP §5.3): a client sends requests to servers, all servers respond, and when the last byte of
/// the responses has arrived the next job starts with other hosts.
#[serde_as]
#[skip_serializing_none]
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JobsSpec {
    /// Number of concurrent jobs.
    jobs: u32,
    /// Number of servers of a job.
    servers: u32,
    /// Payload of a request.
    #[serde_as(as = "AsText")]
    request: Bytes,
    /// Payload of a response.
    #[serde_as(as = "AsText")]
    response: Bytes,
    /// Start of the first jobs.
    #[serde_as(as = "AsText")]
    #[serde(default)]
    start: Time,
    /// No job starts at or after this time; absent: the end of the run.
    #[serde_as(as = "Option<AsText>")]
    #[serde(default)]
    stop: Option<Time>,
    /// Maximum number of jobs.
    #[serde(default)]
    count: Option<u64>,
    /// Hosts from which clients and servers are drawn; absent: all hosts.
    #[serde(default)]
    hosts: Option<String>,
    /// Scheme of these hosts, in place of the run's scheme.
    #[serde(default)]
    scheme: Option<SchemeEntry>,
}

impl Workload for JobsSpec {
    const KIND: &'static str = "jobs";
    const ABOUT: &'static str =
        "clients send requests to servers, and start the next job when all have responded";

    fn title(&self) -> String {
        let jobs = if self.jobs == 1 { "1 job".to_owned() } else { format!("{} jobs", self.jobs) };
        format!("{jobs} of {} servers with {}", self.servers, self.response)
    }
    fn times_mut(&mut self) -> Vec<&mut Time> {
        [&mut self.start].into_iter().chain(&mut self.stop).collect()
    }
    fn scheme_mut(&mut self) -> Option<&mut SchemeEntry> {
        self.scheme.as_mut()
    }
    fn senders(&self, context: &WorkloadContext<'_>) -> Result<Vec<HostIx>, InvalidKey> {
        context.hosts("hosts", self.hosts.as_deref())
    }
    fn flows(&self, context: &WorkloadContext<'_>) -> Result<Flows, InvalidKey> {
        let hosts = self.senders(context)?;
        if self.jobs == 0 {
            return Err(InvalidKey::new("jobs", "must be at least 1"));
        }
        if hosts.len() < 2 {
            return Err(InvalidKey::new("hosts", "requires at least two hosts: a client and a server"));
        }
        if self.servers == 0 || self.servers as usize >= hosts.len() {
            let max = hosts.len() - 1;
            let reason =
                format!("must be 1 to {max}, one less than the number of hosts, found {}", self.servers);
            return Err(InvalidKey::new("servers", reason));
        }
        let concurrent_flows = f64::from(self.jobs) * f64::from(self.servers);
        context::check_concurrent_flows("jobs", concurrent_flows)?;
        let params = JobParams {
            jobs: self.jobs,
            servers: self.servers as usize,
            request: nonzero_size("request", self.request)?,
            response: nonzero_size("response", self.response)?,
            start_range: context.start_range(self.start, self.stop)?,
            hosts,
        };
        let count = self.count.unwrap_or(u64::MAX);
        Ok(Flows::dynamic(move |streams| JobSource::new(params.clone(), count, streams.named("jobs"))))
    }
}

/// The keys of [`JobsSpec`] after all checks.
#[derive(Clone, Debug)]
struct JobParams {
    jobs: u32,
    servers: usize,
    request: Bytes,
    response: Bytes,
    /// Time range in which jobs start.
    start_range: Range<Time>,
    hosts: Vec<HostIx>,
}

/// A job in progress.
struct Job {
    client: HostIx,
    start: Time,
    pending_responses: usize,
}

/// The source of `jobs`.
struct JobSource {
    params: JobParams,
    stream: RandomStream,
    /// Number of jobs that may still start.
    remaining: u64,
    /// Running jobs by number. Flows of job `n` have the tag `2n` for a request and `2n + 1` for a response.
    running: BTreeMap<u32, Job>,
    /// Requests and responses to start, in order of time.
    pending_flows: VecDeque<Arrival>,
    /// Start times of the next jobs.
    pending_starts: VecDeque<Time>,
    /// Number of the next job.
    next_number: u32,
    /// Completion times of finished jobs.
    completion_times: Vec<Time>,
}

impl JobSource {
    fn new(params: JobParams, remaining: u64, stream: RandomStream) -> JobSource {
        let pending_starts = (0..params.jobs).map(|_| params.start_range.start).collect();
        let mut jobs = JobSource {
            params,
            stream,
            remaining,
            running: BTreeMap::new(),
            pending_flows: VecDeque::new(),
            pending_starts,
            next_number: 0,
            completion_times: Vec::new(),
        };
        jobs.start_pending();
        jobs
    }

    /// Starts all pending jobs: draws their hosts and queues their requests.
    fn start_pending(&mut self) {
        while let Some(now) = self.pending_starts.pop_front() {
            if self.remaining == 0 || now >= self.params.start_range.end {
                continue;
            }
            self.remaining -= 1;
            // Partial Fisher-Yates shuffle: the first host is the client, the others are the servers.
            let mut hosts = self.params.hosts.clone();
            for i in 0..=self.params.servers {
                let j = i + self.stream.below((hosts.len() - i) as u64) as usize;
                hosts.swap(i, j);
            }
            let number = self.next_number;
            // Tags are 2n and 2n + 1, so n has 31 bits and wraps; a job has ended long before its number is reused.
            self.next_number = self.next_number.wrapping_add(1) & (u32::MAX >> 1);
            for &server in &hosts[1..=self.params.servers] {
                let request = Arrival::new(hosts[0], server, now, self.params.request);
                self.pending_flows.push_back(Arrival { tag: number << 1, ..request });
            }
            let job = Job { client: hosts[0], start: now, pending_responses: self.params.servers };
            self.running.insert(number, job);
        }
    }
}

impl FlowSource for JobSource {
    fn next_start(&self) -> Option<Time> {
        self.pending_flows.front().map(|flow| flow.start)
    }

    fn pop(&mut self) -> Option<Arrival> {
        self.pending_flows.pop_front()
    }

    fn on_flow_received(&mut self, flow: FlowEnd, now: Time) {
        let number = flow.tag >> 1;
        let Some(job) = self.running.get_mut(&number) else { return };
        let is_request = flow.tag & 1 == 0;
        if is_request {
            let response = Arrival::new(flow.to, job.client, now, self.params.response);
            self.pending_flows.push_back(Arrival { tag: flow.tag | 1, ..response });
            return;
        }
        job.pending_responses -= 1;
        if job.pending_responses == 0 {
            self.completion_times.push(now.saturating_sub(job.start));
            self.running.remove(&number);
            self.pending_starts.push_back(now);
            self.start_pending();
        }
    }

    fn is_closed_loop(&self) -> bool {
        true
    }

    fn job_times(&self) -> &[Time] {
        &self.completion_times
    }
}
