//! Measures the time per packet through ingress and egress of each program in `p4src/build`: for a DATA packet of
//! 1518 bytes and an ACK, both forwarded through an ECMP group.

use criterion::{Criterion, criterion_group, criterion_main};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use weir_switch::pipeline::{
    ActionCall, EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, KeyMatch, SideEffects,
};
use weir_switch::program::TableId;
use weir_switch::{PacketPool, Pipeline, Program};

const DATA: u8 = 0;
const ACK: u8 = 1;
const TELEMETRY: u8 = 0x04;
/// Payload bytes of a full frame, after Ethernet, IPv4, UDP and Weir headers of 66 bytes.
const FULL_PAYLOAD: u32 = 1518 - 66;
const HEADERS_LEN: usize = 66;
const WEIR_PORT: u16 = 22341;
const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 1, 2];
/// The code for 100 Gbit/s in a telemetry record.
const RATE_100G: u8 = 12;

/// Returns Ethernet, IPv4, UDP and Weir headers for a payload of this length.
fn headers(kind: u8, payload: u32) -> [u8; HEADERS_LEN] {
    let mut headers = [0; HEADERS_LEN];
    let mut put = |offset: usize, bytes: &[u8]| headers[offset..offset + bytes.len()].copy_from_slice(bytes);
    let length = |from: usize| ((HEADERS_LEN - from) as u32 + payload) as u16;
    put(0, &[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x08, 0x00, 0x45, 0x02]);
    put(16, &length(14).to_be_bytes());
    put(22, &[64, 17]);
    put(26, &SOURCE);
    put(30, &DESTINATION);
    put(34, &4711u16.to_be_bytes());
    put(36, &WEIR_PORT.to_be_bytes());
    put(38, &length(34).to_be_bytes());
    let flags = if kind == DATA { TELEMETRY } else { 0 };
    put(42, &[0x10 | kind, flags]);
    put(50, &7u32.to_be_bytes());
    let sum: u32 =
        (14..34).step_by(2).map(|at| u32::from(u16::from_be_bytes([headers[at], headers[at + 1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    headers[24..26].copy_from_slice(&(!(folded as u16)).to_be_bytes());
    headers
}

/// Returns a call of an action of a table.
fn call<const N: usize>(pipeline: &Pipeline, table: TableId, name: &str, args: [Vec<u8>; N]) -> ActionCall {
    ActionCall::action(pipeline.action_by_name(table, name).expect("an action of the table"), args)
}

/// Adds three routes through an ECMP group of four ports, and the other entries that the programs need.
fn configure(pipeline: &mut Pipeline) {
    let bytes = |value: u32| value.to_be_bytes().to_vec();
    let table = |pipeline: &Pipeline, name: &str| pipeline.table_by_name(name).expect("a Weir program");
    let exact = |value: u32| KeyMatch::Exact(bytes(value));
    let forward = table(pipeline, "forward");
    for (prefix, len) in [([10, 0, 1, 0], 24), ([10, 0, 2, 0], 24), ([10, 0, 0, 0], 8)] {
        let key = KeyMatch::Lpm { value: prefix.to_vec(), prefix_len: len };
        let spread = call(pipeline, forward, "spread", [bytes(1), bytes(4), bytes(0)]);
        pipeline.table_add(forward, &[key], 0, &spread).expect("a route");
    }
    let member = table(pipeline, "member");
    for index in 0..4 {
        let port = call(pipeline, member, "member_port", [bytes(index + 1)]);
        pipeline.table_add(member, &[exact(1), exact(index)], 0, &port).expect("a member");
    }
    let class = table(pipeline, "traffic_class");
    let classify = call(pipeline, class, "classify", [bytes(7)]);
    pipeline.table_add(class, &[exact(u32::from(ACK)), exact(0)], 0, &classify).expect("a class");
    let profile = table(pipeline, "port_profile");
    for port in 0..8 {
        let values = [u32::from(RATE_100G), 100_000, 400_000, 0x100, 1].map(bytes);
        let values = call(pipeline, profile, "profile", values);
        pipeline.table_add(profile, &[exact(port)], 0, &values).expect("a profile");
    }
    let identity = table(pipeline, "switch_identity");
    let identify = call(pipeline, identity, "identify", [bytes(5)]);
    pipeline.table_set_default(identity, &identify).expect("an identity");
}

fn programs() -> Vec<PathBuf> {
    let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("../p4src/build");
    let entries = std::fs::read_dir(build).expect("p4src/build").flatten().map(|entry| entry.path());
    let is_program = |path: &PathBuf| {
        path.extension().is_some_and(|extension| extension == "json") && !path.ends_with("manifest.json")
    };
    let mut programs: Vec<PathBuf> = entries.filter(is_program).collect();
    programs.sort();
    programs
}

fn pipeline(c: &mut Criterion) {
    for path in programs() {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path).expect("a program");
        let program = Program::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (kind, label, payload) in [(DATA, "DATA", FULL_PAYLOAD), (ACK, "ACK", 0)] {
            let mut pipeline = Pipeline::new(program.clone(), 1);
            configure(&mut pipeline);
            let (frame, mut effects, mut packet, mut now) =
                (headers(kind, payload), SideEffects::default(), PacketPool::new().get(), 0);
            let mut step = || {
                now += 120;
                packet.set_bytes(&frame);
                packet.set_virtual_len(payload);
                let verdict = pipeline.ingress(&mut packet, IngressMeta { port: 5, now }, &mut effects);
                let IngressVerdict::Unicast { port, .. } = verdict else { panic!("{name}: {verdict:?}") };
                let meta = EgressMeta { port, now: now + 60, enq_timestamp: now, ..EgressMeta::default() };
                assert_eq!(pipeline.egress(&mut packet, meta, &mut effects), EgressVerdict::Send);
                black_box(packet.bytes().len())
            };
            step();
            c.bench_function(&format!("{name}/{label}"), |b| b.iter(&mut step));
        }
    }
}

criterion_group!(benches, pipeline);
criterion_main!(benches);
