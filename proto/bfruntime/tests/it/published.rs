//! Compares the `.proto` file with the published one.
//!
//! No package contains the descriptors of BF Runtime, so the test compares a digest. The file is
//! `pkgsrc/bf-drivers/src/bf_rt/proto/bfruntime.proto` in github.com/p4lang/open-p4studio
//! (commit 1f97778f, 2025-02-26).
//! With `BFRUNTIME_PROTO=/path/to/bfruntime.proto` the test compares with that file and prints the differences; its
//! directory must contain `google/rpc/status.proto`.

use prost_reflect::prost::Message;
use prost_reflect::prost_types::{DescriptorProto, EnumDescriptorProto, FileDescriptorSet};
use std::collections::BTreeSet;
use std::path::Path;

const FACTS: usize = 296;
const DIGEST: u64 = 0xadf5_1bd1_1232_ea2a;

/// Returns a line for each message, field, enum value and method of the package.
fn facts(descriptors: &FileDescriptorSet) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for file in descriptors.file.iter().filter(|file| file.package() == "bfrt_proto") {
        all.insert(format!("package {} {}", file.package(), file.syntax()));
        let prefix = format!(".{}", file.package());
        file.message_type.iter().for_each(|it| message(&prefix, it, &mut all));
        file.enum_type.iter().for_each(|it| enumeration(&prefix, it, &mut all));
        for service in &file.service {
            for it in &service.method {
                let (client_streams, server_streams) = (it.client_streaming(), it.server_streaming());
                let (input, output) = (it.input_type(), it.output_type());
                all.insert(format!(
                    "method {prefix}.{}.{}: {input} {client_streams} -> {output} {server_streams}",
                    service.name(),
                    it.name()
                ));
            }
        }
    }
    all
}

fn message(prefix: &str, it: &DescriptorProto, all: &mut BTreeSet<String>) {
    let name = format!("{prefix}.{}", it.name());
    all.insert(format!("message {name}"));
    for field in &it.field {
        let oneof = field.oneof_index.map_or("-", |index| it.oneof_decl[index as usize].name());
        all.insert(format!(
            "field {name}.{} = {}: {:?} {:?} {} oneof {oneof} deprecated {}",
            field.name(),
            field.number(),
            field.label(),
            field.r#type(),
            field.type_name(),
            field.options.as_ref().is_some_and(|options| options.deprecated()),
        ));
    }
    it.nested_type.iter().for_each(|inner| message(&name, inner, all));
    it.enum_type.iter().for_each(|inner| enumeration(&name, inner, all));
}

fn enumeration(prefix: &str, it: &EnumDescriptorProto, all: &mut BTreeSet<String>) {
    for value in &it.value {
        all.insert(format!("enum {prefix}.{}: {} = {}", it.name(), value.name(), value.number()));
    }
}

/// FNV-1a over the sorted lines.
fn digest(facts: &BTreeSet<String>) -> u64 {
    let bytes = facts.iter().flat_map(|fact| fact.bytes().chain([b'\n']));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[test]
fn every_fact_is_the_published_one() {
    let ours = facts(&FileDescriptorSet::decode(bfruntime::DESCRIPTORS).unwrap());
    if let Ok(path) = std::env::var("BFRUNTIME_PROTO") {
        let dir = Path::new(&path).parent().unwrap().to_owned();
        let theirs = facts(&protox::compile([&path], [dir]).unwrap());
        let lines = |a: &BTreeSet<String>, b: &BTreeSet<String>| {
            a.difference(b).cloned().collect::<Vec<_>>().join("\n  ")
        };
        assert!(
            ours == theirs,
            "published, not ours:\n  {}\nours, not published:\n  {}",
            lines(&theirs, &ours),
            lines(&ours, &theirs)
        );
    }
    assert_eq!((ours.len(), digest(&ours)), (FACTS, DIGEST), "{:#x}", digest(&ours));
}
