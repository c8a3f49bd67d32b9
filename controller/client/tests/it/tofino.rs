//! BF Runtime over gRPC, against servers that check every message against bfrt.json.

use bfruntime::BfrtInfo;
use bfruntime::bfrt_proto::Error;
use bfruntime::server::TableServer;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{Action, Entity, TableAction, TableEntry, Uint128, table_action};
use p4runtime::p4info::Object;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;
use weir_client::fleet::{ApplySummary, OnFailure, Outcomes, SwitchTask, apply, read};
use weir_client::{ClientError, ClientOptions, Program, Target};
use weir_controller::plan::{TargetConfig, Tofino, decode, desired_states};
use weir_controller::reconcile::BASE;
use weir_controller::routes::{RoutingMethod, routes};
use weir_controller::thresholds::{DeflectionConfig, EcnConfig};
use weir_controller::topology::{Topology, build};
use weir_controller::{PlanOptions, verify};
use weir_units::Bytes;

fn bfrt_json(program: &str) -> Vec<u8> {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/../../p4src/tna/build");
    std::fs::read(format!("{dir}/{program}.bfrt.json")).unwrap()
}

/// A fabric of servers, and the task for each.
struct Fabric {
    topology: Topology,
    options: PlanOptions,
    program: Arc<Program>,
    servers: BTreeMap<String, TableServer>,
    tasks: Vec<SwitchTask>,
}

impl Fabric {
    fn new(program: &str, yaml: &str, method: RoutingMethod) -> Fabric {
        let topology = build(&serde_yaml::from_str(yaml).unwrap()).unwrap();
        let kb = Bytes::from_kb;
        let ecn =
            EcnConfig { kmin: kb(100), kmax: kb(400), pmax: "0.2".parse().unwrap(), reference_rate: None };
        let deflection = DeflectionConfig {
            threshold: kb(15),
            reference_rate: None,
            at_hosts: false,
            lifetime: 10_000,
            tokens: 1,
        };
        let target = TargetConfig::Tofino(Tofino::default());
        let options =
            PlanOptions { ecn: Some(ecn), deflection: Some(deflection), target, ..PlanOptions::default() };
        let bfrt_program = Arc::new(Program::tofino(BfrtInfo::parse(&bfrt_json(program)).unwrap()).unwrap());
        let routes = routes(&topology, method).unwrap();
        let mut desired_states = desired_states(&topology, &routes, &options, &bfrt_program.index).unwrap();
        let (mut servers, mut tasks) = (BTreeMap::new(), Vec::new());
        for switch in &topology.switches {
            let (server, address) = serve(program);
            servers.insert(switch.name.clone(), server);
            let target = Target { name: switch.name.clone(), address, device_id: 0 };
            let desired = desired_states.remove(&switch.name).unwrap();
            tasks.push(SwitchTask { target, program: Arc::clone(&bfrt_program), desired });
        }
        Fabric { topology, options, program: bfrt_program, servers, tasks }
    }

    async fn apply(&self) -> ApplySummary {
        let mut all = ApplySummary::default();
        for (name, applied) in apply(self.tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await
        {
            all += &applied.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        all
    }

    /// Returns an entry that switches reject: its action is allowed only in the default entry.
    fn invalid_entry(&self) -> Entity {
        let forward = self.program.index.tables.named("forward").unwrap();
        let drop = Action { action_id: forward.action_refs.last().unwrap().id, ..Action::default() };
        let action = Some(TableAction { r#type: Some(table_action::Type::Action(drop)) });
        let table_id = forward.preamble().id;
        Entity { entity: Some(Kind::TableEntry(TableEntry { table_id, action, ..TableEntry::default() })) }
    }

    fn desired_count(&self) -> usize {
        self.tasks.iter().map(|task| task.desired.len()).sum()
    }
}

/// Starts the server of a switch.
fn serve(program: &str) -> (TableServer, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = TableServer::new(0, "p4", bfrt_json(program)).unwrap();
    tokio::spawn(server.clone().serve(listener));
    (server, address)
}

/// All switches run in this process. A thread for each keeps connections alive while others compute.
#[tokio::test(flavor = "multi_thread", worker_threads = 20)]
async fn a_fabric_is_written_once_and_its_entries_route_every_pair() {
    const DUMBBELL: &str = "{kind: dumbbell, switches: 3, senders: 3, receivers: 2, rate: 100Gbps}";
    const FAT_TREE: &str = "{kind: fat-tree, k: 4}";
    let all = ["ecn", "hpcc", "fncc", "dart", "weir"].into_iter();
    for (program, yaml, method) in all
        .map(|program| (program, DUMBBELL, RoutingMethod::Auto))
        .chain([("weir", FAT_TREE, RoutingMethod::Ecmp), ("dart", FAT_TREE, RoutingMethod::Trees)])
    {
        let fabric = Fabric::new(program, yaml, method);
        let applied = fabric.apply().await;
        assert_eq!(
            (applied.inserted + applied.modified, applied.deleted),
            (fabric.desired_count(), 0),
            "{program}"
        );
        let actual = read(fabric.tasks.clone(), ClientOptions::default()).await;
        let actual = actual.into_iter().map(|(name, entities)| (name, entities.unwrap())).collect();
        let target = fabric.options.target.target();
        let routes = decode(&fabric.topology, &actual, &fabric.program.index, target).unwrap();
        verify(&fabric.topology, &routes).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
        // Applied again immediately with the same client id: the drivers must have noticed that the streams ended.
        let again = fabric.apply().await;
        let counts = (again.inserted, again.modified, again.deleted, again.unchanged);
        assert_eq!(counts, (0, 0, 0, fabric.desired_count()), "{program}");
        assert!(fabric.servers.values().all(|server| server.take_rejected().is_empty()), "{program}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_driver_is_written_again() {
    let fabric = Fabric::new("fncc", "{kind: star, hosts: 3}", RoutingMethod::Auto);
    fabric.apply().await;
    let server = &fabric.servers["s1"];
    let forward = server.tables().info().named("forward").unwrap().id;
    assert_eq!(server.tables().len(forward), 3);
    server.clear();
    assert!(server.tables().is_empty());
    assert_eq!(
        fabric.apply().await.inserted + 1,
        fabric.desired_count(),
        "all but the default action are new"
    );
    assert_eq!(server.tables().len(forward), 3);
}

fn only<T>(outcomes: Outcomes<T>) -> Result<T, ClientError> {
    outcomes.into_values().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_contains_the_rejected_entry() {
    let mut fabric = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let wrong = fabric.invalid_entry();
    fabric.tasks[0].desired.insert(BASE, wrong);
    let error = only(apply(fabric.tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the first: + forward[] -> drop_no_route(): INVALID_ARGUMENT"), "{error}");
    assert!(error.contains("is for the default entry only"), "{error}");
    assert_eq!(fabric.servers["s1"].take_rejected().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_with_another_program_or_another_controller_is_not_written() {
    let fabric = Fabric::new("hpcc", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let options = |id| ClientOptions {
        election_id: Uint128 { high: 0, low: id },
        timeout: Duration::from_secs(5),
        ..ClientOptions::default()
    };
    let other = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let mut tasks = fabric.tasks.clone();
    tasks[0].target = other.tasks[0].target.clone();
    let error = only(apply(tasks, options(1), OnFailure::WriteNone).await).unwrap_err();
    assert!(matches!(&error, ClientError::OtherTables { runs } if runs == &["p4"]), "{error}");
    assert!(other.servers["s1"].tables().is_empty());

    let error = only(apply(fabric.tasks.clone(), options(1 << 32), OnFailure::WriteNone).await).unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error}");

    // Client 7 is bound to the program.
    let address = format!("http://{}", fabric.tasks[0].target.address);
    let _bound = bind_client(address, 7).await;
    let error = only(apply(fabric.tasks.clone(), options(1), OnFailure::WriteNone).await).unwrap_err();
    assert!(matches!(&error, ClientError::AlreadyBound { reason } if reason.contains("client 7")), "{error}");
    assert!(error.is_transient() && fabric.servers["s1"].tables().is_empty());
    // Reading needs no binding.
    assert!(only(read(fabric.tasks.clone(), options(1)).await).is_ok());

    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut tasks = fabric.tasks.clone();
    tasks[0].target.address = unused.clone();
    let error = only(apply(tasks, options(1), OnFailure::WriteNone).await).unwrap_err().to_string();
    assert!(error.starts_with(&format!("no BF Runtime server at {unused}")), "{error}");
}

/// Drivers may return OK and report errors in the response.
#[tokio::test(flavor = "multi_thread")]
async fn errors_in_successful_responses_are_detected() {
    let mut fabric = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let good = fabric.tasks.clone();
    let wrong = fabric.invalid_entry();
    fabric.tasks[0].desired.insert(BASE, wrong);
    fabric.servers["s1"].report_in_responses();
    let error = only(apply(fabric.tasks, ClientOptions::default(), OnFailure::WriteNone).await)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the first: + forward[] -> drop_no_route(): INVALID_ARGUMENT"), "{error}");
    assert!(error.contains("is for the default entry only"), "{error}");

    assert!(only(apply(good.clone(), ClientOptions::default(), OnFailure::WriteNone).await).is_ok());
    let message = "the table cannot be read".to_owned();
    let internal = Error { canonical_code: Code::Internal.into(), message, ..Error::default() };
    fabric.servers["s1"].fail_reads(internal);
    // The response also contains all entries.
    for error in [
        only(read(good.clone(), ClientOptions::default()).await).unwrap_err(),
        only(apply(good, ClientOptions::default(), OnFailure::WriteNone).await).unwrap_err(),
    ] {
        let error = error.to_string();
        assert!(
            error.starts_with("Read: INTERNAL: pipe.") && error.ends_with(": the table cannot be read"),
            "{error}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_fails_stops_the_others() {
    let mut fabric = Fabric::new(
        "ecn",
        "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 1}",
        RoutingMethod::Auto,
    );
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut tasks = fabric.tasks.clone();
    tasks[3].target.address = unused;
    let outcomes = apply(tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await;
    assert!(matches!(outcomes["s4"], Err(ClientError::Unreachable { .. })));
    assert!(outcomes.values().flatten().all(|it| it.inserted == 0 && it.unwritten > 0), "{outcomes:?}");
    assert!(fabric.servers.values().all(|server| server.tables().is_empty()));
    let outcomes = apply(tasks, ClientOptions::default(), OnFailure::WriteOthers).await;
    assert!(outcomes.values().flatten().all(|it| it.unwritten == 0), "{outcomes:?}");
    assert!(fabric.servers["s4"].tables().is_empty() && !fabric.servers["s1"].tables().is_empty());

    // A leaf has the routes of its own hosts; its routes to other racks have a higher rank and are not written.
    fabric.servers.values().for_each(TableServer::clear);
    let wrong = fabric.invalid_entry();
    fabric.tasks[0].desired.insert(BASE + 1, wrong);
    let outcomes = apply(fabric.tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await;
    assert!(matches!(outcomes["s1"], Err(ClientError::Rejected { .. })));
    assert!(outcomes.values().flatten().all(|it| it.unwritten > 0), "{outcomes:?}");
    let forward = fabric.servers["s2"].tables().info().named("forward").unwrap().id;
    assert_eq!(fabric.servers["s2"].tables().len(forward), 1);
}

/// Binds a client to the program until the returned value is dropped.
async fn bind_client(address: String, client_id: u32) -> impl Sized {
    use bfruntime::bfrt_proto::bf_runtime_client::BfRuntimeClient;
    use bfruntime::bfrt_proto::{
        ForwardingPipelineConfig, SetForwardingPipelineConfigRequest, StreamMessageRequest, Subscribe,
        stream_message_request::Update,
    };
    let mut client = BfRuntimeClient::connect(address).await.unwrap();
    let (requests, queue) = tokio::sync::mpsc::channel(1);
    let update = Some(Update::Subscribe(Subscribe::default()));
    requests.send(StreamMessageRequest { client_id, update }).await.unwrap();
    let queue = tokio_stream::wrappers::ReceiverStream::new(queue);
    let mut responses = client.stream_channel(queue).await.unwrap().into_inner();
    responses.message().await.unwrap();
    let config = ForwardingPipelineConfig { p4_name: "p4".into(), ..Default::default() };
    let bind = SetForwardingPipelineConfigRequest { client_id, config: vec![config], ..Default::default() };
    client.set_forwarding_pipeline_config(bind).await.unwrap();
    (client, requests, responses)
}
