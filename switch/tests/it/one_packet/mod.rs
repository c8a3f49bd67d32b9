//! Runs single packets through a pipeline, without queues.
#![allow(dead_code)]

use std::path::Path;
use std::sync::Arc;
use weir_switch::pipeline::{EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, SideEffects};
use weir_switch::{Packet, Pipeline, Program};

/// A program of `switch/tests/data`.
pub(crate) fn program(name: &str) -> Arc<Program> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name).with_extension("json");
    let text = std::fs::read_to_string(&path).unwrap();
    Program::from_json(&text).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// A pipeline of such a program.
pub(crate) fn pipeline(name: &str) -> Pipeline {
    Pipeline::new(program(name), 1)
}

/// Runs ingress and egress until the packet leaves, and returns it. `None` if it is dropped.
pub(crate) fn send(pipeline: &mut Pipeline, frame: &[u8], effects: &mut SideEffects) -> Option<Vec<u8>> {
    let mut packet = Packet::from_bytes(frame);
    run(pipeline, &mut packet, effects)
}

/// Same as [`send`], for a packet that exists already.
pub(crate) fn run(
    pipeline: &mut Pipeline,
    packet: &mut Packet,
    effects: &mut SideEffects,
) -> Option<Vec<u8>> {
    const MAX_ROUNDS: usize = 8;
    for _ in 0..MAX_ROUNDS {
        let port = match pipeline.ingress(packet, IngressMeta { port: 3, now: 1000 }, effects) {
            IngressVerdict::Drop | IngressVerdict::Abort(_) => return None,
            IngressVerdict::Resubmit => continue,
            IngressVerdict::Unicast { port, .. } => port,
            IngressVerdict::Multicast { .. } => 2,
        };
        let meta = EgressMeta { port, now: 0x1234, enq_qdepth: 7, rid: 9, ..EgressMeta::default() };
        match pipeline.egress(packet, meta, effects) {
            EgressVerdict::Drop | EgressVerdict::Abort(_) => return None,
            EgressVerdict::Send => return Some(packet.to_vec()),
            EgressVerdict::Recirculate => {}
        }
    }
    None
}
