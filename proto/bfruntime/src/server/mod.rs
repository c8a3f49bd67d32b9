//! An in-memory server that accepts exactly the messages that `bfrt.json` describes, for tests of controllers.
//!
//! It has the tables of one program and the fixed tables of [`FIXED_TABLES`], but no data plane. As with a driver, a
//! client must subscribe and bind to the program before it may write; reads need only the name of the program.

mod check;
mod tables;

pub use tables::Tables;

use crate::bfrt_proto;
use crate::bfrt_proto::bf_runtime_server::{BfRuntime, BfRuntimeServer};
use crate::bfrt_proto::set_forwarding_pipeline_config_request::Action;
use crate::bfrt_proto::stream_message_request::Update as RequestUpdate;
use crate::bfrt_proto::stream_message_response::Update as ResponseUpdate;
use crate::bfrt_proto::{
    ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, GetForwardingPipelineConfigResponse,
    NonP4Config, ReadRequest, ReadResponse, SetForwardingPipelineConfigRequest,
    SetForwardingPipelineConfigResponse, StreamMessageRequest, StreamMessageResponse, Subscribe,
    TargetDevice, WriteRequest, WriteResponse,
};
use crate::error_details;
use crate::info::{BfrtInfo, InfoError};
use p4runtime::google::rpc;
use std::collections::BTreeSet;
use std::error::Error;
use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};

/// Descriptions of the fixed tables for multicast groups and mirror sessions, as in the open drivers for Tofino 2
/// (`p4lang/open-p4studio`, bf_rt_pre_tf2.json and bf_rt_mirror_tf2.json).
pub const FIXED_TABLES: &[u8] = include_bytes!("fixed_tables.json");

/// The server of one device. Clones share the tables.
#[derive(Clone)]
pub struct TableServer {
    device_id: u32,
    p4_name: String,
    bfrt_json: Arc<Vec<u8>>,
    state: Arc<Mutex<State>>,
}

struct State {
    tables: Tables,
    clients: BTreeSet<u32>,
    bound: Option<u32>,
    rejected: Vec<bfrt_proto::Error>,
    reports_in_responses: bool,
    read_error: Option<bfrt_proto::Error>,
}

impl TableServer {
    /// Creates the server of a device that runs this program.
    ///
    /// # Errors
    ///
    /// `bfrt_json` is not a valid bfrt.json.
    pub fn new(device_id: u32, p4_name: &str, bfrt_json: Vec<u8>) -> Result<TableServer, InfoError> {
        let info = BfrtInfo::parse(&bfrt_json)?.merged(&BfrtInfo::parse(FIXED_TABLES)?)?;
        let state = State {
            tables: Tables::new(info),
            clients: BTreeSet::new(),
            bound: None,
            rejected: Vec::new(),
            reports_in_responses: false,
            read_error: None,
        };
        let (bfrt_json, state) = (Arc::new(bfrt_json), Arc::new(Mutex::new(state)));
        Ok(TableServer { device_id, p4_name: p4_name.to_owned(), bfrt_json, state })
    }

    /// Returns a snapshot of the tables.
    pub fn tables(&self) -> Tables {
        self.state().tables.clone()
    }

    /// Removes all entries, like a restart of the driver.
    pub fn clear(&self) {
        let mut state = self.state();
        state.tables = Tables::new(state.tables.info().clone());
    }

    /// Removes and returns the errors of rejected updates since the last call.
    pub fn take_rejected(&self) -> Vec<bfrt_proto::Error> {
        std::mem::take(&mut self.state().rejected)
    }

    /// From now on, reports errors of updates in the status of a successful response instead of failing the call.
    pub fn report_in_responses(&self) {
        self.state().reports_in_responses = true;
    }

    /// From now on, adds this error for the first entity to the response of every Read.
    pub fn fail_reads(&self, error: bfrt_proto::Error) {
        self.state().read_error = Some(error);
    }

    /// Serves BF Runtime on the listener until the task is dropped.
    ///
    /// # Errors
    ///
    /// The listener cannot be used in this runtime.
    pub async fn serve(self, listener: TcpListener) -> Result<(), Box<dyn Error + Send + Sync>> {
        listener.set_nonblocking(true)?;
        let incoming = TcpListenerStream::new(tokio::net::TcpListener::from_std(listener)?);
        let service = BfRuntimeServer::new(self);
        Ok(Server::builder().add_service(service).serve_with_incoming(incoming).await?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_target(&self, target: Option<&TargetDevice>) -> Result<(), Status> {
        match target {
            Some(target) if target.device_id == self.device_id => Ok(()),
            Some(target) => Err(Status::invalid_argument(format!("no device {}", target.device_id))),
            None => Err(Status::invalid_argument("the request has no target")),
        }
    }
}

#[tonic::async_trait]
impl BfRuntime for TableServer {
    type ReadStream = ReceiverStream<Result<ReadResponse, Status>>;
    type StreamChannelStream = ReceiverStream<Result<StreamMessageResponse, Status>>;

    async fn write(&self, request: Request<WriteRequest>) -> Result<Response<WriteResponse>, Status> {
        let request = request.into_inner();
        self.check_target(request.target.as_ref())?;
        let mut state = self.state();
        if state.bound != Some(request.client_id) {
            return Err(Status::failed_precondition("the client is not bound to the program"));
        }
        let errors: Vec<bfrt_proto::Error> = request
            .updates
            .iter()
            .map(|update| state.tables.write(update).err().unwrap_or_default())
            .collect();
        let rejected: Vec<bfrt_proto::Error> =
            errors.iter().filter(|error| error.canonical_code != 0).cloned().collect();
        if rejected.is_empty() {
            return Ok(Response::new(WriteResponse::default()));
        }
        state.rejected.extend(rejected);
        if state.reports_in_responses {
            return Ok(Response::new(WriteResponse { status: errors }));
        }
        let details = error_details::encode(rpc::Code::Unknown, "Write", errors);
        Err(Status::with_details(Code::Unknown, "Write", details.into()))
    }

    async fn read(&self, request: Request<ReadRequest>) -> Result<Response<Self::ReadStream>, Status> {
        let request = request.into_inner();
        self.check_target(request.target.as_ref())?;
        let mut response = ReadResponse::default();
        {
            let state = self.state();
            if state.bound != Some(request.client_id) && request.p4_name != self.p4_name {
                return Err(Status::invalid_argument(format!("no program \"{}\"", request.p4_name)));
            }
            for entity in &request.entities {
                let found = state.tables.read(entity);
                response.entities.extend(
                    found
                        .map_err(|error| Status::new(Code::from_i32(error.canonical_code), error.message))?,
                );
            }
            response.status.extend(state.read_error.clone());
        }
        let (sender, responses) = mpsc::channel(1);
        // Cannot fail: the channel has capacity 1.
        let _ = sender.try_send(Ok(response));
        Ok(Response::new(ReceiverStream::new(responses)))
    }

    async fn set_forwarding_pipeline_config(
        &self,
        request: Request<SetForwardingPipelineConfigRequest>,
    ) -> Result<Response<SetForwardingPipelineConfigResponse>, Status> {
        let request = request.into_inner();
        if request.action() != Action::Bind {
            return Err(Status::unimplemented("only BIND is supported"));
        }
        let [config] = request.config.as_slice() else {
            return Err(Status::invalid_argument("BIND takes one config"));
        };
        let mut state = self.state();
        if !state.clients.contains(&request.client_id) {
            return Err(Status::invalid_argument("the client has not subscribed"));
        }
        if config.p4_name != self.p4_name {
            return Err(Status::not_found(format!("no program \"{}\"", config.p4_name)));
        }
        match state.bound {
            Some(other) if other != request.client_id => {
                Err(Status::already_exists(format!("client {other} is bound to the program")))
            }
            _ => {
                state.bound = Some(request.client_id);
                Ok(Response::new(SetForwardingPipelineConfigResponse::default()))
            }
        }
    }

    async fn get_forwarding_pipeline_config(
        &self,
        _: Request<GetForwardingPipelineConfigRequest>,
    ) -> Result<Response<GetForwardingPipelineConfigResponse>, Status> {
        let config = ForwardingPipelineConfig {
            p4_name: self.p4_name.clone(),
            bfruntime_info: self.bfrt_json.to_vec(),
            profiles: Vec::new(),
        };
        let fixed = NonP4Config { bfruntime_info: FIXED_TABLES.to_vec() };
        Ok(Response::new(GetForwardingPipelineConfigResponse {
            config: vec![config],
            non_p4_config: Some(fixed),
        }))
    }

    async fn stream_channel(
        &self,
        request: Request<Streaming<StreamMessageRequest>>,
    ) -> Result<Response<Self::StreamChannelStream>, Status> {
        let mut requests = request.into_inner();
        let (sender, responses) = mpsc::channel(1);
        let server = self.clone();
        tokio::spawn(async move {
            let mut client_id = None;
            while let Ok(Some(request)) = requests.message().await {
                let Some(RequestUpdate::Subscribe(_)) = request.update else { continue };
                if client_id.is_some() {
                    continue;
                }
                if !server.state().clients.insert(request.client_id) {
                    let reason = format!("client {} has already subscribed", request.client_id);
                    let _ = sender.send(Err(Status::already_exists(reason))).await;
                    break;
                }
                client_id = Some(request.client_id);
                let status = Some(rpc::Status::default());
                let update = ResponseUpdate::Subscribe(Subscribe { status, ..Subscribe::default() });
                if sender.send(Ok(StreamMessageResponse { update: Some(update) })).await.is_err() {
                    break;
                }
            }
            if let Some(client) = client_id {
                let mut state = server.state();
                state.clients.remove(&client);
                state.bound = state.bound.filter(|&bound| bound != client);
            }
        });
        Ok(Response::new(ReceiverStream::new(responses)))
    }
}
