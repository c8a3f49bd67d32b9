//! Compares the compiled engine with the interpreter: both process the same packets in the same order with the
//! same tables.

use crate::packet::Packet;
use crate::pipeline::{
    ActionCall, EgressMeta, EgressVerdict, Engine, IngressMeta, IngressVerdict, KeyMatch, NoTrace, Pipeline,
    SideEffects, Tracer,
};
use crate::program::{MatchKind, Program};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Packets per program; the environment variable `WEIR_DIFFERENTIAL_PACKETS` overrides it.
const PACKETS: u64 = 10_000;
/// Number of packets after which the tables get other entries.
const PACKETS_PER_TABLE_FILL: u64 = 100;
/// Maximum number of pipeline runs for one packet with its clones, resubmissions and recirculations.
const MAX_RUNS: usize = 6;

/// Returns the programs of the project and its tests, or those in the folder `WEIR_DIFFERENTIAL_PROGRAMS`.
fn programs() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders =
        ["tests/data", "tests/programs", "../p4src/build"].map(|folder| root.join(folder)).to_vec();
    if let Some(dir) = extra_programs_dir() {
        folders = vec![dir];
    }
    let mut programs = Vec::new();
    for dir in folders {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let paths = entries.map(|entry| entry.path());
        programs.extend(paths.filter(|path| {
            path.extension().is_some_and(|extension| extension == "json") && !path.ends_with("manifest.json")
        }));
    }
    programs.sort();
    programs
}

fn extra_programs_dir() -> Option<PathBuf> {
    std::env::var_os("WEIR_DIFFERENTIAL_PROGRAMS").map(PathBuf::from)
}

struct Random(Pcg64Mcg);

/// A frame to process.
struct TestFrame {
    bytes: Vec<u8>,
    /// Length of the virtual tail.
    virtual_len: u32,
}

/// The metadata with which a packet runs ingress and egress.
#[derive(Clone, Copy)]
struct TestMeta {
    ingress: IngressMeta,
    /// The port is replaced by that of the ingress verdict.
    egress: EgressMeta,
}

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
    fn value(&mut self, bits: u32) -> Vec<u8> {
        let random = self.0.next_u64();
        let value = if bits < 64 { random & ((1 << bits) - 1) } else { random };
        value.to_be_bytes().to_vec()
    }
}

/// Addresses used in both entries and frames, so that entries match.
const ADDRESSES: [[u8; 4]; 4] = [[10, 0, 0, 1], [10, 0, 1, 2], [10, 0, 2, 3], [239, 87, 1, 9]];

/// Replaces the entries of each table by random ones, the same in all pipelines.
fn fill_tables(pipelines: &mut [Pipeline], random: &mut Random) {
    let program = Arc::clone(pipelines[0].program());
    for (id, table) in program.tables() {
        for pipeline in &mut *pipelines {
            for entry in pipeline.table_entries(id) {
                // Fails for const entries, which stay.
                let _ = pipeline.table_delete(id, entry.handle);
            }
        }
        for _ in 0..8 {
            let action = table.actions[random.below(table.actions.len() as u64) as usize];
            let info = &program.actions[action];
            let args: Vec<_> = info
                .params
                .iter()
                .map(|(_, bits)| {
                    // Small values are valid ports and indices.
                    let bits = if *bits > 3 && random.one_in(2) { 3 } else { *bits };
                    random.value(bits)
                })
                .collect();
            let call = ActionCall::Action { action, args };
            let key: Vec<_> = table
                .key
                .iter()
                .map(|key| match key.kind {
                    MatchKind::Exact if key.bits == 32 => {
                        KeyMatch::Exact(ADDRESSES[random.below(4) as usize].to_vec())
                    }
                    MatchKind::Lpm if key.bits == 32 => {
                        KeyMatch::Lpm { value: ADDRESSES[random.below(4) as usize].to_vec(), prefix_len: 32 }
                    }
                    MatchKind::Exact => KeyMatch::Exact(random.value(key.bits.min(3))),
                    _ => KeyMatch::Any,
                })
                .collect();
            let set_default = random.one_in(2);
            for pipeline in &mut *pipelines {
                let call = match &table.profile {
                    Some(profile) => {
                        pipeline.member_add(profile, &call).map_or(call.clone(), ActionCall::Member)
                    }
                    None => call.clone(),
                };
                // Entries that do not fit the table are rejected by all pipelines.
                let _ = pipeline.table_add(id, &key, 1, &call);
                if set_default {
                    let _ = pipeline.table_set_default(id, &call);
                }
            }
        }
    }
}

/// Returns a random frame. Most frames have Ethernet, IPv4 and UDP headers and
/// often a Weir header, some of them with errors; one in eight is all random bytes.
fn random_frame(random: &mut Random) -> TestFrame {
    let mut bytes: Vec<u8> = (0..random.below(160)).map(|_| random.below(256) as u8).collect();
    let virtual_len = if random.one_in(4) { 0 } else { random.below(1400) as u32 };
    if random.one_in(8) {
        if let Some(tag) = bytes.first_mut() {
            *tag = random.below(26) as u8;
        }
        return TestFrame { bytes, virtual_len };
    }
    // Ethernet (0 to 13), IPv4 (14 to 33: length 16, TTL 22, protocol 23, checksum 24, addresses 26 and 30), UDP (34 to
    // 41: destination port 36, length 38), Weir (from 42).
    bytes.resize(bytes.len().max(66), 0);
    bytes[12..15].copy_from_slice(&[8, 0, 0x45]);
    let ip_len = (bytes.len() as u32 - 14 + virtual_len) as u16;
    bytes[16..18].copy_from_slice(&ip_len.to_be_bytes());
    bytes[20..22].fill(0);
    bytes[22] = 1 + random.below(64) as u8;
    bytes[23] = if random.one_in(8) { 6 } else { 17 };
    for offset in [26, 30] {
        bytes[offset..offset + 4].copy_from_slice(&ADDRESSES[random.below(4) as usize]);
    }
    bytes[36..38].copy_from_slice(&22341u16.to_be_bytes());
    bytes[38..40].copy_from_slice(&(ip_len.wrapping_sub(20)).to_be_bytes());
    bytes[42] = 0x10 | random.below(12) as u8;
    if random.one_in(2) {
        bytes[43] = 4;
    }
    if random.one_in(8) {
        let index = random.below(bytes.len() as u64) as usize;
        bytes[index] ^= 1 << random.below(8);
    }
    bytes[24..26].fill(0);
    let sum = crate::pipeline::hash::internet_checksum(&bytes[14..34]);
    bytes[24..26].copy_from_slice(&sum.to_be_bytes());
    if random.one_in(16) {
        bytes[24] ^= 1;
    }
    TestFrame { bytes, virtual_len }
}

/// A tracer that records log messages. Traced packets are always interpreted.
#[derive(Default)]
struct LogTracer(Vec<String>);

impl Tracer for LogTracer {
    fn log(&mut self, _program: &Program, message: &str) {
        self.0.push(message.to_owned());
    }
}

/// Processes a packet and its clones. Returns their verdicts and contents, and the digests.
fn run<I: Tracer, E: Tracer>(
    pipeline: &mut Pipeline,
    frame: &TestFrame,
    meta: TestMeta,
    (ingress_tracer, egress_tracer): (&mut I, &mut E),
) -> Vec<String> {
    let (mut effects, mut log) = (SideEffects::default(), Vec::new());
    let mut packet = Packet::from_bytes(&frame.bytes);
    packet.set_virtual_len(frame.virtual_len);
    // Packets that still have to run, and whether they are clones, which start at egress.
    let mut pending = vec![(packet, false)];
    for _ in 0..MAX_RUNS {
        let Some((mut packet, is_clone)) = pending.pop() else { break };
        let port = match is_clone {
            // Any port will do for a clone, and for a copy of a multicast group below.
            true => 3,
            false => {
                let verdict =
                    pipeline.ingress_traced(&mut packet, meta.ingress, &mut effects, ingress_tracer);
                log.push(format!("{verdict:?} {packet:?}"));
                match verdict {
                    IngressVerdict::Drop | IngressVerdict::Abort(_) => continue,
                    IngressVerdict::Resubmit => {
                        pending.push((packet, false));
                        continue;
                    }
                    IngressVerdict::Unicast { port, .. } => port,
                    IngressVerdict::Multicast { group, .. } => group & 7,
                }
            }
        };
        let verdict = pipeline.egress_traced(
            &mut packet,
            EgressMeta { port, ..meta.egress },
            &mut effects,
            egress_tracer,
        );
        log.push(format!("{verdict:?} {packet:?}"));
        if verdict == EgressVerdict::Recirculate {
            pending.push((packet, false));
        }
        pending.extend(effects.clones.drain(..).map(|clone| (clone.packet, true)));
        log.extend(effects.digests.drain(..).map(|digest| format!("{digest:?}")));
    }
    log
}

/// The project's programs have machine code on hosts that support it, so the next test does not compare the
/// interpreter with itself.
#[test]
#[cfg(all(target_arch = "x86_64", unix))]
fn programs_have_machine_code() {
    for path in
        programs().into_iter().filter(|path| path.parent().is_some_and(|dir| dir.ends_with("p4src/build")))
    {
        let text = std::fs::read_to_string(&path).expect("a program");
        let program = Program::from_json(&text).expect("a program");
        Pipeline::new(Arc::clone(&program), 1);
        assert!(program.native().is_some(), "{}", path.display());
    }
}

#[test]
fn both_engines_process_random_packets_equally() {
    let packets = std::env::var("WEIR_DIFFERENTIAL_PACKETS").ok().and_then(|count| count.parse().ok());
    for path in programs() {
        let text = std::fs::read_to_string(&path).expect("a program");
        let program = match Program::from_json(&text) {
            // Programs of others may be for another architecture than v1model.
            Err(_) if extra_programs_dir().is_some() => continue,
            result => result.unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        };
        let mut random = Random(Pcg64Mcg::seed_from_u64(7));
        let mut pipelines = [Arc::clone(&program), program].map(|program| Pipeline::new(program, 1));
        pipelines[1].set_engine(Engine::Interpreter);
        let mut sent_packets = 0;
        for number in 0..packets.unwrap_or(PACKETS) {
            if number % PACKETS_PER_TABLE_FILL == 0 {
                fill_tables(&mut pipelines, &mut random);
            }
            let frame = random_frame(&mut random);
            let meta = TestMeta {
                ingress: IngressMeta { port: random.below(8) as u16, now: number * 100 },
                egress: EgressMeta {
                    now: number * 100 + 50,
                    enq_qdepth: random.below(3) as u32,
                    deq_qdepth: random.below(3) as u32,
                    deq_timedelta: random.below(1000),
                    qid: random.below(8) as u8,
                    ..EgressMeta::default()
                },
            };
            let [compiled, interpreter] = &mut pipelines;
            // A trace may begin when the packet is between ingress and egress.
            let run_traced = |pipeline: &mut Pipeline| {
                let mut tracer = LogTracer::default();
                let steps = match number % 4 {
                    0 => run(pipeline, &frame, meta, (&mut NoTrace, &mut tracer)),
                    1 => run(pipeline, &frame, meta, (&mut tracer, &mut NoTrace)),
                    _ => run(pipeline, &frame, meta, (&mut NoTrace, &mut NoTrace)),
                };
                (steps, tracer.0)
            };
            let (actual, expected) = (run_traced(compiled), run_traced(interpreter));
            assert_eq!(actual, expected, "{}, packet {number}: {:02x?}", path.display(), frame.bytes);
            sent_packets += u32::from(expected.0.iter().any(|step| step.starts_with("Send")));
        }
        let [compiled, interpreter] = pipelines.each_ref().map(|pipeline| &pipeline.state);
        assert_eq!(compiled.registers, interpreter.registers, "{}", path.display());
        assert_eq!(compiled.counters, interpreter.counters, "{}", path.display());
        assert_eq!(compiled.failed_assertions, interpreter.failed_assertions);
        for (one, other) in compiled.tables.iter().zip(interpreter.tables.iter()) {
            assert_eq!(one.extras.counters, other.extras.counters, "{}", path.display());
            assert_eq!(one.extras.last_hit, other.extras.last_hit, "{}", path.display());
        }
        assert!(sent_packets > 0 || extra_programs_dir().is_some(), "{} sent no packet", path.display());
    }
}
