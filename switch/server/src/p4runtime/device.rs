//! The state that all calls of a server share, and the operations of Write, Read and the pipeline calls.
//!
//! A [`Control`] is used on the data-plane thread, together with its switch. The lock on both pipelines orders the
//! calls: writes and pushes are exclusive, reads are shared. A read therefore sees a write completely or not at all
//! (P4Runtime §13.4).

use super::config::ServerConfig;
use super::digest::Digests;
use super::forwarding_pipeline::{self, ControllerHeaders, StagedPipeline};
use super::reconcile;
use super::sessions::Sessions;
use super::status::{from_control, from_dataplane};
use super::sync::lock;
use p4runtime::arbitration::ClientId;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::p4::v1::{Entity, ForwardingPipelineConfig, TableEntry, Update};
use p4runtime::received::{DecodeError, Parts, Received};
use prost::Message;
use prost::bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, RwLock, Semaphore};
use tonic::Status;
use weir_switch::Switch;
use weir_switch::control::{Atomicity, Batch, Control, ControlError, ReadPage};
use weir_switch::driver::DataplaneHandle;
use weir_switch::program::Program;
use weir_units::Time;

/// Updates applied, or rows (table entries, cells of arrays) read, between two batches of frames: about 0.2 ms, short
/// enough for every receive ring.
const BATCH_STEP: usize = 128;

/// Memory limit of the decoded updates of one step, in bytes.
const STEP_MEMORY: usize = 1 << 20;
/// Memory that a request, or one of its updates or entities, may need in addition to its encoded size when decoded, in
/// bytes. Typical programs and controllers need a tenth of it.
pub(super) const DECODE_ALLOWANCE: usize = 4 << 20;
/// Requests above this size in bytes are decoded one at a time on a blocking thread.
const LARGE_REQUEST: usize = 64 << 10;
/// Maximum number of reads with results in memory, in addition to one per connection. Further reads wait.
const MAX_CONCURRENT_READS: usize = 32;
/// Memory limit of the results of all reads, in bytes, in addition to what each connection may use by itself.
pub(super) const MAX_TOTAL_READ_BYTES: usize = 256 << 20;

/// The pipeline that processes packets.
struct ActivePipeline {
    control: Arc<Mutex<Control>>,
    program: Arc<Program>,
    config: ForwardingPipelineConfig,
}

/// The pipelines of a device.
#[derive(Default)]
pub(super) struct Pipelines {
    active: Option<ActivePipeline>,
    /// Saved by VERIFY_AND_SAVE and not yet committed. It has its own switch, which receives writes until the commit.
    saved: Option<StagedPipeline>,
}

/// A device with its sessions and pipelines.
pub(super) struct Device {
    pub dataplane: DataplaneHandle,
    pub sessions: Mutex<Sessions>,
    pub pipelines: RwLock<Pipelines>,
    /// Headers of the active pipeline; `None` before the first push.
    pub headers: Mutex<Option<Arc<ControllerHeaders>>>,
    pub digests: Mutex<Digests>,
    /// Notified when the set of digests or their configuration changes.
    pub digests_changed: Notify,
    /// True if any entry has an idle timeout; `timeouts_changed` is notified after each write.
    pub has_timeouts: AtomicBool,
    pub timeouts_changed: Notify,
    pub subscriptions: Arc<Subscriptions>,
    pub read_permits: Semaphore,
    /// Memory for the results of all reads, in KiB; one permit per KiB.
    pub read_memory: Semaphore,
    /// Held while a large request is decoded.
    decode_permit: Semaphore,
    pub config: ServerConfig,
    started: Instant,
}

/// Whether a client receives packet-ins or digests. If not, the data plane need not copy them.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    pub packet_in: AtomicBool,
    pub digests: AtomicBool,
}

impl Device {
    pub(super) fn new(dataplane: DataplaneHandle, config: ServerConfig) -> Device {
        Device {
            dataplane,
            sessions: Mutex::new(Sessions::new(config.device_id)),
            pipelines: RwLock::default(),
            headers: Mutex::default(),
            digests: Mutex::default(),
            digests_changed: Notify::new(),
            has_timeouts: AtomicBool::new(false),
            timeouts_changed: Notify::new(),
            subscriptions: Arc::default(),
            read_permits: Semaphore::new(MAX_CONCURRENT_READS),
            read_memory: Semaphore::new(MAX_TOTAL_READ_BYTES >> 10),
            decode_permit: Semaphore::new(1),
            config,
            started: Instant::now(),
        }
    }

    /// Returns the time since the start of the server, the clock of timeouts.
    pub(super) fn now(&self) -> Time {
        Time::from_ns(
            u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).min(Time::MAX.as_ns()),
        )
    }

    /// Decodes a request, a large one on a blocking thread.
    pub(super) async fn decode<M: 'static, R: Send + 'static>(
        &self,
        request: Received<M>,
        decode: impl FnOnce(&Received<M>) -> Result<R, DecodeError> + Send + 'static,
    ) -> Result<R, Status> {
        if request.encoded_len() <= LARGE_REQUEST {
            return Ok(decode(&request)?);
        }
        let _permit = self.decode_permit.acquire().await;
        let decoded = tokio::task::spawn_blocking(move || decode(&request)).await;
        Ok(decoded.map_err(|_| Status::internal("internal error: decoding the request panicked"))??)
    }

    /// Updates the state that depends on the primaries. `previous` are the primaries before the change.
    pub(super) fn on_primary_change(&self, sessions: &Sessions, previous: &[ClientId]) {
        let primaries = sessions.arbitration.primaries();
        self.subscriptions.packet_in.store(!primaries.is_empty(), Ordering::Relaxed);
        if primaries != previous {
            lock(&self.digests).reset();
        }
    }

    /// Applies a batch to the pipeline that was pushed last.
    pub(super) async fn write(
        &self,
        pipelines: &mut Pipelines,
        mut updates: Parts<Update>,
        atomicity: Atomicity,
    ) -> Result<Batch, Status> {
        let mut batch = Batch::new(updates.len(), atomicity);
        if let Some(saved) = &mut pipelines.saved {
            batch.step(&mut saved.control, &mut saved.switch, updates.map(to_update));
            return Ok(batch);
        }
        let active = pipelines.active.as_ref().ok_or_else(no_pipeline)?;
        let mut is_done = updates.len() == 0;
        while !is_done {
            // No packet may be processed between the updates of an atomic batch, so all are applied in one step and
            // decoded one by one.
            let (decoded, encoded) = match atomicity {
                Atomicity::DataplaneAtomic => (Vec::new(), Some(updates.clone())),
                _ => (updates.decode_some(BATCH_STEP, STEP_MEMORY), None),
            };
            let step = self.on_active(active, move |control, switch, _| {
                let updates = decoded.into_iter().chain(encoded.into_iter().flatten()).map(to_update);
                let is_done = batch.step(control, switch, updates);
                (batch, is_done)
            });
            (batch, is_done) = step.await?;
        }
        self.after_write(&active.control);
        Ok(batch)
    }

    /// Runs an operation on the active pipeline, on the data-plane thread.
    async fn on_active<R: Send + 'static>(
        &self,
        active: &ActivePipeline,
        operation: impl FnOnce(&mut Control, &mut Switch, Time) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let (control, program) = (Arc::clone(&active.control), Arc::clone(&active.program));
        let result = self.dataplane.call(move |switch, now| {
            switch.set_now(now);
            // Thrift may have installed another program since.
            let is_running = Arc::ptr_eq(switch.pipeline().program(), &program);
            is_running.then(|| operation(&mut lock(&control), switch, now))
        });
        result.await.map_err(from_dataplane)?.ok_or_else(|| {
            Status::failed_precondition(
                "another program was loaded over Thrift; push its P4Info with VERIFY_AND_COMMIT",
            )
        })
    }

    /// Publishes, after a write, the settings that other tasks read: enabled digests, and whether any entry has an idle
    /// timeout.
    fn after_write(&self, control: &Mutex<Control>) {
        let control = lock(control);
        let mut digests = lock(&self.digests);
        digests.configure(control.digest_settings());
        self.subscriptions.digests.store(digests.any_enabled(), Ordering::Relaxed);
        self.digests_changed.notify_one();
        self.has_timeouts.store(control.has_timeouts(), Ordering::Relaxed);
        self.timeouts_changed.notify_one();
    }

    /// Reads from the pipeline that was pushed last. Returns encoded entities. The outer error ends the call; the inner
    /// one is the result of this request only.
    pub(super) async fn read(
        &self,
        pipelines: &Pipelines,
        request: Entity,
    ) -> Result<Result<Vec<Bytes>, ControlError>, Status> {
        let encode = |entity: &Entity| Bytes::from(entity.encode_to_vec());
        if let Some(saved) = &pipelines.saved {
            let found = saved.control.read(&saved.switch, &request);
            return Ok(found.map(|found| found.iter().map(encode).collect()));
        }
        let active = pipelines.active.as_ref().ok_or_else(no_pipeline)?;
        let request = Arc::new(request);
        let (mut entities, mut next_row) = (Vec::new(), Some(0));
        while let Some(row) = next_row {
            let request = Arc::clone(&request);
            let read = self.on_active(active, move |control, switch, _| {
                let mut page = ReadPage::new(row, BATCH_STEP);
                let found = control.read_page(switch, &request, &mut page);
                (found, page.next_row())
            });
            let (found, row_after_page) = read.await?;
            match found {
                Ok(found) => entities.extend(found.iter().map(encode)),
                Err(error) => return Ok(Err(error)),
            }
            next_row = row_after_page;
        }
        Ok(Ok(entities))
    }

    /// Returns the entries that have timed out, and the time that the data plane needed to find them.
    pub(super) async fn take_timed_out(&self) -> Result<(Vec<TableEntry>, Duration), Status> {
        let pipelines = self.pipelines.read().await;
        let Some(active) = &pipelines.active else { return Ok(Default::default()) };
        let scan = self.on_active(active, |control, switch, now| {
            let started = Instant::now();
            let expired = control.take_timed_out(switch, now);
            expired.map(|expired| (expired, started.elapsed()))
        });
        match scan.await {
            // Another program was loaded over Thrift; the entries no longer exist.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => Ok(Default::default()),
            result => result?.map_err(|error| from_control(&error)),
        }
    }

    /// Performs a SetForwardingPipelineConfig. On an error the state is unchanged.
    pub(super) async fn set_pipeline(
        &self,
        pipelines: &mut Pipelines,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        match (action, config) {
            (Action::Unspecified, _) => Err(Status::invalid_argument("the action is not set")),
            (Action::Commit, Some(_)) => {
                Err(Status::invalid_argument("COMMIT takes no config; it commits the saved one"))
            }
            (Action::Commit, None) => match pipelines.saved.take() {
                Some(saved) => self.install(pipelines, saved).await,
                None => Err(Status::not_found("there is no saved config; VERIFY_AND_SAVE one first")),
            },
            (_, None) => Err(Status::invalid_argument("the request has no config")),
            (_, Some(config)) => {
                let mut candidate = self.load(config).await?;
                match action {
                    Action::Verify => Ok(()),
                    Action::VerifyAndSave => {
                        pipelines.saved = Some(candidate);
                        Ok(())
                    }
                    Action::ReconcileAndCommit => {
                        if let Some(active) = &pipelines.active {
                            self.reconcile(active, &mut candidate).await?;
                        }
                        self.install(pipelines, candidate).await
                    }
                    _ => self.install(pipelines, candidate).await,
                }
            }
        }
    }

    /// Loads a program on a blocking thread, since it takes many milliseconds.
    async fn load(&self, config: ForwardingPipelineConfig) -> Result<StagedPipeline, Status> {
        let running = self.dataplane.call(|switch, _| Arc::clone(switch.pipeline().program())).await.ok();
        let switch_config = self.dataplane.switch_config().await.map_err(from_dataplane)?;
        let (seed, programs) = (self.config.seed, Arc::clone(&self.config.programs));
        let load = move || forwarding_pipeline::load(&programs, config, running, switch_config, seed);
        let loading = tokio::task::spawn_blocking(load);
        let loaded =
            loading.await.map_err(|_| Status::internal("internal error: loading the program panicked"))?;
        loaded.map_err(|error| from_control(&error))
    }

    async fn reconcile(&self, active: &ActivePipeline, candidate: &mut StagedPipeline) -> Result<(), Status> {
        let state =
            self.on_active(active, |control, switch, _| reconcile::PipelineState::capture(control, switch));
        let state = state.await?.map_err(|error| from_control(&error))?;
        state.restore(candidate).map_err(|error| from_control(&error))
    }

    async fn install(&self, pipelines: &mut Pipelines, candidate: StagedPipeline) -> Result<(), Status> {
        let StagedPipeline { switch, control, headers, config } = candidate;
        let digests = Digests::from_p4info(control.p4info());
        let program = Arc::clone(switch.pipeline().program());
        self.dataplane.install(switch).await.map_err(from_dataplane)?;
        // Idle timeouts of the entries start now, not when they were written to the candidate.
        let started = self.dataplane.call(|switch, now| {
            switch.set_now(now);
            switch.pipeline_mut().restart_timeouts();
        });
        started.await.map_err(from_dataplane)?;
        let control = Arc::new(Mutex::new(control));
        *lock(&self.headers) = Some(Arc::new(headers));
        *lock(&self.digests) = digests;
        self.after_write(&control);
        *pipelines = Pipelines { active: Some(ActivePipeline { control, program, config }), saved: None };
        Ok(())
    }
}

impl Pipelines {
    /// Returns the config that was pushed last.
    pub(super) fn config(&self) -> Option<&ForwardingPipelineConfig> {
        let saved = self.saved.as_ref().map(|saved| &saved.config);
        saved.or(self.active.as_ref().map(|active| &active.config))
    }
}

/// Converts a decoding result for a batch, which reports errors per update.
fn to_update(update: Result<Update, DecodeError>) -> Result<Update, ControlError> {
    update.map_err(|error| ControlError::new(Code::InvalidArgument, error.to_string()))
}

pub(super) fn no_pipeline() -> Status {
    Status::failed_precondition(
        "No forwarding pipeline config set for this device; push one with SetForwardingPipelineConfig",
    )
}
