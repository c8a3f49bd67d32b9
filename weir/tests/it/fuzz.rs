//! Fuzz targets: no external input may cause a panic or an endless loop.
//!
//! Each target edits valid inputs. `cargo test` runs the inputs themselves, the edits found by coverage-guided fuzzing
//! (`__fuzz__/`) and some hundred random edits; `make soak` runs as many as its time allows
//! (`BOLERO_RANDOM_ITERATIONS`,
//! `BOLERO_RANDOM_TEST_TIME_MS`); `.ci/fuzz TARGET SECONDS` is guided by coverage. Add an input that has failed to
//! `corpus/TARGET/`, reduced to the relevant part.

use p4runtime::p4::config::v1::P4Info;
use p4runtime::p4::v1::{Update, WriteRequest};
use p4runtime::p4info::Index;
use p4runtime::received::Received;
use prost::Message;
use prost::bytes::Bytes as Encoded;
use std::cell::RefCell;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_controller::{PlanOptions, RoutingMethod, plan, routes};
use weir_experiment::Experiment;
use weir_host::policy::{Policy, PolicyConfig, PolicyKey, PolicyNode};
use weir_host::schemes::Registry;
use weir_host::wire::MAX_HEADER_LEN;
use weir_host::{FlowSpec, Host, HostConfig, Transmit};
use weir_server::thrift::{ThriftConfig, ThriftServer};
use weir_switch::control::Control;
use weir_switch::driver::{Dataplane, DataplaneConfig};
use weir_switch::pipeline::Digest;
use weir_switch::tm::PauseQuanta;
use weir_switch::{Packet, Program, Switch, SwitchConfig, SwitchOutput, stf};
use weir_units::{Bandwidth, Bytes, Time};

/// Default number of random edits.
const ITERATIONS: usize = 300;

/// The index of an input, the bytes to change, the position of a cut, and the bytes to add.
type Edits = (u8, Vec<(u16, u8)>, Option<u16>, Vec<u8>);

fn apply_edits(bases: &[Vec<u8>], (base, changes, cut, tail): &Edits) -> Vec<u8> {
    let mut bytes = bases[usize::from(*base) % bases.len()].clone();
    for (index, byte) in changes {
        let len = bytes.len().max(1);
        if let Some(target) = bytes.get_mut(usize::from(*index) % len) {
            *target = *byte;
        }
    }
    if let Some(len) = cut {
        bytes.truncate(usize::from(*len));
    }
    bytes.extend(tail);
    bytes
}

/// Runs a target on its inputs, on its corpus, and on edits of both. This is a macro because bolero derives the name of
/// a target from the function that contains it.
macro_rules! fuzz {
    ($target:literal, $bases:expr, $test:expr) => {
        let mut bases: Vec<Vec<u8>> = $bases;
        bases.extend(files(&format!("weir/tests/it/corpus/{}", $target), ""));
        let (bases, test) = (bases, AssertUnwindSafe(RefCell::new($test)));
        bases.iter().for_each(|base| (test.borrow_mut())(base));
        bolero::check!().with_iterations(ITERATIONS).with_type::<Edits>().for_each(|edits| {
            let test = &test;
            (test.borrow_mut())(&apply_edits(&bases, edits));
        });
    };
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the contents of a directory's files whose names have this ending, sorted by name.
fn files(dir: &str, ending: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(root().join(dir)).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| path.to_string_lossy().ends_with(ending));
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

struct NullOutput;

impl SwitchOutput for NullOutput {
    fn ready(&mut self, _: u16) {}
    fn pause(&mut self, _: u16, _: u8, _: PauseQuanta) {}
    fn recycle(&mut self, _: Box<Packet>) {}
    fn digest(&mut self, _: Digest) {}
}

/// Returns a switch with a program of the repository and the routes of a small fabric, its control, and the updates
/// that wrote the routes.
fn switch(program: &str) -> (Switch, Control, Vec<Update>) {
    let read =
        |ending: &str| fs::read_to_string(root().join(format!("p4src/build/{program}.{ending}"))).unwrap();
    let index = Arc::new(Index::from_text(&read("p4info.txtpb")).unwrap());
    let program = Program::from_json(&read("json")).unwrap();
    let mut switch = Switch::new(program, SwitchConfig::new(0..8), 1).unwrap();
    let mut control = Control::new(Arc::clone(&index), &switch).unwrap();
    let spec = "{kind: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2}";
    let topology = weir_controller::build(&serde_yaml::from_str(spec).unwrap()).unwrap();
    let routes = routes(&topology, RoutingMethod::Ecmp).unwrap();
    let updates = plan(&topology, &routes, &PlanOptions::default(), &index).unwrap().remove("s1").unwrap();
    control.apply_all(&mut switch, &updates).unwrap();
    (switch, control, updates)
}

fn host(addr: [u8; 4]) -> Host {
    let scheme = Registry::builtin().make::<&str, &str>("fncc", &[]).unwrap();
    let mut config = HostConfig::new(addr.into(), Bandwidth::from_gbps(100), Time::from_us(10), scheme);
    config.policy = Some(policy());
    Host::new(config).unwrap()
}

fn policy() -> PolicyConfig {
    PolicyConfig::new(PolicyKey::new(b"what all of them know").unwrap(), 1, Time::from_us(10))
}

/// Returns the next frame that a host sends, if any.
fn transmit_frame(host: &mut Host, now: Time) -> Option<Vec<u8>> {
    let mut head = vec![0; MAX_HEADER_LEN];
    match host.transmit(now, 0, &mut head) {
        Transmit::Frame { head_len, payload, .. } => {
            head.truncate(head_len);
            head.resize(head_len + payload as usize, 0);
            Some(head)
        }
        _ => None,
    }
}

/// Returns a host with an active flow, and frames to it or its peer: DATA, ACK and POLICY.
fn host_and_frames() -> (Host, Vec<Vec<u8>>) {
    let (mut a, mut b) = (host([10, 0, 1, 1]), host([10, 0, 2, 1]));
    let spec = FlowSpec {
        peer: Ipv4Addr::new(10, 0, 2, 1),
        next_hop_mac: [2, 0, 10, 0, 2, 1],
        entropy_port: 50_000,
        size: Some(Bytes::new(1_000_000)),
        message: 7,
    };
    a.open(Time::ZERO, spec).unwrap();
    let data = transmit_frame(&mut a, Time::ZERO).unwrap();
    b.receive(Time::from_us(5), &data, 0);
    let ack = transmit_frame(&mut b, Time::from_us(5)).unwrap();
    let mut node = PolicyNode::new(&policy(), Ipv4Addr::new(10, 0, 1, 1), usize::MAX);
    let payload = policy_packet(&mut node);
    let mut frame = data[..42].to_vec();
    frame.extend(payload);
    (a, vec![data, ack, frame])
}

/// Sets a policy at a node, and returns the next packet that it sends.
fn policy_packet(node: &mut PolicyNode) -> Vec<u8> {
    let policy = Policy::of(&*Registry::builtin().make("hpcc", &[("eta", "0.9")]).unwrap());
    node.set(Time::ZERO, policy).unwrap();
    let mut bytes = Vec::new();
    while bytes.is_empty() {
        let now = node.next_wakeup();
        node.wakeup(now);
        node.transmit(now, &mut bytes);
    }
    bytes
}

#[test]
fn frames_into_every_program() {
    let programs = ["dart", "ecn", "fncc", "hpcc", "hpcc_plus", "rcp", "rocc", "weir", "xpass"];
    let mut switches: Vec<Switch> = programs.iter().map(|name| switch(name).0).collect();
    let mut now = Time::ZERO;
    fuzz!("frames", host_and_frames().1, |frame: &[u8]| {
        now += Time::from_ns(500);
        for switch in &mut switches {
            let port = u16::from(frame.last().copied().unwrap_or(0) % 8);
            switch.receive(now, port, Packet::from_bytes(frame), &mut NullOutput);
            (0..8).for_each(|port| while switch.transmit(now, port, &mut NullOutput).is_some() {});
            assert!(switch.counters().is_balanced(), "{:?}", switch.counters());
        }
    });
}

#[test]
fn frames_into_a_host() {
    let (mut host, frames) = host_and_frames();
    let mut now = Time::from_us(10);
    fuzz!("frames", frames, |frame: &[u8]| {
        now += Time::from_us(1);
        host.receive(now, frame, 0);
        host.wakeup(now);
        for _ in 0..64 {
            let Some(frame) = transmit_frame(&mut host, now) else { break };
            assert!(frame.len() <= 1_600);
        }
        while host.poll_event().is_some() {}
    });
}

#[test]
fn bmv2_json() {
    fuzz!("bmv2_json", files("switch/tests/data", "tables.json"), |bytes: &[u8]| {
        let Ok(program) = Program::from_json(&String::from_utf8_lossy(bytes)) else { return };
        let Ok(mut switch) = Switch::new(program, SwitchConfig::new(0..4), 1) else { return };
        switch.receive(Time::ZERO, 1, Packet::from_bytes(&bytes[..bytes.len().min(100)]), &mut NullOutput);
        (0..4).for_each(|port| while switch.transmit(Time::ZERO, port, &mut NullOutput).is_some() {});
    });
}

#[test]
fn p4info() {
    fuzz!("p4info", files("switch/tests/programs", "p4info.txtpb"), |bytes: &[u8]| {
        let _ = Index::from_text(&String::from_utf8_lossy(bytes));
        let _ = Received::<P4Info>::new(Encoded::copy_from_slice(bytes)).decode(1 << 20);
    });
}

#[test]
fn p4runtime_messages() {
    let (mut switch, mut control, updates) = switch("fncc");
    let request = |updates: &[Update]| WriteRequest { updates: updates.to_vec(), ..WriteRequest::default() };
    let bases = updates.chunks(3).map(|updates| request(updates).encode_to_vec()).collect();
    fuzz!("p4runtime", bases, |bytes: &[u8]| {
        let received = Received::<WriteRequest>::new(Encoded::copy_from_slice(bytes));
        let Ok(request) = received.decode(1 << 20) else { return };
        for update in &request.updates {
            let _ = control.apply(&mut switch, update);
            let Some(entity) = &update.entity else { continue };
            let _ = control.read(&switch, entity);
        }
        switch.receive(Time::ZERO, 1, Packet::from_bytes(bytes), &mut NullOutput);
    });
}

/// Encodes a call in Thrift's binary protocol, with one argument: context 0.
fn call(method: &str) -> Vec<u8> {
    let head = [0x80, 1, 0, 1].into_iter().chain((method.len() as u32).to_be_bytes());
    let argument = [8, 0, 1, 0, 0, 0, 0, 0];
    head.chain(method.bytes()).chain([0, 0, 0, 1]).chain(argument).collect()
}

#[test]
fn thrift_calls() {
    let config = DataplaneConfig::default();
    let program = fs::read_to_string(root().join("p4src/build/hpcc.json")).unwrap();
    let switch = Switch::new(Program::from_json(&program).unwrap(), config.switch_config(), 1).unwrap();
    let dataplane = Dataplane::start(config, Some(Box::new(switch)), &[]).unwrap();
    let listen = (Ipv4Addr::LOCALHOST, 0).into();
    let config = ThriftConfig {
        listen,
        device_id: 0,
        seed: 1,
        allow_config_swap: true,
        programs: Arc::default(),
        notifications: None,
    };
    let server = ThriftServer::start(dataplane.handle(), &config).unwrap();
    let methods = [
        "bm_get_config",
        "bm_reset_state",
        "bm_load_new_config",
        "bm_swap_configs",
        "bm_mt_get_entries",
        "bm_dev_mgr_show_ports",
    ];
    let bases = methods.iter().map(|name| call(&format!("standard:{name}"))).collect();
    fuzz!("thrift", bases, |bytes: &[u8]| {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        // The server may have closed the connection already.
        let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        let mut answer = Vec::new();
        let result = stream.read_to_end(&mut answer);
        let is_timeout = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(
            !result.is_err_and(|error| is_timeout(&error)),
            "the server neither responds nor closes the connection"
        );
        assert!(dataplane.is_running());
    });
}

#[test]
fn experiment_yaml() {
    fuzz!("experiment", files("experiments", "policy-faults.yaml"), |bytes: &[u8]| {
        let _ = Experiment::parse(&String::from_utf8_lossy(bytes), "fuzz", "fuzz", &[], None);
    });
}

#[test]
fn stf_tests() {
    let program =
        Program::from_json(&fs::read_to_string(root().join("p4src/build/hpcc.json")).unwrap()).unwrap();
    fuzz!("stf", files("p4src/tests/hpcc", ".stf"), |bytes: &[u8]| {
        let _ = stf::run(Arc::clone(&program), &String::from_utf8_lossy(bytes), "fuzz");
    });
}

#[test]
fn policy_packets() {
    let mut node = PolicyNode::new(&policy(), Ipv4Addr::new(10, 0, 2, 1), usize::MAX);
    let valid = policy_packet(&mut PolicyNode::new(&policy(), Ipv4Addr::new(10, 0, 1, 1), usize::MAX));
    let mut version = 0;
    fuzz!("policy", vec![valid.clone()], |bytes: &[u8]| {
        let result = node.on_packet(Time::from_us(1), Ipv4Addr::new(10, 0, 1, 1), bytes);
        assert!(result.is_err() || bytes == valid, "an edited packet was accepted");
        version = node.held().id.version.max(version);
        assert!(version <= 1);
    });
    assert_eq!(version, 1);
}
