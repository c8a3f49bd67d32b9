//! The calls of the P4Runtime service: performs the checks in the order of the specification, then calls [`Device`].

use super::admission::CallGuard;
use super::device::{DECODE_ALLOWANCE, Device, MAX_TOTAL_READ_BYTES, no_pipeline};
use super::forwarding_pipeline;
use super::sessions;
use super::status::from_batch;
use super::stream;
use super::sync::lock;
use p4runtime::arbitration::RoleId;
use p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::p4::v1::write_request::Atomicity;
use p4runtime::p4::v1::{
    CapabilitiesRequest, CapabilitiesResponse, Entity, GetForwardingPipelineConfigRequest,
    GetForwardingPipelineConfigResponse, ReadRequest, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, Uint128, WriteRequest,
    WriteResponse,
};
use p4runtime::received::{EncodedReadResponse, Parts, Received};
use p4runtime::server::p4_runtime_server::P4Runtime;
use prost::bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::codegen::BoxStream;
use tonic::{Request, Response, Status, Streaming};
use weir_switch::control::ControlError;

/// Version of the specification that this server implements.
const API_VERSION: &str = "1.5.0";
/// Maximum size in bytes of a message of a read, well below a client's default limit of 4 MB.
const MAX_READ_MESSAGE: usize = 1 << 20;
/// Time that a client has to accept the next message of a read. After that the read ends with DEADLINE_EXCEEDED.
const READ_SEND_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum duration of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(120);
/// Maximum number of updates per write. Each needs memory for its result and the text of an error.
const MAX_UPDATES: usize = 1 << 17;
/// Protobuf field numbers of `updates` in WriteRequest and of `entities` in ReadRequest.
const UPDATES_TAG: u32 = 4;
const ENTITIES_TAG: u32 = 2;
/// Maximum number of entities in a read request, and of bytes in its result.
const MAX_READ_ENTITIES: usize = 1 << 14;
const MAX_READ_BYTES: usize = 64 << 20;
/// Memory in bytes that one read of each connection may use outside the common limit, enough for the tables of most
/// switches. With the maximum number of connections this is 128 MiB.
const READ_BYTES_PER_CONNECTION: usize = 1 << 20;

/// The service of one device.
#[derive(Clone)]
pub(super) struct Service(pub Arc<Device>);

impl Service {
    fn check_device(&self, device: u64) -> Result<(), Status> {
        Ok(lock(&self.0.sessions).arbitration.check_device(device)?)
    }

    fn authorize(&self, role: &RoleId, election_id: Option<&Uint128>) -> Result<(), Status> {
        Ok(lock(&self.0.sessions).arbitration.authorise(role, election_id)?)
    }

    /// Runs a call in its own task: a client that disconnects must not cancel it halfway.
    async fn run_detached<T: Send + 'static>(
        call: impl Future<Output = Result<T, Status>> + Send + 'static,
    ) -> Result<Response<T>, Status> {
        let done = tokio::spawn(call).await;
        done.map_err(|_| Status::internal("internal error: the call panicked"))?.map(Response::new)
    }

    async fn write_all(self, request: Received<WriteRequest>) -> Result<WriteResponse, Status> {
        let split =
            |request: &Received<WriteRequest>| request.split(UPDATES_TAG, MAX_UPDATES, DECODE_ALLOWANCE);
        let (request, updates) = self.0.decode(request, split).await?;
        self.check_device(request.device_id)?;
        #[allow(deprecated)] // older clients still send it
        let role = RoleId::new(&request.role, request.role_id);
        let atomicity = Atomicity::try_from(request.atomicity)
            .map_err(|_| Status::invalid_argument(format!("unknown atomicity {}", request.atomicity)))?;
        let mut pipelines = self.0.pipelines.write().await;
        // Checked while the lock is held: a client that is no longer primary must not write.
        self.authorize(&role, request.election_id.as_ref())?;
        let batch = self.0.write(&mut pipelines, updates, atomicity).await?;
        from_batch("update", batch.results())?;
        Ok(WriteResponse {})
    }

    async fn set_config(
        self,
        request: Received<SetForwardingPipelineConfigRequest>,
    ) -> Result<SetForwardingPipelineConfigResponse, Status> {
        let request = self.0.decode(request, |request| request.decode(DECODE_ALLOWANCE)).await?;
        self.check_device(request.device_id)?;
        #[allow(deprecated)] // older clients still send it
        let role = RoleId::new(&request.role, request.role_id);
        let action = Action::try_from(request.action)
            .map_err(|_| Status::invalid_argument(format!("unknown action {}", request.action)))?;
        let mut pipelines = self.0.pipelines.write().await;
        self.authorize(&role, request.election_id.as_ref())?;
        self.0.set_pipeline(&mut pipelines, action, request.config).await?;
        Ok(SetForwardingPipelineConfigResponse {})
    }

    /// Reads all requested entities, then sends them as fast as the client accepts them. Each connection has one
    /// permit and some memory of its own, so that slow clients cannot block the reads of others.
    async fn read_all(
        self,
        requests: Parts<Entity>,
        queue: mpsc::Sender<Result<EncodedReadResponse, Status>>,
        call: Option<&CallGuard>,
    ) -> Result<(), Status> {
        let own_permit = async {
            match call {
                Some(call) => call.read_permit().acquire().await,
                None => std::future::pending().await,
            }
        };
        let (_permit, own_bytes) = tokio::select! {
            biased;
            permit = own_permit => (permit, READ_BYTES_PER_CONNECTION),
            permit = self.0.read_permits.acquire() => (permit, 0),
        };
        let mut results: Vec<Result<(), ControlError>> = Vec::with_capacity(requests.len());
        let (mut entities, mut bytes) = (Vec::new(), 0);
        // An empty permit, into which the permits of the results are merged.
        let mut reserved =
            self.0.read_memory.try_acquire_many(0).map_err(|_| read_too_large(MAX_TOTAL_READ_BYTES))?;
        {
            let pipelines = self.0.pipelines.read().await;
            for request in requests {
                let found = match self.0.read(&pipelines, request?).await? {
                    Ok(found) => found,
                    Err(error) => {
                        results.push(Err(error));
                        continue;
                    }
                };
                let shared_kib = |bytes: usize| bytes.saturating_sub(own_bytes) >> 10;
                let before = shared_kib(bytes);
                bytes += found.iter().map(Bytes::len).sum::<usize>();
                if bytes > MAX_READ_BYTES {
                    return Err(read_too_large(MAX_READ_BYTES));
                }
                let added_kib = u32::try_from(shared_kib(bytes) - before).unwrap_or(u32::MAX);
                let permit = self.0.read_memory.try_acquire_many(added_kib);
                reserved.merge(permit.map_err(|_| read_too_large(MAX_TOTAL_READ_BYTES))?);
                entities.extend(found);
                results.push(Ok(()));
            }
        }
        let too_slow = |_| Status::deadline_exceeded("the client reads too slowly");
        for entities in chunk_entities(entities) {
            queue
                .send_timeout(Ok(EncodedReadResponse { entities }), READ_SEND_TIMEOUT)
                .await
                .map_err(too_slow)?;
        }
        from_batch("request", &results)
    }
}

/// Returns the guard of the call, which counts as in progress until the guard is dropped.
fn call_guard<T>(request: &Request<T>) -> Option<Arc<CallGuard>> {
    request.extensions().get().cloned()
}

/// Counts a call in the server's statistics.
fn count(calls: &AtomicU64) {
    calls.fetch_add(1, Ordering::Relaxed);
}

fn read_too_large(max: usize) -> Status {
    Status::resource_exhausted(format!("the result exceeds {max} bytes; narrow the read"))
}

/// Splits entities into messages. Without entities there is one empty message, as in BMv2.
fn chunk_entities(entities: Vec<Bytes>) -> Vec<Vec<Bytes>> {
    let mut messages = vec![Vec::new()];
    let mut bytes = 0;
    for entity in entities {
        let len = entity.len();
        if bytes > 0 && bytes + len > MAX_READ_MESSAGE {
            messages.push(Vec::new());
            bytes = 0;
        }
        bytes += len;
        messages.last_mut().expect("the list starts with one message").push(entity);
    }
    messages
}

#[tonic::async_trait]
impl P4Runtime for Service {
    async fn capabilities(
        &self,
        _: Request<Received<CapabilitiesRequest>>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        count(&self.0.config.calls.capabilities);
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: API_VERSION.into(),
            experimental: None,
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<Received<StreamMessageRequest>>>,
    ) -> Result<Response<BoxStream<StreamMessageResponse>>, Status> {
        count(&self.0.config.calls.stream);
        let (queue, outbound) = mpsc::channel(sessions::STREAM_QUEUE_LEN);
        let call = call_guard(&request);
        tokio::spawn(stream::serve(Arc::clone(&self.0), request.into_inner(), queue, call));
        Ok(Response::new(Box::pin(ReceiverStream::new(outbound))))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<Received<SetForwardingPipelineConfigRequest>>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        count(&self.0.config.calls.set_pipeline);
        let _call = call_guard(&request);
        Self::run_detached(self.clone().set_config(request.into_inner())).await
    }

    async fn get_forwarding_pipeline_config(
        &self,
        request: Request<Received<GetForwardingPipelineConfigRequest>>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        count(&self.0.config.calls.get_pipeline);
        let _call = call_guard(&request);
        let request = self.0.decode(request.into_inner(), |request| request.decode(DECODE_ALLOWANCE)).await?;
        self.check_device(request.device_id)?;
        let kind = ResponseType::try_from(request.response_type).map_err(|_| {
            Status::invalid_argument(format!("unknown response type {}", request.response_type))
        })?;
        let pipelines = self.0.pipelines.read().await;
        // The error of BMv2. Clients such as p4-utils push their program when they receive it.
        let config = pipelines.config().ok_or_else(no_pipeline)?;
        let config = Some(forwarding_pipeline::filter_response(config, kind));
        Ok(Response::new(GetForwardingPipelineConfigResponse { config }))
    }

    async fn write(
        &self,
        request: Request<Received<WriteRequest>>,
    ) -> Result<Response<WriteResponse>, Status> {
        count(&self.0.config.calls.write);
        let _call = call_guard(&request);
        Self::run_detached(self.clone().write_all(request.into_inner())).await
    }

    async fn read(
        &self,
        request: Request<Received<ReadRequest>>,
    ) -> Result<Response<BoxStream<EncodedReadResponse>>, Status> {
        count(&self.0.config.calls.read);
        let call = call_guard(&request);
        let split = |request: &Received<ReadRequest>| {
            request.split(ENTITIES_TAG, MAX_READ_ENTITIES, DECODE_ALLOWANCE)
        };
        let (request, entities) = self.0.decode(request.into_inner(), split).await?;
        // Every role may read everything.
        self.check_device(request.device_id)?;
        if self.0.pipelines.read().await.config().is_none() {
            return Err(no_pipeline());
        }
        let (queue, messages) = mpsc::channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            let read = service.read_all(entities, queue.clone(), call.as_deref());
            let read = tokio::time::timeout(READ_TIMEOUT, read).await;
            let read = read.unwrap_or_else(|_| Err(Status::deadline_exceeded("the read took too long")));
            if let Err(status) = read {
                // If the client does not accept the status, dropping the queue ends its stream.
                let _ = queue.send_timeout(Err(status), READ_SEND_TIMEOUT).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(messages))))
    }
}
