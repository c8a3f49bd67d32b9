//! P4Info files of p4c, and lookup by name.

use p4runtime::p4::config::v1::{P4Info, Preamble, Table};
use p4runtime::p4info::{Index, Object, P4InfoError, parse};

const FNCC: &str = include_str!("../../../p4src/build/fncc.p4info.txtpb");

fn tables(names: &[(u32, &str, &str)]) -> P4Info {
    let table = |&(id, name, alias): &(u32, &str, &str)| Table {
        preamble: Some(Preamble { id, name: name.into(), alias: alias.into(), ..Preamble::default() }),
        ..Table::default()
    };
    P4Info { tables: names.iter().map(table).collect(), ..P4Info::default() }
}

#[test]
fn the_output_of_p4c_is_parsed_with_all_widths() {
    let index = Index::from_text(FNCC).unwrap();
    let forward = index.tables.named("forward").unwrap();
    assert_eq!(forward.preamble().name, "WeirIngress.forwarding.forward");
    assert_eq!(forward.match_field("dst_addr").unwrap().bitwidth, 32);
    let deliver = index.actions.named("deliver").unwrap();
    assert_eq!(deliver.param("dst_mac").unwrap().bitwidth, 48);
    assert_eq!(deliver.param_by_id(1).unwrap().name, "port");
    assert_eq!(index.registers.named("all_int_table").unwrap().size, 512);
    assert_eq!(index.controller_headers.named("packet_in").unwrap().metadata[0].name, "ingress_port");
    assert_eq!(index.tables.id(forward.preamble().id), Some(forward));
    assert_eq!(index.pkg_info.arch, "v1model");
}

#[test]
fn objects_are_found_by_full_name_alias_or_unique_suffix() {
    let index =
        Index::new(tables(&[(1, "A.x.t", "x.t"), (2, "B.y.t", "y.t"), (3, "B.u", "v"), (4, "C.v", "C.v")]))
            .unwrap();
    let id = |name: &str| index.tables.named(name).map(|t| t.preamble().id);
    assert_eq!(id("A.x.t"), Ok(1));
    assert_eq!(id("y.t"), Ok(2));
    assert_eq!(id("u"), Ok(3));
    // An alias takes precedence over the suffix of another name.
    assert_eq!(id("v"), Ok(3));
    let ambiguous = id("t").unwrap_err().to_string();
    assert_eq!(ambiguous, "\"t\" is the name of several tables of the program; use the full name");
    assert_eq!(id("w").unwrap_err().to_string(), "the program has no table \"w\"");
    assert!(id("").is_err());
}

#[test]
fn missing_and_duplicate_ids_are_rejected() {
    let nameless = P4Info { tables: vec![Table::default()], ..P4Info::default() };
    assert_eq!(Index::new(nameless).unwrap_err().to_string(), "table number 1 has no preamble with an id");
    assert!(matches!(Index::new(tables(&[(0, "a", "a")])), Err(P4InfoError::NoPreamble { .. })));
    let twice = Index::new(tables(&[(7, "a", "a"), (7, "b", "b")])).unwrap_err();
    assert_eq!(twice.to_string(), "table \"b\": id 0x00000007 is already used");
}

#[test]
fn invalid_text_is_rejected_with_its_location() {
    for text in ["{", "tables { size: \"x\" }", "no_such_field: 1", "\u{0}"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.starts_with("1:") && error.contains(": not a P4Info in text format: "), "{error}");
    }
}
