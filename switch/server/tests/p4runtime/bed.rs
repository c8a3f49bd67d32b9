//! A switch without interfaces, its P4Runtime server, and a client, with helpers that build requests.

use p4runtime::google::rpc;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action as Set;
use p4runtime::p4::v1::stream_message_request::Update as Request;
use p4runtime::p4::v1::stream_message_response::Update as Response;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::write_request::Atomicity;
use p4runtime::p4::v1::*;
use p4runtime::p4info::{self, Object};
use p4runtime::value::{from_uint, to_u64};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Status, Streaming};
use weir_server::p4runtime::{DroppedMessages, ServeError, ServerConfig, serve};
use weir_switch::driver::{Dataplane, DataplaneConfig};

pub(crate) const PROGRAM: &str = include_str!("../../../tests/programs/p4runtime.json");
pub(crate) const P4INFO: &str = include_str!("../../../tests/programs/p4runtime.p4info.txtpb");
/// The CPU port that the program expects.
pub(crate) const CPU_PORT: u16 = 255;
pub(crate) const DEVICE: u64 = 3;
/// Timeout of every step, long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) static INFO: LazyLock<p4info::Index> = LazyLock::new(|| p4info::Index::from_text(P4INFO).unwrap());

/// A switch with its server. Fields are dropped in order, the server before the data plane.
pub(crate) struct TestBed {
    pub address: String,
    pub lost: Arc<DroppedMessages>,
    stop: Option<oneshot::Sender<()>>,
    serving: tokio::task::JoinHandle<Result<(), ServeError>>,
    pub dataplane: Dataplane,
}

impl TestBed {
    pub(crate) async fn new() -> TestBed {
        TestBed::with(ServerConfig::default()).await
    }

    pub(crate) async fn with(config: ServerConfig) -> TestBed {
        let dataplane = DataplaneConfig { cpu_port: Some(CPU_PORT), ..DataplaneConfig::default() };
        let dataplane = Dataplane::start(dataplane, None, &[]).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let config = ServerConfig { device_id: DEVICE, ..config };
        let lost = Arc::clone(&config.lost);
        let serving = serve(dataplane.handle(), config, listener, async { drop(stopped.await) });
        TestBed { address, lost, stop: Some(stop), serving: tokio::spawn(serving), dataplane }
    }

    /// Creates a test bed with the test program installed, and its primary.
    pub(crate) async fn ready() -> (TestBed, Client) {
        let bed = TestBed::new().await;
        let mut client = bed.primary(1).await;
        client.push(Set::VerifyAndCommit, Some(config())).await.unwrap();
        (bed, client)
    }

    pub(crate) async fn client(&self) -> Client {
        let endpoint = Channel::from_shared(format!("http://{}", self.address)).unwrap();
        Client::new(endpoint.connect().await.unwrap())
    }

    /// Creates a client that has become primary with this election id.
    pub(crate) async fn primary(&self, id: u64) -> Client {
        let mut client = self.client().await;
        client.bid(id).await;
        assert_eq!(client.arbitration().await, (rpc::Code::Ok, Some(id)));
        client
    }

    pub(crate) async fn stop(mut self) -> Result<(), ServeError> {
        drop(self.stop.take());
        tokio::time::timeout(TIMEOUT, self.serving).await.expect("the server stops in time").unwrap()
    }
}

/// A client with one stream.
pub(crate) struct Client {
    pub stub: P4RuntimeClient<Channel>,
    pub id: Option<Uint128>,
    /// Name of the role in bids and requests.
    pub role: String,
    stream: Option<(mpsc::Sender<StreamMessageRequest>, Streaming<StreamMessageResponse>)>,
}

impl Client {
    pub(crate) fn new(channel: Channel) -> Client {
        Client { stub: P4RuntimeClient::new(channel), id: None, role: String::new(), stream: None }
    }

    pub(crate) async fn send(&mut self, update: Request) {
        if self.stream.is_none() {
            let (sender, requests) = mpsc::channel(16);
            let responses =
                self.stub.stream_channel(ReceiverStream::new(requests)).await.unwrap().into_inner();
            self.stream = Some((sender, responses));
        }
        let (sender, _) = self.stream.as_ref().unwrap();
        // If the stream has ended, the next read returns the error.
        let _ = sender.send(StreamMessageRequest { update: Some(update) }).await;
    }

    /// Sends an arbitration update with this election id, which later requests carry too.
    pub(crate) async fn bid(&mut self, id: impl Into<Option<u64>>) {
        self.id = id.into().map(|low| Uint128 { high: 0, low });
        let role = Some(Role { name: self.role.clone(), ..Role::default() });
        let bid =
            MasterArbitrationUpdate { device_id: DEVICE, role, election_id: self.id, ..Default::default() };
        self.send(Request::Arbitration(bid)).await;
    }

    /// Returns the next message of the stream, or its final status.
    pub(crate) async fn next(&mut self) -> Result<Option<Response>, Status> {
        let (_, responses) = self.stream.as_mut().expect("the stream is open");
        let message =
            tokio::time::timeout(TIMEOUT, responses.message()).await.expect("a message arrives in time")?;
        Ok(message.map(|message| message.update.expect("the message is not empty")))
    }

    /// Returns whether no message arrives for 100 ms.
    pub(crate) async fn receives_nothing(&mut self) -> bool {
        let (_, responses) = self.stream.as_mut().expect("the stream is open");
        tokio::time::timeout(Duration::from_millis(100), responses.message()).await.is_err()
    }

    pub(crate) async fn arbitration(&mut self) -> (rpc::Code, Option<u64>) {
        match self.next().await.unwrap() {
            Some(Response::Arbitration(update)) => {
                assert_eq!(update.device_id, DEVICE);
                let code = rpc::Code::try_from(update.status.unwrap().code).unwrap();
                (code, update.election_id.map(|id| id.low))
            }
            other => panic!("{other:?}"),
        }
    }

    /// Ends the stream; the connection stays.
    pub(crate) fn leave(&mut self) {
        self.stream = None;
    }

    pub(crate) async fn push(
        &mut self,
        action: Set,
        config: Option<ForwardingPipelineConfig>,
    ) -> Result<(), Status> {
        let request = SetForwardingPipelineConfigRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.id,
            action: action.into(),
            config,
            ..Default::default()
        };
        self.stub.set_forwarding_pipeline_config(request).await.map(drop)
    }

    pub(crate) async fn write_all(
        &mut self,
        updates: Vec<Update>,
        atomicity: Atomicity,
    ) -> Result<(), Status> {
        let request = WriteRequest {
            device_id: DEVICE,
            role: self.role.clone(),
            election_id: self.id,
            updates,
            atomicity: atomicity.into(),
            ..Default::default()
        };
        self.stub.write(request).await.map(drop)
    }

    pub(crate) async fn write(&mut self, kind: Type, entity: Kind) -> Result<(), Status> {
        self.write_all(vec![update(kind, entity)], Atomicity::ContinueOnError).await
    }

    /// Reads entities. Returns them and the number of messages.
    pub(crate) async fn read_messages(&mut self, requests: Vec<Kind>) -> Result<(Vec<Kind>, usize), Status> {
        let entities = requests.into_iter().map(|entity| Entity { entity: Some(entity) }).collect();
        let request = ReadRequest { device_id: DEVICE, entities, role: self.role.clone() };
        let mut stream = self.stub.read(request).await?.into_inner();
        let (mut found, mut messages) = (Vec::new(), 0);
        while let Some(message) = stream.message().await? {
            found.extend(message.entities.into_iter().filter_map(|entity| entity.entity));
            messages += 1;
        }
        Ok((found, messages))
    }

    pub(crate) async fn read(&mut self, request: Kind) -> Result<Vec<Kind>, Status> {
        Ok(self.read_messages(vec![request]).await?.0)
    }

    /// Reads the entries of `l2`: destination and port.
    pub(crate) async fn l2(&mut self) -> BTreeMap<u64, u64> {
        let request = TableEntry { table_id: table("l2").preamble().id, ..TableEntry::default() };
        let found = self.read(Kind::TableEntry(request)).await.unwrap();
        let parse = |kind| match kind {
            Kind::TableEntry(TableEntry { r#match, action: Some(TableAction { r#type }), .. }) => {
                let Some(FieldMatchType::Exact(key)) = &r#match[0].field_match_type else {
                    panic!("{match:?}", match = r#match)
                };
                let Some(ActionType::Action(action)) = r#type else { panic!("no action") };
                (to_u64(&key.value).unwrap(), to_u64(&action.params[0].value).unwrap())
            }
            other => panic!("{other:?}"),
        };
        found.into_iter().map(parse).collect()
    }
}

/// Returns the config of the test program, with a cookie.
pub(crate) fn config() -> ForwardingPipelineConfig {
    ForwardingPipelineConfig {
        p4info: Some(p4info::parse(P4INFO).unwrap()),
        p4_device_config: PROGRAM.into(),
        cookie: Some(forwarding_pipeline_config::Cookie { cookie: 0xc00c1e }),
    }
}

pub(crate) fn update(kind: Type, entity: Kind) -> Update {
    Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) }
}

pub(crate) fn table(name: &str) -> &'static p4runtime::p4::config::v1::Table {
    INFO.tables.named(name).unwrap()
}

pub(crate) fn action(name: &str, args: &[u64]) -> Action {
    let info = INFO.actions.named(name).unwrap();
    let params = info.params.iter().zip(args);
    let params = params.map(|(info, &value)| Param { param_id: info.id, value: from_uint(value.into()) });
    Action { action_id: info.preamble().id, params: params.collect() }
}

pub(crate) fn call(name: &str, args: &[u64]) -> Option<TableAction> {
    Some(TableAction { r#type: Some(ActionType::Action(action(name, args))) })
}

/// Returns an entry with a key of one exact field.
pub(crate) fn entry(name: &str, key: u64, action: Option<TableAction>) -> TableEntry {
    let exact = FieldMatchType::Exact(Exact { value: from_uint(key.into()) });
    TableEntry {
        table_id: table(name).preamble().id,
        r#match: vec![FieldMatch { field_id: 1, field_match_type: Some(exact) }],
        action,
        ..TableEntry::default()
    }
}

/// Returns an entry of `l2` that sends a destination to a port.
pub(crate) fn l2(destination: u64, port: u64) -> Kind {
    Kind::TableEntry(entry("l2", destination, call("forward", &[port])))
}

/// Returns an entry of `l2` that sends a destination to the controller.
pub(crate) fn punt(destination: u64) -> Kind {
    Kind::TableEntry(entry("l2", destination, call("punt", &[])))
}

/// Returns a packet-out that passes through the tables.
pub(crate) fn through_tables(destination: u64, source: u64) -> PacketOut {
    packet_out(&[(1, 0), (2, 1)], frame(destination, source))
}

pub(crate) fn packet_out(metadata: &[(u32, u64)], payload: Vec<u8>) -> PacketOut {
    let one =
        |&(metadata_id, value): &(u32, u64)| PacketMetadata { metadata_id, value: from_uint(value.into()) };
    PacketOut { payload, metadata: metadata.iter().map(one).collect() }
}

pub(crate) fn frame(destination: u64, source: u64) -> Vec<u8> {
    let mac = |mac: u64| mac.to_be_bytes()[2..].to_vec();
    [mac(destination), mac(source), vec![0x88, 0xb5], vec![7; 46]].concat()
}

/// Returns the errors in a status, one per update.
pub(crate) fn errors(status: &Status) -> Vec<(rpc::Code, String)> {
    use prost::Message;
    assert_eq!(status.code(), Code::Unknown, "{status:?}");
    let inner = rpc::Status::decode(status.details()).unwrap();
    let one = |any: &prost_types::Any| {
        assert_eq!(any.type_url, "type.googleapis.com/p4.v1.Error");
        let error = Error::decode(any.value.as_slice()).unwrap();
        (rpc::Code::try_from(error.canonical_code).unwrap(), error.message)
    };
    inner.details.iter().map(one).collect()
}

/// Returns the codes in a status, one per update.
pub(crate) fn codes(status: &Status) -> Vec<rpc::Code> {
    errors(status).into_iter().map(|(code, _)| code).collect()
}
