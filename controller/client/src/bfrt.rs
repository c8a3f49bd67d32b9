//! The client of a Tofino switch's driver over BF Runtime. It accepts and returns P4Runtime entities and translates
//! them ([`Translator`]).

use super::channel::{self, MAX_BATCH_UPDATES};
use super::error::RejectedUpdate;
use super::{ClientError, ClientOptions, Target};
use bfruntime::bfrt_proto::bf_runtime_client::BfRuntimeClient;
use bfruntime::bfrt_proto::entity::Entity as Kind;
use bfruntime::bfrt_proto::set_forwarding_pipeline_config_request::Action;
use bfruntime::bfrt_proto::stream_message_request::Update as RequestUpdate;
use bfruntime::bfrt_proto::stream_message_response::Update as ResponseUpdate;
use bfruntime::bfrt_proto::{
    self, ForwardingPipelineConfig, GetForwardingPipelineConfigRequest, ReadRequest,
    SetForwardingPipelineConfigRequest, StreamMessageRequest, StreamMessageResponse, Subscribe, TargetDevice,
    WriteRequest,
};
use bfruntime::{BfrtInfo, TranslateError, Translator, error_details};
use p4runtime::google::rpc;
use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::Index;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status, Streaming};
use weir_controller::pretty;

/// A driver returns the whole result of a Read in one message, of any length.
const MAX_MESSAGE_SIZE: usize = 64 << 20;

/// A connection to the driver of one Tofino switch. The driver must already run the program. Clones share the
/// connection.
#[derive(Clone)]
pub(super) struct BfrtSession {
    client: BfRuntimeClient<Channel>,
    device_id: u32,
    client_id: u32,
    timeout: Duration,
    /// The driver's name of the program.
    p4_name: String,
    /// Tables of the program and fixed tables of the driver.
    info: Arc<BfrtInfo>,
}

impl BfrtSession {
    /// Connects with read access and looks up the program among those that the driver runs. [`bind`](Self::bind)
    /// gives write access.
    pub(crate) async fn connect(
        target: &Target,
        options: &ClientOptions,
        program: &BfrtInfo,
    ) -> Result<BfrtSession, ClientError> {
        let narrow =
            |what, value: u128| u32::try_from(value).map_err(|_| ClientError::TooLarge { what, value });
        let device_id = narrow("device id", target.device_id.into())?;
        let client_id = narrow("election id, which is BF Runtime's client id", options.election_id.into())?;
        let channel = channel::open(target, options, "BF Runtime").await?;
        let client = BfRuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE_SIZE);
        let mut session = BfrtSession {
            client,
            device_id,
            client_id,
            timeout: options.timeout,
            p4_name: String::new(),
            info: Arc::default(),
        };
        session.find_program(program).await?;
        Ok(session)
    }

    /// Identifies the program by its tables, since the name depends on the driver's configuration.
    async fn find_program(&mut self, program: &BfrtInfo) -> Result<(), ClientError> {
        const CALL: &str = "GetForwardingPipelineConfig";
        let request =
            GetForwardingPipelineConfigRequest { device_id: self.device_id, client_id: self.client_id };
        let reply = self.with_timeout(CALL, |mut client| async move {
            client.get_forwarding_pipeline_config(request).await
        });
        let response = reply.await?.into_inner();
        let has_tables = |config: &&ForwardingPipelineConfig| {
            BfrtInfo::parse(&config.bfruntime_info).is_ok_and(|info| info == *program)
        };
        let Some(running) = response.config.iter().find(has_tables) else {
            let runs: Vec<String> = response.config.into_iter().map(|config| config.p4_name).collect();
            return Err(if runs.is_empty() {
                ClientError::NoProgram
            } else {
                ClientError::OtherTables { runs }
            });
        };
        // The tables that every program has, such as those of ports and multicast groups.
        let fixed =
            response.non_p4_config.map(|config| config.bfruntime_info).filter(|json| !json.is_empty());
        let invalid = |error: bfruntime::InfoError| {
            ClientError::call(CALL, Status::internal(format!("invalid fixed tables: {error}")))
        };
        let fixed =
            fixed.map(|json| BfrtInfo::parse(&json)).transpose().map_err(invalid)?.unwrap_or_default();
        self.info = Arc::new(program.merged(&fixed).map_err(invalid)?);
        self.p4_name = running.p4_name.clone();
        Ok(())
    }

    /// Subscribes and binds this client to the program. The session may write as long as the stream exists.
    pub(crate) async fn bind(&self) -> Result<BfrtStream, ClientError> {
        // One slot: the stream carries only the subscription.
        let (requests, queue) = mpsc::channel(1);
        let subscribe = Subscribe { device_id: self.device_id, ..Subscribe::default() };
        let request = StreamMessageRequest {
            client_id: self.client_id,
            update: Some(RequestUpdate::Subscribe(subscribe)),
        };
        requests.try_send(request).map_err(|_| ClientError::Closed("immediately".into()))?;
        let already_bound = |error: ClientError| match &error {
            ClientError::Call { status, .. } if status.code() == Code::AlreadyExists => {
                ClientError::AlreadyBound { reason: status.message().to_owned() }
            }
            _ => error,
        };
        let opened = self.with_timeout("StreamChannel", |mut client| async move {
            client.stream_channel(Request::new(ReceiverStream::new(queue))).await
        });
        let mut responses = opened.await.map_err(already_bound)?.into_inner();
        let limit = self.timeout;
        let subscribed = timeout(limit, wait_until_subscribed(&mut responses)).await;
        subscribed.map_err(|_| ClientError::Timeout { call: "Subscribe", limit })?.map_err(already_bound)?;
        let config = ForwardingPipelineConfig { p4_name: self.p4_name.clone(), ..Default::default() };
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            client_id: self.client_id,
            action: Action::Bind.into(),
            config: vec![config],
            ..SetForwardingPipelineConfigRequest::default()
        };
        let bound = self.with_timeout("SetForwardingPipelineConfig", |mut client| async move {
            client.set_forwarding_pipeline_config(request).await
        });
        bound.await.map_err(already_bound)?;
        Ok(BfrtStream { requests, responses })
    }

    /// Reads all entities that a plan can contain. Fails if the driver reports an error for any of them.
    pub(crate) async fn read_all(&self) -> Result<Vec<Entity>, ClientError> {
        let translator = Translator::new(&self.info);
        let request = ReadRequest {
            target: Some(self.target()),
            client_id: self.client_id,
            entities: translator.read_all_entities(),
            p4_name: self.p4_name.clone(),
        };
        let requested = request.entities.clone();
        let collect = |mut client: BfRuntimeClient<Channel>| async move {
            let mut responses = client.read(request).await?.into_inner();
            let mut entries = Vec::new();
            while let Some(response) = responses.message().await? {
                self.check_read(&requested, &response.status)?;
                entries.extend(response.entities.into_iter().filter_map(|entity| match entity.entity {
                    Some(Kind::TableEntry(entry)) => Some(entry),
                    _ => None,
                }));
            }
            Ok(entries)
        };
        Ok(translator.entities(&self.with_timeout("Read", collect).await?))
    }

    /// Writes updates in order, in batches. Stops after a batch with a rejected update.
    pub(crate) async fn write(&self, updates: &[Update], p4info: &Index) -> Result<(), ClientError> {
        for batch in updates.chunks(MAX_BATCH_UPDATES) {
            // `sources[i]` is the P4Runtime update from which `request[i]` was translated.
            let (mut request, mut sources) = (Vec::new(), Vec::new());
            for update in batch {
                let translated = Translator::new(&self.info).update(update);
                let translated =
                    translated.map_err(|error| untranslatable(update, &error, batch.len(), p4info))?;
                sources.extend(translated.iter().map(|_| update));
                request.extend(translated);
            }
            let request = WriteRequest {
                target: Some(self.target()),
                client_id: self.client_id,
                updates: request,
                p4_name: self.p4_name.clone(),
                ..WriteRequest::default()
            };
            let written = self.with_timeout("Write", |mut client| async move { client.write(request).await });
            let response = written.await.map_err(|error| match error {
                ClientError::Call { status, .. } => write_error(*status, &sources, batch.len(), p4info),
                other => other,
            })?;
            // Some drivers report the errors here, after a call that succeeded.
            let rejected =
                rejected_updates(response.into_inner().status.into_iter().enumerate(), &sources, p4info);
            if !rejected.is_empty() {
                return Err(ClientError::Rejected { rejected, batch_len: batch.len() });
            }
        }
        Ok(())
    }

    /// Returns the first error of a read. The status has one entry for each requested entity, or is empty if there
    /// are no errors.
    fn check_read(
        &self,
        requested: &[bfrt_proto::Entity],
        status: &[bfrt_proto::Error],
    ) -> Result<(), Status> {
        let is_error = |(_, error): &(usize, &bfrt_proto::Error)| error.canonical_code != 0;
        let Some((index, error)) = status.iter().enumerate().find(is_error) else { return Ok(()) };
        let table = match requested.get(index).and_then(|entity| entity.entity.as_ref()) {
            Some(Kind::TableEntry(entry)) => self.info.id(entry.table_id),
            _ => None,
        };
        let table = table.map_or("an unknown table", |table| table.name.as_str());
        Err(Status::new(Code::from_i32(error.canonical_code), format!("{table}: {}", error.message)))
    }

    /// Returns the device with all pipes and both directions.
    fn target(&self) -> TargetDevice {
        TargetDevice {
            device_id: self.device_id,
            pipe_id: bfruntime::ALL_PIPES,
            direction: bfruntime::ALL,
            prsr_id: bfruntime::ALL,
        }
    }

    /// Performs a call with the session's timeout.
    async fn with_timeout<T, F: Future<Output = Result<T, Status>>>(
        &self,
        call: &'static str,
        send: impl FnOnce(BfRuntimeClient<Channel>) -> F,
    ) -> Result<T, ClientError> {
        channel::with_timeout(self.timeout, call, send(self.client.clone())).await
    }
}

/// An open StreamChannel, to which the driver ties the client's id and binding.
pub(super) struct BfrtStream {
    requests: mpsc::Sender<StreamMessageRequest>,
    responses: Streaming<StreamMessageResponse>,
}

impl BfrtStream {
    /// Closes the stream and waits, at most `limit`, until the driver has closed it too. The driver then accepts the
    /// next client with the same id.
    pub(crate) async fn close(self, limit: Duration) {
        let BfrtStream { requests, mut responses } = self;
        drop(requests);
        let ended = async { while let Ok(Some(_)) = responses.message().await {} };
        // If the driver does not reply, dropping the connection ends the binding.
        let _ = timeout(limit, ended).await;
    }
}

/// Waits for the reply to the subscription; skips other messages.
async fn wait_until_subscribed(responses: &mut Streaming<StreamMessageResponse>) -> Result<(), ClientError> {
    loop {
        let response =
            responses.message().await.map_err(|status| ClientError::call("StreamChannel", status))?;
        let Some(response) = response else { return Err(ClientError::Closed("end of stream".into())) };
        let Some(ResponseUpdate::Subscribe(Subscribe { status, .. })) = response.update else { continue };
        let status = status.unwrap_or_default();
        return match Code::from_i32(status.code) {
            Code::Ok => Ok(()),
            code => Err(ClientError::call("Subscribe", Status::new(code, status.message))),
        };
    }
}

/// Returns the error for an update that cannot be translated and was not sent.
fn untranslatable(update: &Update, error: &TranslateError, batch_len: usize, p4info: &Index) -> ClientError {
    let (update, message) = (pretty::update(update, p4info), error.to_string());
    let rejected = vec![RejectedUpdate { update, code: rpc::Code::InvalidArgument, message }];
    ClientError::Rejected { rejected, batch_len }
}

/// Converts the error of a Write. If the driver reports an error per update, lists the rejected updates.
fn write_error(status: Status, updates: &[&Update], batch_len: usize, p4info: &Index) -> ClientError {
    let rejected = rejected_updates(error_details::decode(status.details()), updates, p4info);
    if rejected.is_empty() {
        ClientError::call("Write", status)
    } else {
        ClientError::Rejected { rejected, batch_len }
    }
}

/// Returns the rejected updates. Each error comes with the index of its update in `updates`.
fn rejected_updates(
    errors: impl IntoIterator<Item = (usize, bfrt_proto::Error)>,
    updates: &[&Update],
    p4info: &Index,
) -> Vec<RejectedUpdate> {
    let errors = errors.into_iter().filter(|(_, error)| error.canonical_code != 0);
    let rejected = |(index, error): (usize, bfrt_proto::Error)| {
        let update = pretty::update(updates.get(index)?, p4info);
        let code = rpc::Code::try_from(error.canonical_code).unwrap_or(rpc::Code::Unknown);
        Some(RejectedUpdate { update, code, message: error.message })
    };
    errors.filter_map(rejected).collect()
}
