//! The `bfrt.json` of Weir's programs: parsing, lookup by name, and conversion to P4Info.

use bfruntime::info::{BfrtInfo, Kind, MatchType, Scope, TableType};
use p4runtime::p4info::{Index, Object};

pub(crate) const WEIR: &[u8] = include_bytes!("../../../../p4src/tna/build/weir.bfrt.json");

#[test]
fn the_output_of_p4c_is_parsed_with_all_widths() {
    let info = BfrtInfo::parse(WEIR).unwrap();
    let forward = info.named("forward").unwrap();
    assert_eq!(forward.name, "pipe.TnaIngress.weir.forwarding.forward");
    assert_eq!((forward.key[0].match_type, &forward.key[0].kind), (MatchType::Lpm, &Kind::Bits(32)));
    assert_eq!(info.id(forward.id), Some(forward));
    let deliver = forward.actions.iter().find(|it| it.name.ends_with(".deliver")).unwrap();
    assert_eq!(deliver.fields[1].kind.bits(), Some(48));
    assert_eq!(forward.action(deliver.id), Some(deliver));
    let last = forward.actions.last().unwrap();
    assert_eq!((last.scope, forward.has_const_default), (Scope::DefaultOnly, true));
    assert!(info.named("next_hops").unwrap().is_const);
    let lifetime = info.named("lifetime").unwrap();
    assert_eq!(
        (&lifetime.table_type, lifetime.fields[0].default),
        (&TableType::RegisterParam, Some(0x7fff_ffff))
    );
    // Several counters have this suffix.
    assert_eq!(info.named("events"), None);
}

#[test]
fn a_program_is_converted_to_p4info_with_the_ids_of_bfrt_json() {
    let info = BfrtInfo::parse(WEIR).unwrap();
    let index = Index::new(info.p4info()).unwrap();
    assert_eq!(index.pkg_info.arch, "tna");
    let ramp = index.tables.named("ecn_ramp").unwrap();
    assert_eq!(ramp.preamble().id, info.named("ecn_ramp").unwrap().id);
    // In P4Runtime the priority is not a match field.
    assert_eq!(ramp.match_fields.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["ramp", "depth"]);
    assert!(index.tables.named("forward").unwrap().const_default_action_id != 0);
    let identity = index.tables.named("switch_identity").unwrap();
    let keep = identity.initial_default_action.as_ref().unwrap().action_id;
    assert!(index.actions.id(keep).unwrap().preamble().name.ends_with(".keep"));
    let lifetime = index.tables.named("lifetime").unwrap();
    assert_eq!(lifetime.action_refs.len(), 1);
    assert_eq!(index.actions.id(lifetime.preamble().id).unwrap().param("value").unwrap().bitwidth, 32);
    assert_eq!(index.direct_meters.iter().count(), 1);
}

/// Drivers' descriptions of fixed tables contain containers of fields and duplicate keys.
#[test]
fn fields_of_unknown_types_are_parsed() {
    let text = r#"{"tables": [{"name": "dev", "id": 7, "table_type": "DevConfigure", "size": 1, "data": [
        {"mandatory": true, "singleton": {"id": 1, "name": "profile", "repeated": true, "repeated": true,
         "container": [{"id": 2, "name": "scope", "type": {"type": "uint32"}}]}},
        {"oneof": [{"id": 3, "name": "mode", "type": {"type": "enum"}}, {"id": 4, "name": "on", "type": {"type": "bool"}}]}
    ]}]}"#;
    let info = BfrtInfo::parse(text.as_bytes()).unwrap();
    let dev = info.named("dev").unwrap();
    let kinds: Vec<_> = dev.fields.iter().map(|field| (field.id, &field.kind, field.mandatory)).collect();
    assert_eq!(kinds, [(1, &Kind::Other, true), (3, &Kind::Other, false), (4, &Kind::Bool, false)]);
}

#[test]
fn invalid_bfrt_json_is_rejected() {
    for text in ["", "[]", r#"{"program": "x.p4"}"#, r#"{"tables": [{"name": "t"}]}"#] {
        let error = BfrtInfo::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("not a bfrt.json: "), "{error}");
    }
    let twice = r#"{"tables": [{"name": "a", "id": 7, "table_type": "Counter", "size": 1},
                               {"name": "b", "id": 7, "table_type": "Counter", "size": 1}]}"#;
    assert!(
        BfrtInfo::parse(twice.as_bytes()).unwrap_err().to_string().contains("0x00000007 is already used")
    );
}
