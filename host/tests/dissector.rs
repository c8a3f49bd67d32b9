//! The Wireshark dissector, on a capture of frames that this crate wrote. Needs tshark.

use std::fs;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use weir_host::wire::{
    Ecn, Flags, FrameRepr, HEADERS_LEN, INT_RECORD_LEN, IntRecord, MAX_HEADER_LEN, PacketKind, RateCode,
    WeirRepr,
};
use weir_testkit::harness;

const TESTS: &[harness::Test] = &[
    ("every_field_is_shown", every_field_is_shown),
    ("every_kind_and_rate_has_its_name", every_kind_and_rate_has_its_name),
    ("records_come_in_data_path_order", records_come_in_data_path_order),
    ("pairs_and_paths_are_joined", pairs_and_paths_are_joined),
    ("records_are_read_by_their_format", records_are_read_by_their_format),
    ("malformed_packets_are_named", malformed_packets_are_named),
    ("the_lower_port_does_not_hide_it", the_lower_port_does_not_hide_it),
];

fn main() -> ExitCode {
    let missing = Command::new("tshark").arg("--version").output().is_err();
    harness::run(TESTS, missing.then(|| "needs tshark (Debian package tshark)".to_owned()))
}

const H1: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);
const H2: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Offset of the Weir header in a frame.
const WEIR_AT: usize = HEADERS_LEN - 24;

fn frame(kind: PacketKind, message: u32, seq: u32) -> FrameRepr {
    let forward = matches!(kind, PacketKind::Data | PacketKind::Probe | PacketKind::Policy);
    let (source, destination) = if forward { (H1, H2) } else { (H2, H1) };
    FrameRepr {
        source_mac: [2, 0, 0, 0, 0, 1],
        destination_mac: [2, 0, 0, 0, 0, 2],
        source,
        destination,
        dscp: 0,
        ecn: Ecn::NotEct,
        entropy_port: 50_001,
        weir: WeirRepr { message, seq, ..WeirRepr::of(kind) },
        payload_len: 0,
    }
}

fn bytes(repr: &FrameRepr, records: &[IntRecord]) -> Vec<u8> {
    let records: Vec<u8> = records.iter().flat_map(|record| record.pack().to_be_bytes()).collect();
    let mut out = vec![0; MAX_HEADER_LEN];
    let head = repr.emit(&records, &mut out).expect("it fits");
    out.truncate(head);
    out.resize(head + repr.payload_len as usize, 0);
    out
}

fn record(rate: u8, timestamp: u32, tx_units: u32, queue_units: u16) -> IntRecord {
    IntRecord { rate: RateCode::from_bits(rate), timestamp, tx_units, queue_units }
}

/// Returns tshark's output for `fields`, a line a packet; packets are a millisecond apart. Several values
/// of one field stand with commas between them.
fn tshark(frames: &[Vec<u8>], options: &[&str], fields: &[&str]) -> Vec<Vec<String>> {
    // libpcap's file format: magic for nanoseconds, version 2.4, Ethernet.
    let mut pcap = Vec::new();
    for word in [0xa1b2_3c4d_u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        pcap.extend(word.to_le_bytes());
    }
    for (i, frame) in frames.iter().enumerate() {
        for word in [1_700_000_000, i as u32 * 1_000_000, frame.len() as u32, frame.len() as u32] {
            pcap.extend(word.to_le_bytes());
        }
        pcap.extend(frame);
    }
    let dir = std::env::temp_dir().join(format!("weir-dissector-{}", std::process::id()));
    fs::create_dir_all(&dir).expect("a temporary directory");
    let _cleanup = Cleanup(dir.clone());
    let file = dir.join("frames.pcap");
    fs::write(&file, pcap).expect("the capture is written");
    let script = concat!("lua_script:", env!("CARGO_MANIFEST_DIR"), "/wireshark/weir.lua");
    let mut command = Command::new("tshark");
    command.args(["-X", script, "-2", "-r"]).arg(&file).args(options);
    command.args(["-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=,"]);
    for field in fields {
        command.args(["-e", field]);
    }
    let done = command.output().expect("tshark runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && !errors.contains("Lua"), "{errors}");
    let text = String::from_utf8(done.stdout).expect("text");
    let lines: Vec<Vec<String>> =
        text.lines().map(|line| line.split('|').map(str::to_owned).collect()).collect();
    assert_eq!(lines.len(), frames.len(), "{text}");
    lines
}

struct Cleanup(PathBuf);

impl Drop for Cleanup {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// One packet and what each field of it must show.
fn check(frame: Vec<u8>, options: &[&str], expected: &[(&str, &str)]) {
    let fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
    let lines = tshark(&[frame], options, &fields);
    for ((field, value), seen) in expected.iter().zip(&lines[0]) {
        assert_eq!(seen, value, "{field}");
    }
}

fn every_field_is_shown() {
    let mut repr = frame(PacketKind::Ack, 0x0102_0304, 3_000_000_001);
    repr.weir.flags = Flags::START | Flags::TELEMETRY | Flags::ECN_ECHO | Flags::EXPRESS;
    repr.weir.tokens = 5;
    repr.weir.subflow = 9;
    repr.weir.concurrency = 513;
    repr.weir.path_id = 0xabc;
    repr.weir.timestamp = 4_000_000_000;
    repr.weir.grant = 0xabc;
    let mut frame = bytes(&repr, &[record(14, 0x12_3456, 7_812, 2_500)]);
    frame[WEIR_AT + 3] = 0x70; // bits of no format
    check(
        frame,
        &[],
        &[
            ("_ws.col.Protocol", "Weir"),
            (
                "_ws.col.Info",
                "ACK msg=16909060 seq=3000000001 hops=1 N=513 path=0xabc [START,TELEMETRY,ECN_ECHO,EXPRESS]",
            ),
            ("weir.version", "1"),
            ("weir.kind", "1"),
            ("weir.flags", "0x8d"),
            ("weir.flags.start", "1"),
            ("weir.flags.end", "0"),
            ("weir.flags.telemetry", "1"),
            ("weir.flags.ecn_echo", "1"),
            ("weir.flags.lookahead", "0"),
            ("weir.flags.retransmit", "0"),
            ("weir.flags.express", "1"),
            ("weir.tokens", "5"),
            ("weir.subflow", "9"),
            ("weir.int_format", "0x70"),
            ("weir.int_format.link", "0"),
            ("weir.int_format.sojourn", "0"),
            ("weir.int_format.congested", "0"),
            ("weir.int_format.queue", "0"),
            ("weir.int_format.unused", "0x07"),
            ("weir.concurrency", "513"),
            ("weir.int_hops", "1"),
            ("weir.path_id", "0x0abc"),
            ("weir.message", "16909060"),
            ("weir.seq", "3000000001"),
            ("weir.stamp", "4000000000"),
            ("weir.grant", "2748"),
            ("weir.int.hop", "1"),
            ("weir.int.rate", "14"),
            ("weir.int.timestamp", "1193046"),
            ("weir.int.tx_units", "7812"),
            ("weir.int.tx_bytes", "999936"),
            ("weir.int.queue_units", "2500"),
            ("weir.int.queue_bytes", "200000"),
            ("weir.int.switch", ""),
            ("weir.payload_len", "0"),
            ("weir.data_path_id", "0x0abc"),
            ("weir.same_path", "1"),
            ("weir.reserved_set", "1"),
        ],
    );
    let mut repr = frame_with_payload(1_000);
    repr.weir.flags = Flags::END | Flags::LOOKAHEAD | Flags::RETRANSMIT | Flags::ESCAPE;
    check(
        bytes(&repr, &[]),
        &[],
        &[
            ("_ws.col.Info", "DATA msg=7 seq=0 len=1000 hops=0 path=0x000 [END,LOOKAHEAD,RETRANSMIT,ESCAPE]"),
            ("weir.flags.end", "1"),
            ("weir.flags.lookahead", "1"),
            ("weir.flags.retransmit", "1"),
            ("weir.flags.escape", "1"),
            ("weir.retransmission", "1"),
            ("weir.payload_len", "1000"),
        ],
    );
}

fn frame_with_payload(payload_len: u32) -> FrameRepr {
    FrameRepr { payload_len, ..frame(PacketKind::Data, 7, 0) }
}

fn every_kind_and_rate_has_its_name() {
    const NAMES: [&str; 8] = ["DATA", "ACK", "NACK", "CNP", "PROBE", "PROBE_REPLY", "RATE", "POLICY"];
    let frames: Vec<_> = PacketKind::ALL.iter().map(|&kind| bytes(&frame(kind, 1, 2), &[])).collect();
    let lines = tshark(&frames, &[], &["weir.kind", "_ws.col.Info", "weir.wrong_port", "weir.gap"]);
    for (i, line) in lines.iter().enumerate() {
        assert_eq!(line[0], i.to_string());
        assert!(line[1].starts_with(&format!("{} msg=1 seq=2", NAMES[i])), "{}", line[1]);
        assert_eq!((line[2].as_str(), line[3].as_str()), ("", if NAMES[i] == "NACK" { "1" } else { "" }));
    }

    // The words of the rate table, from the tree; two packets of eight records.
    for low in [0_u8, 8] {
        let records: Vec<_> = (low..low + 8).map(|code| record(code, 0, 0, 0)).collect();
        let mut repr = frame(PacketKind::Ack, 1, 2);
        repr.weir.flags = Flags::TELEMETRY;
        let lines = tshark(&[bytes(&repr, &records)], &[], &["weir.int.rate", "_ws.expert.message"]);
        assert_eq!(lines[0][0], (low..low + 8).map(|c| c.to_string()).collect::<Vec<_>>().join(","));
    }
    let script = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/wireshark/weir.lua")).unwrap();
    assert!(script.contains("[0] = \"unknown\""));
    for code in 1..16 {
        let rate = RateCode::from_bits(code).bandwidth().unwrap().as_bps();
        let text = match rate / 1_000_000 {
            mega if mega < 1_000 => format!("{mega} Mbit/s"),
            mega => format!("{} Gbit/s", mega / 1_000),
        };
        assert!(script.contains(&format!("[{code}] = \"{text}\"")), "{code} {text}");
    }
}

/// On the wire the newest record comes first.
fn records_come_in_data_path_order() {
    let records = [record(3, 30, 0, 0), record(2, 20, 0, 0), record(1, 10, 0, 0)];
    let mut gathered_by_ack = frame(PacketKind::Ack, 7, 1_000);
    gathered_by_ack.weir.flags = Flags::TELEMETRY;
    let frames = [
        bytes(&frame_with_payload(10), &records),
        bytes(&frame(PacketKind::Ack, 7, 1_000), &records), // copied from DATA
        bytes(&gathered_by_ack, &records),
    ];
    let lines = tshark(&frames, &[], &["weir.int.hop", "weir.int.timestamp", "weir.payload_len"]);
    assert_eq!(lines[0], ["3,2,1", "30,20,10", "10"]);
    assert_eq!(lines[1], ["3,2,1", "30,20,10", "0"]);
    assert_eq!(lines[2], ["1,2,3", "30,20,10", "0"]);
}

fn pairs_and_paths_are_joined() {
    let ack = |seq, path_id, grant| {
        let mut repr = frame(PacketKind::Ack, 7, seq);
        (repr.weir.path_id, repr.weir.grant) = (path_id, grant);
        bytes(&repr, &[])
    };
    let mut second = frame_with_payload(1_000);
    second.weir.seq = 1_000;
    let frames = [
        bytes(&frame_with_payload(1_000), &[]),
        bytes(&second, &[]),
        ack(1_000, 5, 5),
        ack(2_000, 6, 5),
        ack(9_999, 0, 5), // at the receiver, before its first switch
    ];
    let fields = [
        "weir.request_in",
        "weir.response_in",
        "weir.response_time",
        "weir.same_path",
        "weir.other_path",
        "weir.data_path_id",
    ];
    let lines = tshark(&frames, &[], &fields);
    assert_eq!(lines[0], ["", "3", "", "", "", ""]);
    assert_eq!(lines[1], ["", "4", "", "", "", ""]);
    assert_eq!(lines[2], ["1", "", "0.002000000", "1", "", "0x0005"]);
    assert_eq!(lines[3], ["2", "", "0.002000000", "0", "1", "0x0005"]);
    assert_eq!(lines[4], ["", "", "", "", "", "0x0005"]);
    let quiet = tshark(&frames, &["-o", "weir.grant_echoes_path:FALSE"], &fields);
    assert_eq!(quiet[3], ["2", "", "0.002000000", "", "", ""]);
    let options = ["-o", "weir.grant_is_delay:TRUE"];
    let delays = tshark(&frames, &options, &["weir.receiver_delay", "weir.data_path_id"]);
    assert_eq!(delays[0], ["", ""], "DATA");
    assert_eq!(delays[2], ["5", ""]);
}

fn records_are_read_by_their_format() {
    let entry = record(7, 99, 3, 4);
    let mut head = bytes(&frame(PacketKind::Ack, 7, 0), &[entry, entry]);
    // Two records of 12 bytes: switch 0x0102, port 0x0304, the entry.
    head.truncate(HEADERS_LEN);
    for _ in 0..2 {
        head.extend([1, 2, 3, 4]);
        head.extend(entry.pack().to_be_bytes());
    }
    let (ip, udp) = (20 + 8 + 24 + 24_u16, 8 + 24 + 24_u16);
    head[16..18].copy_from_slice(&ip.to_be_bytes());
    head[38..40].copy_from_slice(&udp.to_be_bytes());
    let fields = [
        "weir.int.switch",
        "weir.int.port",
        "weir.int.timestamp",
        "weir.int.queue_bytes",
        "weir.int.sojourn_ticks",
        "weir.payload_len",
    ];
    let with = |format: u8| {
        let mut frame = head.clone();
        frame[WEIR_AT + 3] = format;
        frame
    };
    let seen = tshark(&[with(1), with(0), with(3)], &[], &fields);
    assert_eq!(seen[0], ["258,258", "772,772", "99,99", "320,320", "", "0"]);
    assert_eq!((seen[1][0].as_str(), seen[1][5].as_str()), ("", "8"));
    assert_eq!(seen[2], ["258,258", "772,772", "99,99", "", "16,16", "0"]);
    // 12 bytes too: a quarter of the port's rate, 772 units sent; and all of it, in two records' place.
    let mut shares = head.clone();
    for at in [HEADERS_LEN, HEADERS_LEN + 12] {
        shares[at..at + 4].copy_from_slice(&0x4000_0304_u32.to_be_bytes());
    }
    shares[WEIR_AT + 3] = 0x0c;
    let fields_of_queue =
        ["weir.int.share", "weir.int.queue_sent_units", "weir.int.timestamp", "weir.int_format.congested"];
    let seen = tshark(&[shares], &[], &fields_of_queue);
    assert_eq!(seen[0], ["1024,1024", "772,772", "99,99", "1"]);
    // Records of 12 bytes that a program defines by itself.
    let seen = tshark(&[with(0x82)], &[], &["weir.int.own", "weir.int.queue_bytes", "weir.payload_len"]);
    let own = format!("01020304{:016x}", entry.pack());
    assert_eq!(seen[0], [format!("{own},{own}"), String::new(), "0".to_owned()]);
}

fn malformed_packets_are_named() {
    let good = || bytes(&frame_with_payload(40), &[]);
    let with = |at: usize, value: u8| {
        let mut frame = good();
        frame[WEIR_AT + at] = value;
        frame
    };
    let mut short = good();
    short.truncate(WEIR_AT + 23);
    let length = (8 + 23_u16).to_be_bytes();
    short[38..40].copy_from_slice(&length);
    short[16..18].copy_from_slice(&(20 + 8 + 23_u16).to_be_bytes());
    let mut saturated = frame_with_payload(1);
    saturated.weir.flags = Flags::TELEMETRY;
    let mut swapped = good();
    swapped.swap(34, 36);
    swapped.swap(35, 37);
    let frames = [
        short,
        with(0, 0x20),
        with(0, 0x18),
        with(6, 0x90),
        with(6, 0x80), // eight records in 40 bytes
        swapped,
        bytes(&frame_with_payload(0), &[]),
        bytes(&saturated, &[record(1, 0, 0, u16::MAX)]),
        good(),
    ];
    let fields = [
        "weir.short",
        "weir.bad_version",
        "weir.bad_kind",
        "weir.too_many_hops",
        "weir.hops_length",
        "weir.wrong_port",
        "weir.empty_data",
        "weir.queue_saturated",
    ];
    let lines = tshark(&frames, &[], &fields);
    for (i, line) in lines.iter().enumerate() {
        let seen: Vec<_> = (0..fields.len()).filter(|&j| line[j] == "1").collect();
        let expected = if i < fields.len() { vec![i] } else { vec![] };
        assert_eq!(seen, expected, "packet {}: {line:?}", i + 1);
    }
    let infos = tshark(&frames, &[], &["_ws.col.Info"]);
    assert_eq!(infos[0][0], "Malformed: 23 bytes");
    assert_eq!(infos[1][0], "Malformed: version 2");
    assert_eq!(infos[4][0], "Malformed: 8 hops do not fit");
    assert_eq!(INT_RECORD_LEN * 8, 64);
}

/// Wireshark asks the dissector of the lower port first: 514 is syslog's.
fn the_lower_port_does_not_hide_it() {
    let mut repr = frame_with_payload(40);
    repr.entropy_port = 514;
    let first = ["-o", "udp.try_heuristic_first:TRUE"];
    assert_eq!(tshark(&[bytes(&repr, &[])], &first, &["weir.message"])[0], ["7"]);
}
