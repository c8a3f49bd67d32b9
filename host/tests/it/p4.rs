//! Checks that the wire format of this crate is that of the P4 programs, which is read from their sources.

use std::collections::BTreeMap;
use weir_host::wire::{
    ETHERNET_LEN, ETHERTYPE_IPV4, Flags, HEADERS_LEN, INT_RECORD_LEN, IPV4_LEN, IntRecord, MAX_HOPS,
    POLICY_GROUP, PacketKind, RateCode, RecordFormat, VERSION, WEIR_LEN, WEIR_PORT,
};
use weir_testkit::frames::from_peer;
use weir_testkit::net::rebuild;

fn source(file: &str) -> String {
    let path = format!("{}/../p4src/include/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Returns the constants of the P4 sources by name, such as `const bit<16> WEIR_PORT = 22341;`.
fn constants() -> BTreeMap<String, u64> {
    let mut constants = BTreeMap::new();
    for line in source("constants.p4").lines() {
        let Some((_, rest)) = line.split_once("const bit<") else { continue };
        let Some((left, right)) = rest.split_once('=') else { continue };
        let name = left.split_whitespace().last().unwrap().to_owned();
        let value = right.split(';').next().unwrap().trim();
        let number = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        constants.insert(name, number.unwrap());
    }
    constants
}

#[test]
fn constants_are_the_same() {
    let p4 = constants();
    let rust = [
        ("WEIR_PORT", u64::from(WEIR_PORT)),
        ("WEIR_VERSION", u64::from(VERSION)),
        ("ETHERTYPE_IPV4", u64::from(ETHERTYPE_IPV4)),
        ("ETHERNET_BYTES", ETHERNET_LEN as u64),
        ("IPV4_BYTES", IPV4_LEN as u64),
        ("RECORD_BYTES", INT_RECORD_LEN as u64),
        ("MAX_HOPS", MAX_HOPS as u64),
        ("POLICY_GROUP", u64::from(POLICY_GROUP.to_bits())),
        ("FLAG_TELEMETRY", u64::from(Flags::TELEMETRY.0)),
    ];
    for (name, value) in rust {
        assert_eq!(p4.get(name), Some(&value), "{name}");
    }
    let kinds: Vec<_> = p4.iter().filter_map(|(name, &n)| Some((name.strip_prefix("KIND_")?, n))).collect();
    assert!(kinds.len() >= 3, "{kinds:?}");
    for (name, number) in kinds {
        let kind = PacketKind::from_number(number as u8).unwrap();
        assert_eq!(format!("{kind:?}").to_uppercase(), name.replace('_', ""));
    }
}

#[test]
fn rate_codes_are_the_same() {
    let text = source("constants.p4");
    let table = text.split_once("0 unknown").expect("the table of rate codes is there").1;
    let words: Vec<&str> = table.split_whitespace().filter(|word| *word != "//").take(30).collect();
    assert_eq!(words.len(), 30);
    for pair in words.chunks(2) {
        let code = RateCode::from_bits(pair[0].parse().unwrap());
        let rate = format!("{}bps", pair[1]).parse().unwrap();
        assert_eq!(code.bandwidth(), Some(rate), "code {}", pair[0]);
    }
}

/// Fields of a header in the P4 source, with their first bit and their width.
fn layout(header: &str) -> Vec<(String, usize, usize)> {
    let text = source("headers.p4");
    let body = text.split_once(&format!("header {header} {{")).expect("the header is there").1;
    let body = body.split_once('}').unwrap().0;
    let mut offset = 0;
    let field = |line: &str| {
        let (width, rest) = line.trim().strip_prefix("bit<")?.split_once('>')?;
        let width: usize = width.parse().ok()?;
        let name = rest.split(';').next()?.trim().to_owned();
        offset += width;
        Some((name, offset - width, width))
    };
    body.lines().filter_map(field).collect()
}

fn bits(bytes: &[u8], from: usize, width: usize) -> u64 {
    (from..from + width).fold(0, |value, bit| value << 1 | u64::from(bytes[bit / 8] >> (7 - bit % 8) & 1))
}

#[test]
fn the_weir_header_is_laid_out_the_same() {
    let mut repr = from_peer(PacketKind::ProbeReply, 0x0102_0304, 0x0506_0708);
    repr.weir.flags = Flags(0xa5);
    repr.weir.tokens = 9;
    repr.weir.subflow = 6;
    repr.weir.format = RecordFormat::SOJOURN;
    repr.weir.concurrency = 0xbeef;
    repr.weir.path_id = 0xabc;
    repr.weir.timestamp = 0x090a_0b0c;
    repr.weir.grant = 0x0d0e_0f10;
    let head = rebuild(&repr, &[0; 3 * INT_RECORD_LEN]).head;
    let header = &head[HEADERS_LEN - WEIR_LEN..HEADERS_LEN];
    let values = BTreeMap::from([
        ("version", 1),
        ("kind", 5),
        ("express", 1),
        ("flags", 0x25),
        ("tokens", 9),
        ("subflow", 6),
        ("int_format", 2),
        ("concurrency", 0xbeef),
        ("int_hops", 3),
        ("path_id", 0xabc),
        ("message", 0x0102_0304),
        ("seq", 0x0506_0708),
        ("stamp", 0x090a_0b0c),
        ("grant", 0x0d0e_0f10),
    ]);
    let fields = layout("weir_t");
    assert_eq!(fields.len(), values.len());
    assert_eq!(fields.iter().map(|(_, _, width)| width).sum::<usize>(), WEIR_LEN * 8);
    for (name, from, width) in fields {
        assert_eq!(bits(header, from, width), values[&name[..]], "{name}");
    }
}

#[test]
fn telemetry_records_are_laid_out_the_same() {
    let record = IntRecord {
        rate: RateCode::from_bits(0xa),
        timestamp: 0xfe_dcba,
        tx_units: 0x9_8765,
        queue_units: 0x4321,
    };
    let values = BTreeMap::from([
        ("rate_code", 0xa),
        ("timestamp", 0xfe_dcba),
        ("tx_bytes", 0x9_8765),
        ("queue", 0x4321),
    ]);
    let fields = layout("record_t");
    assert_eq!(fields.len(), values.len());
    assert_eq!(fields.iter().map(|(_, _, width)| width).sum::<usize>(), INT_RECORD_LEN * 8);
    for (name, from, width) in fields {
        assert_eq!(bits(&record.pack().to_be_bytes(), from, width), values[&name[..]], "{name}");
    }
}
