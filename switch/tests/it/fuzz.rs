//! Property tests: no frame and no program makes the pipeline or the loader panic or run without bound.

use crate::one_packet::run;
use proptest::prelude::*;
use serde_json::Value;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use weir_switch::pipeline::{ActionCall, KeyMatch, SideEffects};
use weir_switch::program::{Engine, MatchKind};
use weir_switch::{PacketPool, Pipeline, Program};

/// The programs of the project and of these tests, as text.
fn programs() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut programs = Vec::new();
    for dir in ["tests/data", "../p4src/build"] {
        for entry in std::fs::read_dir(root.join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|kind| kind == "json") && !path.ends_with("manifest.json") {
                programs.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
            }
        }
    }
    programs.sort();
    programs
}

/// Adds random entries to every table, so that actions run.
fn fill(pipeline: &mut Pipeline, seed: u64) {
    let program: Arc<Program> = pipeline.program().clone();
    let mut state = seed;
    let mut next = |bits: u32| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let low = if bits < 64 { (state >> 33) & ((1 << bits) - 1) } else { state };
        low.to_be_bytes().to_vec()
    };
    for (id, table) in program.tables() {
        for &action in &table.actions {
            let info = program.actions().nth(usize::from(action.0)).unwrap().1;
            let args: Vec<_> = info.params.iter().map(|(_, bits)| next(*bits)).collect();
            let call = ActionCall::Action { action, args };
            let call = match &table.profile {
                Some(profile) => pipeline.member_add(profile, &call).map(ActionCall::Member).unwrap_or(call),
                None => call,
            };
            let key: Vec<_> = table
                .key
                .iter()
                .map(|key| match key.kind {
                    MatchKind::Exact => KeyMatch::Exact(next(key.bits.min(2))),
                    _ => KeyMatch::Any,
                })
                .collect();
            // Entries that a table rejects are skipped.
            let _ = pipeline.table_add(id, &key, 1, &call);
            let _ = pipeline.table_set_default(id, &call);
        }
    }
}

/// Random bytes, some of which start with headers that the parsers accept.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ipv4 = prop::collection::vec(any::<u8>(), 0..80).prop_map(|rest| {
        let head = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17];
        [&head[..], &rest].concat()
    });
    let tagged = (0u8..26, prop::collection::vec(any::<u8>(), 0..80))
        .prop_map(|(tag, rest)| [&[tag][..], &rest].concat());
    prop_oneof![prop::collection::vec(any::<u8>(), 0..200), ipv4, tagged]
}

fn run_frames(program: &Arc<Program>, seed: u64, frames: &[Vec<u8>], virtual_len: u32) {
    let (mut pipeline, mut effects) = (Pipeline::new(program.clone(), seed), SideEffects::default());
    fill(&mut pipeline, seed);
    let mut pool = PacketPool::new();
    for bytes in frames {
        let mut packet = pool.get();
        packet.set_bytes(bytes);
        packet.set_virtual_len(virtual_len);
        run(&mut pipeline, &mut packet, &mut effects);
        pool.put(packet);
        for clone in std::mem::take(&mut effects.clones) {
            let mut packet = clone.packet;
            pipeline.egress(&mut packet, Default::default(), &mut effects);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_frame_panics(frames in prop::collection::vec(frame(), 1..20), seed: u64, virtual_len in 0u32..2000) {
        // Each program is loaded once, because compiling it takes longer than running the frames.
        static LOADED: LazyLock<Vec<Arc<Program>>> = LazyLock::new(|| {
            let load = |(name, text): (String, String)| {
                Program::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
            };
            programs().into_iter().map(load).collect()
        });
        for program in &*LOADED {
            run_frames(program, seed, &frames, virtual_len);
        }
    }

    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        prop_assert!(Program::from_json(&text).is_err());
    }
}

/// Changes a random place in the JSON. `choose(n)` returns a number below `n`.
fn mutate(value: &mut Value, choose: &mut impl FnMut(usize) -> usize) {
    let replacement = |choose: &mut dyn FnMut(usize) -> usize, old: &Value| match choose(10) {
        0 => Value::Null,
        1 => Value::from(-1),
        2 => Value::from(choose(70)),
        3 => Value::from(u64::MAX),
        4 => Value::from("0x0"),
        5 => Value::from(format!("0x{:x}", choose(1 << 30))),
        6 => Value::Array(vec![old.clone(), old.clone()]),
        7 => Value::Bool(choose(2) == 0),
        8 => Value::Array(Vec::new()),
        _ => Value::from("scalars"),
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            let index = choose(items.len());
            match choose(24) {
                0 => _ = items.remove(index),
                1 => items.push(items[index].clone()),
                2 => {
                    let other = choose(items.len());
                    items.swap(index, other);
                }
                3 => items[index] = replacement(choose, &items[index]),
                _ => mutate(&mut items[index], choose),
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let Some(key) = members.keys().nth(choose(members.len())).cloned() else { return };
            match choose(24) {
                0 => _ = members.remove(&key),
                1 => members[&key] = replacement(choose, &members[&key]),
                _ => mutate(&mut members[&key], choose),
            }
        }
        // A number close to the old one is most likely to pass the checks.
        Value::Number(number) => {
            let near = number.as_u64().unwrap_or(0).wrapping_add(choose(4) as u64);
            *value =
                if choose(3) == 0 { replacement(choose, value) } else { Value::from(near.wrapping_sub(1)) };
        }
        _ => *value = replacement(choose, value),
    }
}

/// One in this many changed programs is compiled to machine code.
const COMPILE_ONE_IN: usize = 32;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// A malformed program is rejected, or runs.
    #[test]
    fn no_mutation_panics(
        choices in prop::collection::vec(any::<u32>(), 400), mutations in 1usize..6,
        frames in prop::collection::vec(frame(), 4), seed: u64,
    ) {
        static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
            programs().iter().map(|(_, text)| serde_json::from_str(text).unwrap()).collect()
        });
        let mut choices = choices.into_iter().cycle();
        let mut choose = |below: usize| choices.next().unwrap_or(0) as usize % below.max(1);
        for program in &*PARSED {
            let mut value = program.clone();
            for _ in 0..mutations {
                mutate(&mut value, &mut choose);
            }
            let engine = if choose(COMPILE_ONE_IN) == 0 { Engine::Compiled } else { Engine::Interpreter };
            if let Ok(program) = Program::load(&value.to_string(), engine) {
                run_frames(&program, seed, &frames, 10);
            }
        }
    }
}
