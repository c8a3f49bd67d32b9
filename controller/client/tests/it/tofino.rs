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
use weir_client::fleet::{ApplySummary, Outcomes, SwitchTask, apply, read};
use weir_client::{ClientError, ClientOptions, Program, Target};
use weir_controller::plan::{TargetConfig, Tofino, decode, desired_states};
use weir_controller::profile::{DeflectionConfig, EcnConfig};
use weir_controller::reconcile::BASE;
use weir_controller::routes::{RoutingMethod, routes};
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
        let ecn = EcnConfig { kmin: kb(100), kmax: kb(400), pmax: "0.2".parse().unwrap(), per: None };
        let deflection =
            DeflectionConfig { threshold: kb(15), per: None, at_hosts: false, lifetime: 10_000, tokens: 1 };
        let target = TargetConfig::Tofino(Tofino::default());
        let options =
            PlanOptions { ecn: Some(ecn), deflection: Some(deflection), target, ..PlanOptions::default() };
        let program_of = Arc::new(Program::tofino(BfrtInfo::parse(&bfrt_json(program)).unwrap()).unwrap());
        let routes = routes(&topology, method).unwrap();
        let mut goals = desired_states(&topology, &routes, &options, &program_of.index).unwrap();
        let (mut servers, mut tasks) = (BTreeMap::new(), Vec::new());
        for switch in &topology.switches {
            let (server, address) = serve(program);
            servers.insert(switch.name.clone(), server);
            let target = Target { name: switch.name.clone(), address, device_id: 0 };
            let goal = goals.remove(&switch.name).unwrap();
            tasks.push(SwitchTask { target, program: Arc::clone(&program_of), goal });
        }
        Fabric { topology, options, program: program_of, servers, tasks }
    }

    async fn apply(&self) -> ApplySummary {
        let mut all = ApplySummary::default();
        for (name, applied) in apply(self.tasks.clone(), ClientOptions::default(), false).await {
            all += &applied.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        all
    }

    /// An entry that no switch takes: with an action for the default entry alone.
    fn refused(&self) -> Entity {
        let forward = self.program.index.tables.named("forward").unwrap();
        let drop = Action { action_id: forward.action_refs.last().unwrap().id, ..Action::default() };
        let action = Some(TableAction { r#type: Some(table_action::Type::Action(drop)) });
        let table_id = forward.preamble().id;
        Entity { entity: Some(Kind::TableEntry(TableEntry { table_id, action, ..TableEntry::default() })) }
    }

    fn wanted(&self) -> usize {
        self.tasks.iter().map(|task| task.goal.len()).sum()
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

/// All switches run in this process. With a thread for each, connections are kept alive while some compute.
#[tokio::test(flavor = "multi_thread", worker_threads = 20)]
async fn a_fabric_is_filled_once_and_what_it_holds_routes_every_pair() {
    const DUMBBELL: &str = "{kind: dumbbell, switches: 3, senders: 3, receivers: 2, rate: 100Gbps}";
    const FAT_TREE: &str = "{kind: fat-tree, k: 4}";
    let all = ["ecn", "hpcc", "fncc", "dart", "weir"].into_iter();
    for (program, yaml, method) in all
        .map(|program| (program, DUMBBELL, RoutingMethod::Auto))
        .chain([("weir", FAT_TREE, RoutingMethod::Ecmp), ("dart", FAT_TREE, RoutingMethod::Trees)])
    {
        let fabric = Fabric::new(program, yaml, method);
        let applied = fabric.apply().await;
        assert_eq!((applied.inserted + applied.modified, applied.deleted), (fabric.wanted(), 0), "{program}");
        let held = read(fabric.tasks.clone(), ClientOptions::default()).await;
        let held = held.into_iter().map(|(name, held)| (name, held.unwrap())).collect();
        let target = fabric.options.target.target();
        let routes = decode(&fabric.topology, &held, &fabric.program.index, target).unwrap();
        verify(&fabric.topology, &routes).unwrap_or_else(|all| panic!("{program}: {}", all[0]));
        // At once, with the same client id: the drivers must know that the streams before have ended.
        let again = fabric.apply().await;
        let counts = (again.inserted, again.modified, again.deleted, again.unchanged);
        assert_eq!(counts, (0, 0, 0, fabric.wanted()), "{program}");
        assert!(fabric.servers.values().all(|server| server.take_refused().is_empty()), "{program}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_driver_that_was_started_again_is_refilled() {
    let fabric = Fabric::new("fncc", "{kind: star, hosts: 3}", RoutingMethod::Auto);
    fabric.apply().await;
    let server = &fabric.servers["s1"];
    let forward = server.tables().info().named("forward").unwrap().id;
    assert_eq!(server.tables().len(forward), 3);
    server.clear();
    assert!(server.tables().is_empty());
    assert_eq!(fabric.apply().await.inserted + 1, fabric.wanted(), "all but the default action are new");
    assert_eq!(server.tables().len(forward), 3);
}

fn only<T>(outcomes: Outcomes<T>) -> Result<T, ClientError> {
    outcomes.into_values().next().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_entry_is_named() {
    let mut fabric = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let wrong = fabric.refused();
    fabric.tasks[0].goal.insert(BASE, wrong);
    let error =
        only(apply(fabric.tasks.clone(), ClientOptions::default(), false).await).unwrap_err().to_string();
    assert!(error.contains("the first: + forward[] -> drop_no_route(): INVALID_ARGUMENT"), "{error}");
    assert!(error.contains("is for the default entry only"), "{error}");
    assert_eq!(fabric.servers["s1"].take_refused().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_switch_with_another_program_or_another_controller_is_left_alone() {
    let fabric = Fabric::new("hpcc", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let options = |id| ClientOptions {
        election_id: Uint128 { high: 0, low: id },
        timeout: Duration::from_secs(5),
        ..ClientOptions::default()
    };
    let other = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let mut tasks = fabric.tasks.clone();
    tasks[0].target = other.tasks[0].target.clone();
    let error = only(apply(tasks, options(1), false).await).unwrap_err();
    assert!(matches!(&error, ClientError::OtherTables { runs } if runs == &["p4"]), "{error}");
    assert!(other.servers["s1"].tables().is_empty());

    let error = only(apply(fabric.tasks.clone(), options(1 << 32), false).await).unwrap_err();
    assert!(matches!(error, ClientError::TooLarge { .. }), "{error}");

    // Client 7 keeps the program.
    let address = format!("http://{}", fabric.tasks[0].target.address);
    let _held = holder(address, 7).await;
    let error = only(apply(fabric.tasks.clone(), options(1), false).await).unwrap_err();
    assert!(matches!(&error, ClientError::AlreadyBound { reason } if reason.contains("client 7")), "{error}");
    assert!(error.is_transient() && fabric.servers["s1"].tables().is_empty());
    // Reading needs no binding.
    assert!(only(read(fabric.tasks.clone(), options(1)).await).is_ok());

    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut tasks = fabric.tasks.clone();
    tasks[0].target.address = nobody.clone();
    let error = only(apply(tasks, options(1), false).await).unwrap_err().to_string();
    assert!(error.starts_with(&format!("no BF Runtime server at {nobody}")), "{error}");
}

/// Drivers may answer a call with OK and tell in the response what failed.
#[tokio::test(flavor = "multi_thread")]
async fn errors_in_the_status_of_responses_are_errors() {
    let mut fabric = Fabric::new("ecn", "{kind: star, hosts: 2}", RoutingMethod::Auto);
    let good = fabric.tasks.clone();
    let wrong = fabric.refused();
    fabric.tasks[0].goal.insert(BASE, wrong);
    fabric.servers["s1"].report_in_responses();
    let error = only(apply(fabric.tasks, ClientOptions::default(), false).await).unwrap_err().to_string();
    assert!(error.contains("the first: + forward[] -> drop_no_route(): INVALID_ARGUMENT"), "{error}");
    assert!(error.contains("is for the default entry only"), "{error}");

    assert!(only(apply(good.clone(), ClientOptions::default(), false).await).is_ok());
    let message = "the table cannot be read".to_owned();
    let internal = Error { canonical_code: Code::Internal.into(), message, ..Error::default() };
    fabric.servers["s1"].fail_reads(internal);
    // The entries beside it are complete.
    for error in [
        only(read(good.clone(), ClientOptions::default()).await).unwrap_err(),
        only(apply(good, ClientOptions::default(), false).await).unwrap_err(),
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
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut tasks = fabric.tasks.clone();
    tasks[3].target.address = nobody;
    let outcomes = apply(tasks.clone(), ClientOptions::default(), false).await;
    assert!(matches!(outcomes["s4"], Err(ClientError::Unreachable { .. })));
    assert!(outcomes.values().flatten().all(|it| it.inserted == 0 && it.left > 0), "{outcomes:?}");
    assert!(fabric.servers.values().all(|server| server.tables().is_empty()));
    let outcomes = apply(tasks, ClientOptions::default(), true).await;
    assert!(outcomes.values().flatten().all(|it| it.left == 0), "{outcomes:?}");
    assert!(fabric.servers["s4"].tables().is_empty() && !fabric.servers["s1"].tables().is_empty());

    // A leaf has the routes of its own hosts, and the first of those to the others are not written.
    fabric.servers.values().for_each(TableServer::clear);
    let wrong = fabric.refused();
    fabric.tasks[0].goal.insert(BASE + 1, wrong);
    let outcomes = apply(fabric.tasks.clone(), ClientOptions::default(), false).await;
    assert!(matches!(outcomes["s1"], Err(ClientError::Rejected { .. })));
    assert!(outcomes.values().flatten().all(|it| it.left > 0), "{outcomes:?}");
    let forward = fabric.servers["s2"].tables().info().named("forward").unwrap().id;
    assert_eq!(fabric.servers["s2"].tables().len(forward), 1);
}

/// A client that is bound to the program as long as what is returned lives.
async fn holder(address: String, client_id: u32) -> impl Sized {
    use bfruntime::bfrt_proto::bf_runtime_client::BfRuntimeClient;
    use bfruntime::bfrt_proto::{
        ForwardingPipelineConfig, SetForwardingPipelineConfigRequest, StreamMessageRequest, Subscribe,
        stream_message_request::Update,
    };
    let mut client = BfRuntimeClient::connect(address).await.unwrap();
    let (asks, queue) = tokio::sync::mpsc::channel(1);
    let update = Some(Update::Subscribe(Subscribe::default()));
    asks.send(StreamMessageRequest { client_id, update }).await.unwrap();
    let queue = tokio_stream::wrappers::ReceiverStream::new(queue);
    let mut answers = client.stream_channel(queue).await.unwrap().into_inner();
    answers.message().await.unwrap();
    let config = ForwardingPipelineConfig { p4_name: "p4".into(), ..Default::default() };
    let bind = SetForwardingPipelineConfigRequest { client_id, config: vec![config], ..Default::default() };
    client.set_forwarding_pipeline_config(bind).await.unwrap();
    (client, asks, answers)
}
