//! `apply` to switches in this process, from connecting to verification: 80 switches of a fat-tree, and a ring of five
//! switches that fail.

// Prints measurements.
#![allow(clippy::print_stderr)]

use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{Action, Entity, TableAction, TableEntry, table_action};
use p4runtime::p4info::{Index, Object};
use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_client::fleet::{ApplySummary, OnFailure, SwitchTask, apply, read};
use weir_client::{ClientError, ClientOptions, Program, Target};
use weir_controller::hash::PathHash;
use weir_controller::path::PathError;
use weir_controller::plan::{Bmv2, decode, desired_states};
use weir_controller::reconcile::{BASE, LAST_INSERT};
use weir_controller::topology::{HostIx, LinkIx, Topology, build};
use weir_controller::{PlanOptions, Routes, RoutingMethod, routes, verify};
use weir_server::p4runtime::{Programs, ServerConfig, serve};
use weir_switch::driver::{Dataplane, DataplaneConfig};

/// Time limit. A debug build runs beside other tests on a shared machine, which has taken 18 s: its limit shows only that
/// no switch waits for another's timeouts.
const LIMIT: Duration = if cfg!(debug_assertions) { Duration::from_secs(60) } else { Duration::from_secs(3) };

fn program() -> Arc<Program> {
    let build_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build");
    let text = |name: &str| std::fs::read_to_string(build_dir.join(name)).expect("a committed artifact");
    let p4info = p4runtime::p4info::parse(&text("fncc.p4info.txtpb")).expect("P4Info");
    Arc::new(Program::new(p4info, text("fncc.json").into_bytes()).expect("a program"))
}

/// Starts the switches of a topology, without a program.
fn start(topology: &Topology) -> (Vec<Dataplane>, Vec<Target>) {
    let programs = Arc::new(Programs::default());
    let start = |(device_id, name): (u64, &String)| {
        let config = DataplaneConfig { cpu_port: Some(255), ..DataplaneConfig::default() };
        let dataplane = Dataplane::start(config, None, &[]).expect("a data plane");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = ServerConfig { device_id, programs: Arc::clone(&programs), ..ServerConfig::default() };
        tokio::spawn(serve(dataplane.handle(), server, listener, std::future::pending()));
        (dataplane, Target { name: name.clone(), address, device_id })
    };
    (0..).zip(topology.switches.iter().map(|switch| &switch.name)).map(start).unzip()
}

/// Returns the tasks that install the plan for a topology.
fn tasks(topology: &Topology, targets: &[Target], program: &Arc<Program>) -> Vec<SwitchTask> {
    let routes = routes(topology, RoutingMethod::Auto).expect("routes");
    let mut desired_states =
        desired_states(topology, &routes, &PlanOptions::default(), &program.index).expect("a plan");
    let task = |target: &Target| {
        let desired = desired_states.remove(&target.name).expect("every switch has one");
        SwitchTask { target: target.clone(), program: Arc::clone(program), desired }
    };
    targets.iter().map(task).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fat_tree_of_80_switches_is_installed_in_seconds() {
    let topology = build(&serde_yaml::from_str("{kind: fat-tree, k: 8}").expect("YAML")).expect("a fabric");
    let (_dataplanes, targets) = start(&topology);
    let tasks = tasks(&topology, &targets, &program());
    let entity_count: usize = tasks.iter().map(|task| task.desired.len()).sum();

    let start = Instant::now();
    let outcomes = apply(tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await;
    let elapsed = start.elapsed();
    let applied: Vec<_> =
        outcomes.into_iter().map(|(name, it)| it.unwrap_or_else(|e| panic!("{name}: {e}"))).collect();
    assert_eq!((applied.len(), applied.iter().filter(|it| it.pushed).count()), (80, 80));
    assert_eq!(applied.iter().map(|it| it.inserted + it.modified).sum::<usize>(), entity_count);
    assert!(elapsed < LIMIT, "{elapsed:?}");
    eprintln!("80 switches, {entity_count} entities: {elapsed:?}");

    // Immediately again with the same election id: the switches must have noticed that the previous streams are closed.
    for _ in 0..3 {
        for (name, it) in apply(tasks.clone(), ClientOptions::default(), OnFailure::WriteNone).await {
            let it = it.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!((it.pushed, it.inserted, it.modified, it.deleted), (false, 0, 0, 0), "{name}");
        }
    }
}

/// Two plans for a ring of five switches: `a` without the link between s5 and s1, `b` with all links. A mixture of both
/// can loop: s2 sends packets to s5 via s1, and s1 via s2.
struct Ring {
    whole: Topology,
    program: Arc<Program>,
    /// Keeps the switches running.
    _dataplanes: Vec<Dataplane>,
    a: Vec<SwitchTask>,
    b: Vec<SwitchTask>,
}

impl Ring {
    fn new() -> Ring {
        let program = program();
        let yaml = "{kind: custom, hosts: [h1, h2, h3, h4, h5], switches: [s1, s2, s3, s4, s5], links: \
            [[h1, s1], [h2, s2], [h3, s3], [h4, s4], [h5, s5], \
             [s1, s2], [s2, s3], [s3, s4], [s4, s5], [s5, s1]]}";
        let whole = build(&serde_yaml::from_str(yaml).expect("YAML")).expect("a fabric");
        let (dataplanes, targets) = start(&whole);
        let cut = whole.without_links(&BTreeSet::from([LinkIx(9)]));
        let tasks = |topology: &Topology| tasks(topology, &targets, &program);
        Ring { a: tasks(&cut), b: tasks(&whole), whole, program, _dataplanes: dataplanes }
    }

    /// Reads the routes from the switches.
    async fn read_routes(&self) -> Routes {
        let held = read(self.a.clone(), ClientOptions::default()).await;
        let held = held.into_iter().map(|(name, it)| (name, it.expect("the switch responds"))).collect();
        decode(&self.whole, &held, &self.program.index, &Bmv2).expect("entries of a plan")
    }

    /// Returns the pairs of hosts between which packets loop.
    fn loops(&self, routes: &Routes) -> Vec<(HostIx, HostIx)> {
        let pairs = self.whole.host_ixs().flat_map(|a| self.whole.host_ixs().map(move |b| (a, b)));
        let is_loop = |&(a, b): &(HostIx, HostIx)| {
            a != b && matches!(routes.path(&self.whole, a, b, PathHash(7)), Err(PathError::Loop(_)))
        };
        pairs.filter(is_loop).collect()
    }
}

async fn apply_all(tasks: &[SwitchTask]) -> ApplySummary {
    let mut all = ApplySummary::default();
    for (name, it) in apply(tasks.to_vec(), ClientOptions::default(), OnFailure::WriteNone).await {
        all += &it.unwrap_or_else(|e| panic!("{name}: {e}"));
    }
    all
}

/// Whichever switch rejects an update, of whichever rank, the other switches are stopped without a loop, and the next
/// `apply` continues.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_that_fails_midway_stops_the_others_without_a_loop() {
    let ring = Ring::new();
    apply_all(&ring.a).await;
    for index in 0..5 {
        for rank in (BASE..BASE + 4).chain([LAST_INSERT]) {
            let mut tasks = ring.b.clone();
            let name = tasks[index].target.name.clone();
            tasks[index].desired.insert(rank, invalid_entry(&ring.program.index));
            let outcomes = apply(tasks, ClientOptions::default(), OnFailure::WriteNone).await;
            let failed: Vec<_> = outcomes.iter().filter(|(_, it)| it.is_err()).map(|it| it.0).collect();
            assert_eq!(failed, [&name], "rank {rank}");
            let left: usize = outcomes.values().flatten().map(|it| it.unwritten).sum();
            assert!(left == 0 || rank != LAST_INSERT, "{name}, rank {rank}: {outcomes:?}");
            assert_eq!(ring.loops(&ring.read_routes().await), [], "{name}, rank {rank}");
            let rest = apply_all(&ring.b).await;
            assert_eq!((rest.unwritten, rest.inserted + rest.modified + rest.deleted >= left), (0, true));
            assert!(verify(&ring.whole, &ring.read_routes().await).is_ok());
            apply_all(&ring.a).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_unless_all_switches_answer() {
    let ring = Ring::new();
    let unused_address =
        TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("bound").to_string();
    let without_s5 = |tasks: &[SwitchTask]| {
        let mut tasks = tasks.to_vec();
        tasks[4].target.address = unused_address.clone();
        tasks
    };
    // The program is not pushed either, because that would clear the tables.
    let outcomes = apply(without_s5(&ring.a), ClientOptions::default(), OnFailure::WriteNone).await;
    assert!(outcomes["s5"].is_err());
    assert!(outcomes.values().flatten().all(|it| !it.pushed && it.inserted == 0 && it.unwritten > 0));
    let held = read(ring.a.clone(), ClientOptions::default()).await;
    assert!(held.values().all(|it| matches!(it, Err(ClientError::OtherProgram))), "{held:?}");

    apply_all(&ring.a).await;
    let before = ring.read_routes().await;
    let outcomes = apply(without_s5(&ring.b), ClientOptions::default(), OnFailure::WriteNone).await;
    assert!(matches!(outcomes["s5"], Err(ClientError::Unreachable { .. })));
    assert_eq!(ring.read_routes().await, before);
    // With `partial` the other switches are written, and packets loop.
    let outcomes = apply(without_s5(&ring.b), ClientOptions::default(), OnFailure::WriteOthers).await;
    assert!(outcomes["s5"].is_err() && outcomes.values().flatten().all(|it| it.unwritten == 0));
    assert_ne!(ring.loops(&ring.read_routes().await), []);
    apply_all(&ring.b).await;
    assert!(verify(&ring.whole, &ring.read_routes().await).is_ok());
}

/// Errors of larger batches would not fit the header in which the switch sends them.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_among_many_updates_names_its_entry() {
    let program = program();
    let topology = build(&serde_yaml::from_str("{kind: star, hosts: 300}").expect("YAML")).expect("a fabric");
    let (_dataplanes, targets) = start(&topology);
    let mut tasks = tasks(&topology, &targets, &program);
    tasks[0].desired.insert(BASE, invalid_entry(&program.index));
    let outcomes = apply(tasks, ClientOptions::default(), OnFailure::WriteNone).await;
    let Some(Err(error @ ClientError::Rejected { rejected, .. })) = outcomes.get("s1") else {
        panic!("{outcomes:?}")
    };
    assert_eq!(rejected.len(), 1);
    assert!(error.to_string().contains("the first: + forward[] -> "), "{error}");
}

/// Returns an entry that the program's table rejects.
fn invalid_entry(index: &Index) -> Entity {
    let table_id = index.tables.named("forward").expect("a table").preamble().id;
    let action = Action { action_id: 1, params: Vec::new() };
    let action = Some(TableAction { r#type: Some(table_action::Type::Action(action)) });
    Entity { entity: Some(Kind::TableEntry(TableEntry { table_id, action, ..TableEntry::default() })) }
}
