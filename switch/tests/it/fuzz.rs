//! Nothing that comes from outside makes the pipeline or the loader panic, or run for ever.

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

/// An entry in every table, so that actions run; what matches is up to the seed.
fn fill(pipeline: &mut Pipeline, seed: u64) {
    let program: Arc<Program> = pipeline.program().clone();
    let mut number = seed;
    let mut next = |bits: u32| {
        number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let low = if bits < 64 { (number >> 33) & ((1 << bits) - 1) } else { number };
        low.to_be_bytes().to_vec()
    };
    for (id, table) in program.tables() {
        for action in &table.actions {
            let info = &program.actions().nth(usize::from(action.0)).unwrap().1;
            let args: Vec<_> = info.params.iter().map(|(_, bits)| next(*bits)).collect();
            let call = ActionCall::Action { name: info.name.clone(), args };
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
            // Tables refuse what does not fit them; that is as good here.
            let _ = pipeline.table_add(id, &key, 1, &call);
            let _ = pipeline.table_set_default(id, &call);
        }
    }
}

/// Bytes that get past the first headers now and then.
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
    let (mut pipeline, mut fx) = (Pipeline::new(program.clone(), seed), SideEffects::default());
    fill(&mut pipeline, seed);
    let mut pool = PacketPool::new();
    for bytes in frames {
        let mut packet = pool.get();
        packet.set_bytes(bytes);
        packet.set_virtual_len(virtual_len);
        run(&mut pipeline, &mut packet, &mut fx);
        pool.put(packet);
        for clone in std::mem::take(&mut fx.clones) {
            let mut packet = clone.packet;
            pipeline.egress(&mut packet, Default::default(), &mut fx);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_frame_panics(frames in prop::collection::vec(frame(), 1..20), seed: u64, virtual_len in 0u32..2000) {
        // Each is loaded once: writing its machine code takes longer than running the frames.
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

/// Puts something else somewhere into the JSON.
fn mutate(value: &mut Value, steer: &mut impl FnMut(usize) -> usize) {
    let replacement = |steer: &mut dyn FnMut(usize) -> usize, old: &Value| match steer(10) {
        0 => Value::Null,
        1 => Value::from(-1),
        2 => Value::from(steer(70)),
        3 => Value::from(u64::MAX),
        4 => Value::from("0x0"),
        5 => Value::from(format!("0x{:x}", steer(1 << 30))),
        6 => Value::Array(vec![old.clone(), old.clone()]),
        7 => Value::Bool(steer(2) == 0),
        8 => Value::Array(Vec::new()),
        _ => Value::from("scalars"),
    };
    match value {
        Value::Array(items) if !items.is_empty() => {
            let at = steer(items.len());
            match steer(24) {
                0 => _ = items.remove(at),
                1 => items.push(items[at].clone()),
                2 => {
                    let other = steer(items.len());
                    items.swap(at, other);
                }
                3 => items[at] = replacement(steer, &items[at]),
                _ => mutate(&mut items[at], steer),
            }
        }
        Value::Object(members) if !members.is_empty() => {
            let Some(key) = members.keys().nth(steer(members.len())).cloned() else { return };
            match steer(24) {
                0 => _ = members.remove(&key),
                1 => members[&key] = replacement(steer, &members[&key]),
                _ => mutate(&mut members[&key], steer),
            }
        }
        // Another number or name of about the same kind is most likely to get through the checks.
        Value::Number(number) => {
            let near = number.as_u64().unwrap_or(0).wrapping_add(steer(4) as u64);
            *value =
                if steer(3) == 0 { replacement(steer, value) } else { Value::from(near.wrapping_sub(1)) };
        }
        _ => *value = replacement(steer, value),
    }
}

/// One changed program of this number gets machine code.
const MACHINE_CODE: usize = 32;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// A program that is not quite right is refused, or runs.
    #[test]
    fn no_mutation_panics(
        choices in prop::collection::vec(any::<u32>(), 400), mutations in 1usize..6,
        frames in prop::collection::vec(frame(), 4), seed: u64,
    ) {
        static PARSED: LazyLock<Vec<Value>> = LazyLock::new(|| {
            programs().iter().map(|(_, text)| serde_json::from_str(text).unwrap()).collect()
        });
        let mut choices = choices.into_iter().cycle();
        let mut steer = |below: usize| choices.next().unwrap_or(0) as usize % below.max(1);
        for program in &*PARSED {
            let mut value = program.clone();
            for _ in 0..mutations {
                mutate(&mut value, &mut steer);
            }
            let engine = if steer(MACHINE_CODE) == 0 { Engine::Compiled } else { Engine::Interpreter };
            if let Ok(program) = Program::load(&value.to_string(), engine) {
                run_frames(&program, seed, &frames, 10);
            }
        }
    }
}
