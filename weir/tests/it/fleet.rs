//! `apply` to the 80 switches of a fat-tree, all in this process, from connecting to verified.

// What was measured is worth seeing.
#![allow(clippy::print_stderr)]

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_client::fleet::{SwitchTask, apply};
use weir_client::{ClientOptions, Program, Target};
use weir_controller::plan::desired_states;
use weir_controller::topology::build;
use weir_controller::{PlanOptions, RoutingMethod, routes};
use weir_server::p4runtime::{Programs, ServerConfig, serve};
use weir_switch::driver::{Dataplane, DataplaneConfig};

/// For optimised builds; a debug build on a shared machine gets more.
const LIMIT: Duration = if cfg!(debug_assertions) { Duration::from_secs(12) } else { Duration::from_secs(3) };

#[tokio::test(flavor = "multi_thread")]
async fn a_fat_tree_of_80_switches_is_filled_in_seconds() {
    let build_dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build");
    let text = |name: &str| std::fs::read_to_string(build_dir.join(name)).expect("a committed artifact");
    let p4info = p4runtime::p4info::parse(&text("fncc.p4info.txtpb")).expect("P4Info");
    let program = Arc::new(Program::new(p4info, text("fncc.json").into_bytes()).expect("a program"));
    let topology = build(&serde_yaml::from_str("{kind: fat-tree, k: 8}").expect("YAML")).expect("a fabric");
    let routes = routes(&topology, RoutingMethod::Auto).expect("routes");
    let mut goals =
        desired_states(&topology, &routes, &PlanOptions::default(), &program.index).expect("a plan");

    let (mut dataplanes, mut tasks) = (Vec::new(), Vec::new());
    let programs = Arc::new(Programs::default());
    for (device_id, switch) in (0..).zip(&topology.switches) {
        let config = DataplaneConfig { cpu_port: Some(255), ..DataplaneConfig::default() };
        let dataplane = Dataplane::start(config, None, &[]).expect("a data plane");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound").to_string();
        let server = ServerConfig { device_id, programs: Arc::clone(&programs), ..ServerConfig::default() };
        tokio::spawn(serve(dataplane.handle(), server, listener, std::future::pending()));
        dataplanes.push(dataplane);
        let target = Target { name: switch.name.clone(), address, device_id };
        let goal = goals.remove(&switch.name).expect("every switch has one");
        tasks.push(SwitchTask { target, program: Arc::clone(&program), goal });
    }
    let wanted: usize = tasks.iter().map(|task| task.goal.len()).sum();

    let start = Instant::now();
    let outcomes = apply(tasks.clone(), ClientOptions::default()).await;
    let took = start.elapsed();
    let applied: Vec<_> =
        outcomes.into_iter().map(|(name, it)| it.unwrap_or_else(|e| panic!("{name}: {e}"))).collect();
    assert_eq!((applied.len(), applied.iter().filter(|it| it.pushed).count()), (80, 80));
    assert_eq!(applied.iter().map(|it| it.inserted + it.modified).sum::<usize>(), wanted);
    assert!(took < LIMIT, "{took:?}");
    eprintln!("80 switches, {wanted} entities: {took:?}");

    // At once, with the same election id: the streams before must be known to have ended.
    for _ in 0..3 {
        for (name, it) in apply(tasks.clone(), ClientOptions::default()).await {
            let it = it.unwrap_or_else(|e| panic!("{name}: {e}"));
            assert_eq!((it.pushed, it.inserted, it.modified, it.deleted), (false, 0, 0, 0), "{name}");
        }
    }
}
