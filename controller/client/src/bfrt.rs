use super::error::Refused;
use super::{ClientError, ClientOptions, Target, channel};
use bfruntime::bfrt_proto::bf_runtime_client::BfRuntimeClient;
use bfruntime::bfrt_proto::entity::Entity as Kind;
use bfruntime::bfrt_proto::set_forwarding_pipeline_config_request::Action;
use bfruntime::bfrt_proto::stream_message_request::Update as Ask;
use bfruntime::bfrt_proto::stream_message_response::Update as Answer;
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

/// P4Runtime updates per Write request.
const BATCH: usize = 256;
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
    p4_name: String,
    /// Tables of the program and fixed tables of the driver.
    info: Arc<BfrtInfo>,
}

impl BfrtSession {
    /// Connects with read access and looks up the program among those that the driver runs. [`bind`](Self::bind)
    /// gives write access.
    pub async fn connect(
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
        session.find(program).await?;
        Ok(session)
    }

    /// Identifies the program by its tables, since the name depends on the driver's configuration.
    async fn find(&mut self, program: &BfrtInfo) -> Result<(), ClientError> {
        const CALL: &str = "GetForwardingPipelineConfig";
        let request =
            GetForwardingPipelineConfigRequest { device_id: self.device_id, client_id: self.client_id };
        let asked = self
            .limited(CALL, |mut client| async move { client.get_forwarding_pipeline_config(request).await });
        let answer = asked.await?.into_inner();
        let is_ours = |config: &&ForwardingPipelineConfig| {
            BfrtInfo::parse(&config.bfruntime_info).is_ok_and(|info| info == *program)
        };
        let Some(ours) = answer.config.iter().find(is_ours) else {
            let runs: Vec<String> = answer.config.into_iter().map(|config| config.p4_name).collect();
            return Err(if runs.is_empty() {
                ClientError::NoProgram
            } else {
                ClientError::OtherTables { runs }
            });
        };
        let fixed = answer.non_p4_config.map(|it| it.bfruntime_info).filter(|json| !json.is_empty());
        let wrong = |error: bfruntime::InfoError| {
            ClientError::call(CALL, Status::internal(format!("its fixed tables: {error}")))
        };
        let fixed = fixed.map(|json| BfrtInfo::parse(&json)).transpose().map_err(wrong)?.unwrap_or_default();
        self.info = Arc::new(program.merged(&fixed).map_err(wrong)?);
        self.p4_name = ours.p4_name.clone();
        Ok(())
    }

    /// Subscribes and binds this client to the program. The session may write as long as the stream exists.
    pub async fn bind(&self) -> Result<BfrtStream, ClientError> {
        let (asks, queue) = mpsc::channel(1);
        let subscribe = Subscribe { device_id: self.device_id, ..Subscribe::default() };
        let ask = StreamMessageRequest { client_id: self.client_id, update: Some(Ask::Subscribe(subscribe)) };
        asks.try_send(ask).map_err(|_| ClientError::Closed("at once".into()))?;
        let taken = |error: ClientError| match &error {
            ClientError::Call { status, .. } if status.code() == Code::AlreadyExists => {
                ClientError::AlreadyBound { reason: status.message().to_owned() }
            }
            _ => error,
        };
        let opened = self.limited("StreamChannel", |mut client| async move {
            client.stream_channel(Request::new(ReceiverStream::new(queue))).await
        });
        let mut answers = opened.await.map_err(taken)?.into_inner();
        let limit = self.timeout;
        let subscribed = timeout(limit, subscribed(&mut answers)).await;
        subscribed.map_err(|_| ClientError::Timeout { call: "Subscribe", limit })?.map_err(taken)?;
        let config = ForwardingPipelineConfig { p4_name: self.p4_name.clone(), ..Default::default() };
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            client_id: self.client_id,
            action: Action::Bind.into(),
            config: vec![config],
            ..SetForwardingPipelineConfigRequest::default()
        };
        let bound = self.limited("SetForwardingPipelineConfig", |mut client| async move {
            client.set_forwarding_pipeline_config(request).await
        });
        bound.await.map_err(taken)?;
        Ok(BfrtStream { asks, answers })
    }

    /// Reads all entities that a plan can contain. Fails if the driver reports an error for any of them.
    pub async fn read_all(&self) -> Result<Vec<Entity>, ClientError> {
        let translator = Translator::new(&self.info);
        let request = ReadRequest {
            target: Some(self.target()),
            client_id: self.client_id,
            entities: translator.read_all_entities(),
            p4_name: self.p4_name.clone(),
        };
        let asked = request.entities.clone();
        let collect = |mut client: BfRuntimeClient<Channel>| async move {
            let mut answers = client.read(request).await?.into_inner();
            let mut held = Vec::new();
            while let Some(answer) = answers.message().await? {
                self.check_read(&asked, &answer.status)?;
                held.extend(answer.entities.into_iter().filter_map(|it| match it.entity {
                    Some(Kind::TableEntry(entry)) => Some(entry),
                    _ => None,
                }));
            }
            Ok(held)
        };
        Ok(translator.entities(&self.limited("Read", collect).await?))
    }

    /// Writes updates in order, in batches. Stops after a batch with a rejected update.
    pub async fn write(&self, updates: &[Update], p4info: &Index) -> Result<(), ClientError> {
        for batch in updates.chunks(BATCH) {
            let (mut request, mut of) = (Vec::new(), Vec::new());
            for update in batch {
                let translated = Translator::new(&self.info).update(update);
                let translated = translated.map_err(|error| refused(update, &error, batch.len(), p4info))?;
                of.extend(translated.iter().map(|_| update));
                request.extend(translated);
            }
            let request = WriteRequest {
                target: Some(self.target()),
                client_id: self.client_id,
                updates: request,
                p4_name: self.p4_name.clone(),
                ..WriteRequest::default()
            };
            let written = self.limited("Write", |mut client| async move { client.write(request).await });
            let answer = written.await.map_err(|error| match error {
                ClientError::Call { status, .. } => write_error(*status, &of, batch.len(), p4info),
                other => other,
            })?;
            // Some drivers report the errors here, after a call that succeeded.
            let refused = told(answer.into_inner().status.into_iter().enumerate(), &of, p4info);
            if !refused.is_empty() {
                return Err(ClientError::Rejected { refused, of: batch.len() });
            }
        }
        Ok(())
    }

    /// Returns the first error about what was asked for; the status has one for each, unless all went well.
    fn check_read(&self, asked: &[bfrt_proto::Entity], status: &[bfrt_proto::Error]) -> Result<(), Status> {
        let is_error = |(_, error): &(usize, &bfrt_proto::Error)| error.canonical_code != 0;
        let Some((place, error)) = status.iter().enumerate().find(is_error) else { return Ok(()) };
        let table = match asked.get(place).and_then(|entity| entity.entity.as_ref()) {
            Some(Kind::TableEntry(entry)) => self.info.id(entry.table_id),
            _ => None,
        };
        let table = table.map_or("an unknown table", |table| table.name.as_str());
        Err(Status::new(Code::from_i32(error.canonical_code), format!("{table}: {}", error.message)))
    }

    /// All pipes, both directions.
    fn target(&self) -> TargetDevice {
        TargetDevice {
            device_id: self.device_id,
            pipe_id: bfruntime::ALL_PIPES,
            direction: bfruntime::ALL,
            prsr_id: bfruntime::ALL,
        }
    }

    /// Performs a call with the session's timeout.
    async fn limited<T, F: Future<Output = Result<T, Status>>>(
        &self,
        call: &'static str,
        go: impl FnOnce(BfRuntimeClient<Channel>) -> F,
    ) -> Result<T, ClientError> {
        channel::limited(self.timeout, call, go(self.client.clone())).await
    }
}

/// An open StreamChannel, to which the driver ties the client's id and binding.
pub(super) struct BfrtStream {
    asks: mpsc::Sender<StreamMessageRequest>,
    answers: Streaming<StreamMessageResponse>,
}

impl BfrtStream {
    /// Closes the stream and waits, at most `limit`, until the driver has closed it too. The driver then accepts the
    /// next client with the same id.
    pub async fn close(self, limit: Duration) {
        let BfrtStream { asks, mut answers } = self;
        drop(asks);
        let ended = async { while let Ok(Some(_)) = answers.message().await {} };
        // If the driver does not reply, dropping the connection ends the binding.
        let _ = timeout(limit, ended).await;
    }
}

async fn subscribed(answers: &mut Streaming<StreamMessageResponse>) -> Result<(), ClientError> {
    loop {
        let answer = answers.message().await.map_err(|status| ClientError::call("StreamChannel", status))?;
        let Some(answer) = answer else { return Err(ClientError::Closed("it ended".into())) };
        let Some(Answer::Subscribe(Subscribe { status, .. })) = answer.update else { continue };
        let status = status.unwrap_or_default();
        return match Code::from_i32(status.code) {
            Code::Ok => Ok(()),
            code => Err(ClientError::call("Subscribe", Status::new(code, status.message))),
        };
    }
}

/// Returns the error for an update that cannot be translated and was not sent.
fn refused(update: &Update, error: &TranslateError, of: usize, p4info: &Index) -> ClientError {
    let (update, message) = (pretty::update(update, p4info), error.to_string());
    ClientError::Rejected { refused: vec![Refused { update, code: rpc::Code::InvalidArgument, message }], of }
}

/// Converts the error of a Write. If the driver reports an error per update, lists the rejected updates.
fn write_error(status: Status, updates: &[&Update], of: usize, p4info: &Index) -> ClientError {
    let refused = told(error_details::decode(status.details()), updates, p4info);
    if refused.is_empty() {
        ClientError::call("Write", status)
    } else {
        ClientError::Rejected { refused, of }
    }
}

/// Returns the rejected updates. Errors come with the index of their update.
fn told(
    errors: impl IntoIterator<Item = (usize, bfrt_proto::Error)>,
    updates: &[&Update],
    p4info: &Index,
) -> Vec<Refused> {
    let refused = errors.into_iter().filter(|(_, error)| error.canonical_code != 0);
    let told = |(index, error): (usize, bfrt_proto::Error)| {
        let update = pretty::update(updates.get(index)?, p4info);
        let code = rpc::Code::try_from(error.canonical_code).unwrap_or(rpc::Code::Unknown);
        Some(Refused { update, code, message: error.message })
    };
    refused.filter_map(told).collect()
}
