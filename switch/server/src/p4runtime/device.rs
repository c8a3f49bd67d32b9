//! State that all calls of a server share, and the operations behind Write, Read and the pipeline calls.
//!
//! A [`Control`] works on the data-plane thread, beside the switch it belongs to. The lock around both pipelines
//! orders the calls: writers and pushes one after the other, reads beside each other, so that a read sees a write
//! whole or not at all (P4Runtime §13.4).

use super::ServerConfig;
use super::digest::Digests;
use super::forwarding_pipeline::{self, ControllerHeaders, StagedPipeline};
use super::reconcile;
use super::service::{MAX_CONCURRENT_READS, MAX_TOTAL_READ_BYTES};
use super::sessions::Sessions;
use super::status::{from_control, from_dataplane};
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::p4::v1::{Entity, ForwardingPipelineConfig, TableEntry, Update};
use p4runtime::received::{DecodeError, Parts, Received};
use prost::Message;
use prost::bytes::Bytes;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, RwLock, Semaphore};
use tonic::Status;
use weir_switch::Switch;
use weir_switch::control::{Atomicity, Batch, Control, ControlError, ReadPage};
use weir_switch::driver::DataplaneHandle;
use weir_switch::program::Program;
use weir_units::Time;

/// Updates applied, or rows read, between two batches of frames: about 0.2 ms, which every receive ring outlasts.
const BATCH_STEP: usize = 128;

/// The memory that the updates of a step may take when they are decoded, bytes.
const STEP_MEMORY: usize = 1 << 20;
/// The memory that a request, or one of its updates or entities, may take beyond its encoded size when it is
/// decoded, bytes. The largest that programs and controllers send take a tenth of it.
pub const DECODE_ALLOWANCE: usize = 4 << 20;
/// Requests longer than this are decoded one at a time, on a thread on which nobody else waits, bytes.
const LARGE_REQUEST: usize = 64 << 10;

/// The pipeline that runs.
struct Active {
    control: Arc<Mutex<Control>>,
    program: Arc<Program>,
    config: ForwardingPipelineConfig,
}

/// The pipelines that were pushed.
#[derive(Default)]
pub struct Pipelines {
    active: Option<Active>,
    /// Saved, not yet committed: with a switch of its own, which takes the writes till then.
    saved: Option<StagedPipeline>,
}

/// One device and all that is connected to it.
pub struct Device {
    pub dataplane: DataplaneHandle,
    pub sessions: Mutex<Sessions>,
    pub pipelines: RwLock<Pipelines>,
    /// Of the pipeline that runs; `None` before the first.
    pub headers: Mutex<Option<Arc<ControllerHeaders>>>,
    pub digests: Mutex<Digests>,
    /// The digests or their settings are others now.
    pub digests_changed: Notify,
    /// True if any entry may time out; and that this has changed.
    pub has_timeouts: AtomicBool,
    pub timeouts_changed: Notify,
    pub wanted: Arc<Subscriptions>,
    /// Turns of reads.
    pub read_permits: Semaphore,
    /// KiB that reads may find yet.
    pub read_memory: Semaphore,
    /// The turn to decode a large request.
    decode_permit: Semaphore,
    pub config: ServerConfig,
    started: Instant,
}

/// Messages that the data plane need not copy, because no client wants them.
#[derive(Debug, Default)]
pub struct Subscriptions {
    pub packet_in: AtomicBool,
    pub digests: AtomicBool,
}

/// A bug that panics under a lock is reported to its caller; what it had done till then stays.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    pub fn new(dataplane: DataplaneHandle, config: ServerConfig) -> Device {
        Device {
            dataplane,
            sessions: Mutex::new(Sessions::new(config.device_id)),
            pipelines: RwLock::default(),
            headers: Mutex::default(),
            digests: Mutex::default(),
            digests_changed: Notify::new(),
            has_timeouts: AtomicBool::new(false),
            timeouts_changed: Notify::new(),
            wanted: Arc::default(),
            read_permits: Semaphore::new(MAX_CONCURRENT_READS),
            read_memory: Semaphore::new(MAX_TOTAL_READ_BYTES >> 10),
            decode_permit: Semaphore::new(1),
            config,
            started: Instant::now(),
        }
    }

    /// Returns the time of this server, for timeouts.
    pub fn now(&self) -> Time {
        Time::from_ns(
            u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX).min(Time::MAX.as_ns()),
        )
    }

    /// Decodes a request.
    pub async fn decode<M: 'static, R: Send + 'static>(
        &self,
        request: Received<M>,
        decode: impl FnOnce(&Received<M>) -> Result<R, DecodeError> + Send + 'static,
    ) -> Result<R, Status> {
        if request.encoded_len() <= LARGE_REQUEST {
            return Ok(decode(&request)?);
        }
        let _turn = self.decode_permit.acquire().await;
        let decoded = tokio::task::spawn_blocking(move || decode(&request)).await;
        Ok(decoded
            .map_err(|_| Status::internal("the request cannot be decoded, by a bug of this switch"))??)
    }

    /// Updates the state after another client may have become primary.
    pub fn after_election(&self, sessions: &Sessions, before: Option<u64>) {
        let primary = sessions.arbitration.primary();
        self.wanted.packet_in.store(primary.is_some(), Ordering::Relaxed);
        if primary != before {
            lock(&self.digests).reset();
        }
    }

    /// Applies a batch to the pipeline that was pushed last.
    pub async fn write(
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
        let mut done = updates.len() == 0;
        while !done {
            // No packet may come between atomic updates: each of them is decoded when its turn comes.
            let (some, all) = match atomicity {
                Atomicity::DataplaneAtomic => (Vec::new(), Some(updates.clone())),
                _ => (updates.decode_some(BATCH_STEP, STEP_MEMORY), None),
            };
            let step = self.on_active(active, move |control, switch, _| {
                let updates = some.into_iter().chain(all.into_iter().flatten()).map(to_update);
                let done = batch.step(control, switch, updates);
                (batch, done)
            });
            (batch, done) = step.await?;
        }
        self.after_write(&active.control);
        Ok(batch)
    }

    /// Runs an operation on the pipeline that runs.
    async fn on_active<R: Send + 'static>(
        &self,
        active: &Active,
        operation: impl FnOnce(&mut Control, &mut Switch, Time) -> R + Send + 'static,
    ) -> Result<R, Status> {
        let (control, program) = (Arc::clone(&active.control), Arc::clone(&active.program));
        let answer = self.dataplane.call(move |switch, now| {
            switch.set_now(now);
            let runs = Arc::ptr_eq(switch.pipeline().program(), &program);
            runs.then(|| operation(&mut lock(&control), switch, now))
        });
        answer.await.map_err(from_dataplane)?.ok_or_else(|| {
            Status::failed_precondition(
                "another program was loaded over Thrift; push its P4Info with VERIFY_AND_COMMIT",
            )
        })
    }

    /// The settings that others heed may be others now.
    fn after_write(&self, control: &Mutex<Control>) {
        let control = lock(control);
        let mut digests = lock(&self.digests);
        digests.configure(control.digest_settings());
        self.wanted.digests.store(digests.any_enabled(), Ordering::Relaxed);
        self.digests_changed.notify_one();
        self.has_timeouts.store(control.has_timeouts(), Ordering::Relaxed);
        self.timeouts_changed.notify_one();
    }

    /// Reads from the pipeline that was pushed last. The entities are encoded.
    pub async fn read(
        &self,
        pipelines: &Pipelines,
        request: Entity,
    ) -> Result<Result<Vec<Bytes>, ControlError>, Status> {
        let encoded = |entity: &Entity| Bytes::from(entity.encode_to_vec());
        if let Some(saved) = &pipelines.saved {
            let found = saved.control.read(&saved.switch, &request);
            return Ok(found.map(|found| found.iter().map(encoded).collect()));
        }
        let active = pipelines.active.as_ref().ok_or_else(no_pipeline)?;
        let request = Arc::new(request);
        let (mut entities, mut from) = (Vec::new(), Some(0));
        while let Some(row) = from {
            let request = Arc::clone(&request);
            let read = self.on_active(active, move |control, switch, _| {
                let mut part = ReadPage::new(row, BATCH_STEP);
                let found = control.read_part(switch, &request, &mut part);
                (found, part.next_row())
            });
            let (found, next) = read.await?;
            match found {
                Ok(found) => entities.extend(found.iter().map(encoded)),
                Err(error) => return Ok(Err(error)),
            }
            from = next;
        }
        Ok(Ok(entities))
    }

    /// Returns the entries that have timed out, and how long the data plane looked for them.
    pub async fn take_timed_out(&self) -> Result<(Vec<TableEntry>, Duration), Status> {
        let pipelines = self.pipelines.read().await;
        let Some(active) = &pipelines.active else { return Ok(Default::default()) };
        let taken = self.on_active(active, |control, switch, now| {
            let begun = Instant::now();
            let expired = control.take_timed_out(switch, now);
            expired.map(|expired| (expired, begun.elapsed()))
        });
        match taken.await {
            // The entries went with their program.
            Err(status) if status.code() == tonic::Code::FailedPrecondition => Ok(Default::default()),
            taken => taken?.map_err(|error| from_control(&error)),
        }
    }

    /// Does what SetForwardingPipelineConfig asks for. If it is refused, all stays as it was.
    pub async fn set_pipeline(
        &self,
        pipelines: &mut Pipelines,
        action: Action,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        match (action, config) {
            (Action::Unspecified, _) => Err(Status::invalid_argument("the action is not set")),
            (Action::Commit, Some(_)) => {
                Err(Status::invalid_argument("COMMIT takes no config, it commits the one that was saved"))
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

    /// Loading takes many milliseconds: not on a thread that others wait for.
    async fn load(&self, config: ForwardingPipelineConfig) -> Result<StagedPipeline, Status> {
        let running = self.dataplane.call(|switch, _| Arc::clone(switch.pipeline().program())).await.ok();
        let switch_config = self.dataplane.switch_config().await.map_err(from_dataplane)?;
        let (seed, programs) = (self.config.seed, Arc::clone(&self.config.programs));
        let load = move || forwarding_pipeline::load(&programs, config, running, switch_config, seed);
        let loading = tokio::task::spawn_blocking(load);
        let loaded = loading
            .await
            .map_err(|_| Status::internal("the program cannot be loaded, by a bug of this switch"))?;
        loaded.map_err(|error| from_control(&error))
    }

    async fn reconcile(&self, active: &Active, candidate: &mut StagedPipeline) -> Result<(), Status> {
        let state =
            self.on_active(active, |control, switch, _| reconcile::PipelineState::of(control, switch));
        let state = state.await?.map_err(|error| from_control(&error))?;
        state.restore(candidate).map_err(|error| from_control(&error))
    }

    async fn install(&self, pipelines: &mut Pipelines, candidate: StagedPipeline) -> Result<(), Status> {
        let StagedPipeline { switch, control, headers, config } = candidate;
        let digests = Digests::of(control.p4info());
        let program = Arc::clone(switch.pipeline().program());
        self.dataplane.install(switch).await.map_err(from_dataplane)?;
        // Its timeouts run from now, not from when it was filled.
        let started = self.dataplane.call(|switch, now| {
            switch.set_now(now);
            switch.pipeline_mut().restart_timeouts();
        });
        started.await.map_err(from_dataplane)?;
        let control = Arc::new(Mutex::new(control));
        *lock(&self.headers) = Some(Arc::new(headers));
        *lock(&self.digests) = digests;
        self.after_write(&control);
        *pipelines = Pipelines { active: Some(Active { control, program, config }), saved: None };
        Ok(())
    }
}

impl Pipelines {
    /// Returns the config that was pushed last.
    pub fn config(&self) -> Option<&ForwardingPipelineConfig> {
        let saved = self.saved.as_ref().map(|saved| &saved.config);
        saved.or(self.active.as_ref().map(|active| &active.config))
    }
}

/// Returns an update as a batch takes it.
fn to_update(update: Result<Update, DecodeError>) -> Result<Update, ControlError> {
    update.map_err(|refused| ControlError::new(Code::InvalidArgument, refused.to_string()))
}

pub fn no_pipeline() -> Status {
    Status::failed_precondition(
        "No forwarding pipeline config set for this device; push one with SetForwardingPipelineConfig",
    )
}
