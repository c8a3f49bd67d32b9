//! P4Runtime's entities on a switch: valid entities are read back as written; invalid ones are rejected with the
//! canonical code of the specification and change nothing.

mod cells;
mod device;
mod profiles;
mod replication;
mod tables;

use device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::update::Type::Insert;
use p4runtime::p4::v1::{DigestEntry, Entity, Update, digest_entry};
use p4runtime::p4info;
use std::sync::Arc;
use weir_switch::control::Control;

#[test]
fn malformed_updates_are_refused() {
    let mut device = Device::new();
    let entry = Some(Entity { entity: Some(Kind::TableEntry(device.exact_one(1, 2))) });
    let mut apply = |update: Update| device.control.apply(&mut device.switch, &update).unwrap_err();
    assert_eq!(apply(Update::default()).code, Code::InvalidArgument);
    assert_eq!(apply(Update { r#type: 1, entity: None }).code, Code::InvalidArgument);
    assert_eq!(
        apply(Update { r#type: 1, entity: Some(Entity { entity: None }) }).code,
        Code::InvalidArgument
    );
    assert_eq!(apply(Update { r#type: 77, entity: entry }).code, Code::InvalidArgument);
    let digest = Some(Entity { entity: Some(Kind::DigestEntry(DigestEntry::default())) });
    assert_eq!(apply(Update { r#type: 1, entity: digest }).code, Code::InvalidArgument);
    assert_eq!(
        device.control.read(&device.switch, &Entity { entity: None }).unwrap_err().code,
        Code::InvalidArgument
    );
}

#[test]
fn a_batch_stops_at_its_first_error_and_reports_its_index() {
    let mut device = Device::new();
    let insert = |entry| Update {
        r#type: Insert.into(),
        entity: Some(Entity { entity: Some(Kind::TableEntry(entry)) }),
    };
    let batch =
        [insert(device.exact_one(1, 1)), insert(device.exact_one(1, 1)), insert(device.exact_one(2, 2))];
    let error = device.control.apply_all(&mut device.switch, &batch).unwrap_err();
    assert_eq!((error.number, error.error.code), (2, Code::AlreadyExists));
    assert!(error.to_string().starts_with("update 2: ALREADY_EXISTS: "), "{error}");
    assert_eq!(device.table("exact_one").len(), 1);
}

#[test]
fn another_programs_p4info_is_refused() {
    let device = Device::new();
    let other = include_str!("../../../../p4src/build/hpcc.p4info.txtpb");
    let index = Arc::new(p4info::Index::from_text(other).unwrap());
    let error = Control::new(index, &device.switch).unwrap_err();
    assert!(error.message.starts_with("the P4Info is not of the switch's program: "), "{error}");
}

#[test]
fn a_p4info_with_impossible_widths_is_refused() {
    let device = Device::new();
    let text = include_str!("entities.p4info.txtpb");
    for bits in ["-9", "2147483647"] {
        let wide = text.replacen("bitwidth: 9", &format!("bitwidth: {bits}"), 1);
        let index = Arc::new(p4info::Index::from_text(&wide).unwrap());
        let error = Control::new(index, &device.switch).unwrap_err();
        assert!(error.message.contains(&format!("a width of {bits} bits")), "{error}");
    }
}

#[test]
fn a_negative_field_of_a_digest_is_named() {
    let device = Device::new();
    let digest = "digests { preamble { id: 385875969 name: \"seen\" alias: \"seen\" } }";
    let text = format!("{}\n{digest}\n", include_str!("entities.p4info.txtpb"));
    let index = Arc::new(p4info::Index::from_text(&text).unwrap());
    let (mut control, mut switch) = (Control::new(index, &device.switch).unwrap(), device.switch);
    let config = digest_entry::Config { max_timeout_ns: 1, max_list_size: -2, ack_timeout_ns: 3 };
    let entry = DigestEntry { digest_id: 385_875_969, config: Some(config) };
    let update =
        Update { r#type: Insert.into(), entity: Some(Entity { entity: Some(Kind::DigestEntry(entry)) }) };
    let error = control.apply(&mut switch, &update).unwrap_err();
    assert_eq!(error.message, "digest seen: max_list_size -2 is negative");
}
