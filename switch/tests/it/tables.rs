//! Tables of every kind, action profiles, counters, meters, registers, and other effects of a pipeline: digests,
//! clones, hashes.

use crate::one_packet::{pipeline, program, run, send};
use weir_switch::drops::DropReason;
use weir_switch::pipeline::{
    ActionCall, CounterValue, CrcParameters, Digest, EgressMeta, EgressVerdict, EntryHandle, IngressMeta,
    IngressVerdict, KeyMatch, MeterRates, SideEffects,
};
use weir_switch::program::{Engine, TableId};
use weir_switch::{Packet, Pipeline, Program};

/// `tables.p4`'s header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Key {
    what: u8,
    small: u8,
    addr: u32,
    wide: u128,
    port: u16,
    result: u16,
}

impl Key {
    fn bytes(self) -> Vec<u8> {
        let mut bytes = vec![self.what, self.small];
        bytes.extend(self.addr.to_be_bytes());
        bytes.extend(self.wide.to_be_bytes());
        bytes.extend(self.port.to_be_bytes());
        bytes.extend(self.result.to_be_bytes());
        bytes
    }
    fn parse(bytes: &[u8]) -> Key {
        let number =
            |from: usize, to: usize| bytes[from..to].iter().fold(0, |n, byte| n << 8 | u128::from(*byte));
        Key {
            what: bytes[0],
            small: bytes[1],
            addr: number(2, 6) as u32,
            wide: number(6, 22),
            port: number(22, 24) as u16,
            result: number(24, 26) as u16,
        }
    }
}

fn process(pipeline: &mut Pipeline, key: Key) -> Option<Key> {
    send(pipeline, &key.bytes(), &mut SideEffects::default()).map(|bytes| Key::parse(&bytes))
}

/// An action by name with its arguments.
struct Call {
    name: &'static str,
    args: Vec<Vec<u8>>,
}

impl Call {
    fn of(&self, pipeline: &Pipeline, table: TableId) -> ActionCall {
        ActionCall::action(pipeline.action_by_name(table, self.name).unwrap(), self.args.clone())
    }
    fn member(&self, pipeline: &Pipeline, profile: &str) -> ActionCall {
        ActionCall::action(pipeline.member_action_by_name(profile, self.name).unwrap(), self.args.clone())
    }
}

fn call(name: &'static str, args: Vec<Vec<u8>>) -> Call {
    Call { name, args }
}

fn result(value: u16) -> Call {
    call("result", vec![value.to_be_bytes().to_vec()])
}

fn add(pipeline: &mut Pipeline, table: &str, key: &[KeyMatch], priority: i32, call: &Call) -> u32 {
    let table = pipeline.table_by_name(table).unwrap();
    let action = call.of(pipeline, table);
    pipeline.table_add(table, key, priority, &action).unwrap_or_else(|error| panic!("{error}")).0
}

/// Adds an entry that refers to a member or group.
fn add_reference(pipeline: &mut Pipeline, table: &str, key: &[KeyMatch], action: ActionCall) {
    let table = pipeline.table_by_name(table).unwrap();
    pipeline.table_add(table, key, 0, &action).unwrap_or_else(|error| panic!("{error}"));
}

fn exact(value: impl Into<u64>) -> KeyMatch {
    KeyMatch::Exact(value.into().to_be_bytes().to_vec())
}

fn prefix(value: u32, prefix_len: u16) -> KeyMatch {
    KeyMatch::Lpm { value: value.to_be_bytes().to_vec(), prefix_len }
}

#[test]
fn exact_matches() {
    let mut pipeline = pipeline("tables");
    add(&mut pipeline, "exact_one", &[exact(7u16)], 0, &result(70));
    let pair = call("pair", vec![vec![0x12, 0x34], vec![9; 16]]);
    add(&mut pipeline, "exact_one", &[exact(8u16)], 0, &pair);
    let key = Key { port: 7, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 70);
    let paired = process(&mut pipeline, Key { port: 8, ..key }).unwrap();
    assert_eq!((paired.result, paired.wide), (0x1234, u128::from_be_bytes([9; 16])));
    assert_eq!(process(&mut pipeline, Key { port: 9, ..key }).unwrap().result, 0);

    // A key of more than two words: an IPv6 address and another field.
    let wide = KeyMatch::Exact(vec![5; 16]);
    add(&mut pipeline, "exact_wide", &[wide, exact(1u8)], 0, &result(11));
    let key = Key { what: 1, wide: u128::from_be_bytes([5; 16]), small: 1, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 11);
    assert_eq!(process(&mut pipeline, Key { small: 2, ..key }).unwrap().result, 0xdead);
}

#[test]
fn longest_prefix_wins() {
    let mut pipeline = pipeline("tables");
    for (addr, len, value) in [(0x0a00_0000, 8, 8), (0x0a01_0000, 16, 16), (0x0a01_0203, 32, 32), (0, 0, 1)] {
        add(&mut pipeline, "longest", &[prefix(addr, len), exact(0u8)], 0, &result(value));
    }
    let mut lookup = |addr, small| process(&mut pipeline, Key { what: 2, addr, small, ..Key::default() });
    let results =
        [0x0a01_0203, 0x0a01_0204, 0x0aff_0000, 0x0b00_0000].map(|addr| lookup(addr, 0).unwrap().result);
    assert_eq!(results, [32, 16, 8, 1]);
    assert_eq!(lookup(0x0a01_0203, 1), None, "another exact part misses, and a miss drops");

    let wide = |value: u128, prefix_len| KeyMatch::Lpm { value: value.to_be_bytes().to_vec(), prefix_len };
    add(&mut pipeline, "longest_wide", &[wide(0x2001 << 112, 16)], 0, &result(16));
    add(&mut pipeline, "longest_wide", &[wide(0x2001_0db8 << 96 | 7 << 60, 68)], 0, &result(68));
    let mut lookup = |wide| process(&mut pipeline, Key { what: 3, wide, ..Key::default() }).unwrap().result;
    assert_eq!(lookup(0x2001_0db8 << 96 | 7 << 60 | 99), 68);
    assert_eq!(lookup(0x2001_0db8 << 96 | 6 << 60 | 99), 16);
    assert_eq!(lookup(0x2002 << 112), 1);
}

/// Cached lookups are invalidated by changes of the table.
#[test]
fn changes_apply_to_cached_keys() {
    let mut pipeline = pipeline("tables");
    // More keys than a key cache has slots.
    let keys: Vec<u32> = (0..300).map(|n| 0x0a00_0000 | (n * 0x101)).collect();
    let check = |pipeline: &mut Pipeline, expected: &dyn Fn(u32) -> Option<u16>| {
        for _ in 0..2 {
            for &addr in &keys {
                let result = process(pipeline, Key { what: 2, addr, ..Key::default() }).map(|key| key.result);
                assert_eq!(result, expected(addr), "{addr:#x}");
            }
        }
    };
    check(&mut pipeline, &|_| None);
    let wide = add(&mut pipeline, "longest", &[prefix(0x0a00_0000, 8), exact(0u8)], 0, &result(8));
    check(&mut pipeline, &|_| Some(8));
    let one = add(&mut pipeline, "longest", &[prefix(keys[7], 32), exact(0u8)], 0, &result(32));
    check(&mut pipeline, &|addr| Some(if addr == keys[7] { 32 } else { 8 }));
    let table = pipeline.table_by_name("longest").unwrap();
    pipeline.table_modify(table, EntryHandle(wide), &result(9).of(&pipeline, table)).unwrap();
    check(&mut pipeline, &|addr| Some(if addr == keys[7] { 32 } else { 9 }));
    pipeline.table_delete(table, EntryHandle(one)).unwrap();
    check(&mut pipeline, &|_| Some(9));
    pipeline.table_delete(table, EntryHandle(wide)).unwrap();
    check(&mut pipeline, &|_| None);
}

#[test]
fn priorities_decide() {
    let mut pipeline = pipeline("tables");
    let ternary = |value: u32, mask: u32| KeyMatch::Ternary {
        value: value.to_be_bytes().to_vec(),
        mask: mask.to_be_bytes().to_vec(),
    };
    let range = |low: u16, high: u16| KeyMatch::Range {
        low: low.to_be_bytes().into(),
        high: high.to_be_bytes().into(),
    };
    let low = add(
        &mut pipeline,
        "masked",
        &[ternary(0x0a00_0000, 0xff00_0000), range(0, 0xffff), KeyMatch::Any],
        1,
        &result(10),
    );
    add(
        &mut pipeline,
        "masked",
        &[ternary(0x0a00_0001, 0xff00_00ff), range(80, 90), KeyMatch::Any],
        5,
        &result(20),
    );
    add(&mut pipeline, "masked", &[KeyMatch::Any, KeyMatch::Any, exact(4u8)], 9, &result(30));
    let mut lookup = |addr, port, small| {
        let key = process(&mut pipeline, Key { what: 4, addr, port, small, ..Key::default() }).unwrap();
        (key.result, key.small)
    };
    assert_eq!(lookup(0x0aff_ff01, 85, 0), (20, 0));
    assert_eq!(lookup(0x0aff_ff01, 79, 0), (10, 0));
    assert_eq!(lookup(0x0aff_ff01, 91, 0), (10, 0));
    assert_eq!(lookup(0x0aff_ff01, 85, 4), (30, 4));
    // The program can test for a miss.
    assert_eq!(lookup(0x0b00_0000, 85, 0), (2, 0xff));
    let table = pipeline.table_by_name("masked").unwrap();
    pipeline.table_delete(table, weir_switch::pipeline::EntryHandle(low)).unwrap();
    assert_eq!(pipeline.table_entries(table).iter().map(|entry| entry.priority).collect::<Vec<_>>(), [5, 9]);
    let key = Key { what: 4, addr: 0x0aff_ff01, port: 79, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 2);
}

#[test]
fn const_entries_of_the_program_are_fixed() {
    let mut pipeline = pipeline("tables");
    let mut lookup = |small| process(&mut pipeline, Key { what: 5, small, ..Key::default() }).unwrap().result;
    // The first matching entry wins, even if a later one is more specific.
    assert_eq!([0x12, 0x1f, 0x3f, 0x40].map(&mut lookup), [16, 16, 32, 99]);
    let table = pipeline.table_by_name("fixed_rows").unwrap();
    let row = [KeyMatch::Any];
    let error = pipeline.table_add(table, &row, 1, &result(1).of(&pipeline, table)).unwrap_err();
    assert_eq!(error.to_string(), "table MyIngress.fixed_rows: the list of entries is const");
    let error = pipeline.table_set_default(table, &result(1).of(&pipeline, table)).unwrap_err();
    assert_eq!(error.to_string(), "table MyIngress.fixed_rows: the default action is const");
    assert!(pipeline.table_entries(table).iter().all(|entry| entry.is_const));
}

#[test]
fn invalid_entries_are_rejected() {
    let mut pipeline = pipeline("tables");
    let one = pipeline.table_by_name("exact_one").unwrap();
    let longest = pipeline.table_by_name("MyIngress.longest").unwrap();
    let other = pipeline.table_by_name("metered").unwrap();
    let foreign = call("paced", vec![vec![3]]).of(&pipeline, other);
    let error = pipeline.table_add(one, &[exact(1u8)], 0, &foreign).unwrap_err().to_string();
    assert!(error.contains("has no action \"MyIngress.paced\""), "{error}");
    let mut add_error = |table, key: &[KeyMatch], call: &Call| {
        let before = pipeline.table_entries(table);
        let action = call.of(&pipeline, table);
        let error = pipeline.table_add(table, key, 0, &action).unwrap_err().to_string();
        assert_eq!(pipeline.table_entries(table), before);
        error
    };
    assert_eq!(
        add_error(one, &[exact(0x10000u32)], &result(1)),
        "table MyIngress.exact_one: key hdr.key.port 0x0000000000010000 does not fit 16 bits"
    );
    assert_eq!(add_error(one, &[], &result(1)), "table MyIngress.exact_one has 1 key elements, not 0");
    assert!(add_error(one, &[KeyMatch::Any], &result(1)).contains("matched as Exact"));
    assert!(add_error(one, &[exact(1u8)], &call("result", vec![])).contains("takes 1 arguments, not 0"));
    let too_large = call("result", vec![vec![1, 0, 0]]);
    assert_eq!(
        add_error(one, &[exact(1u8)], &too_large),
        "action MyIngress.result: value 0x010000 does not fit 16 bits"
    );
    assert!(add_error(longest, &[prefix(0x0a00_0001, 24), exact(0u8)], &result(1)).contains("bits set"));
    assert!(add_error(longest, &[prefix(0, 33), exact(0u8)], &result(1)).contains("longer than key"));
    assert!(pipeline.table_by_name("nothing").is_err());
    for port in 0..4u16 {
        add(&mut pipeline, "exact_one", &[exact(port)], 0, &result(port));
    }
    let error = pipeline.table_add(one, &[exact(9u8)], 0, &result(1).of(&pipeline, one)).unwrap_err();
    assert_eq!(error.to_string(), "table MyIngress.exact_one is full: it holds 4 entries");
    let error = pipeline.table_add(one, &[exact(3u8)], 0, &result(1).of(&pipeline, one)).unwrap_err();
    assert_eq!(error.to_string(), "table MyIngress.exact_one: duplicate entry");
}

#[test]
fn profiles_and_selectors() {
    let mut pipeline = pipeline("tables");
    let member = pipeline.member_add("shared", &result(5).member(&pipeline, "shared")).unwrap();
    add_reference(&mut pipeline, "by_profile", &[exact(1u8)], ActionCall::Member(member));
    let key = Key { what: 6, port: 1, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 5);
    pipeline.member_modify("shared", member, &result(6).member(&pipeline, "shared")).unwrap();
    assert_eq!(process(&mut pipeline, key).unwrap().result, 6);
    assert!(pipeline.member_delete("shared", member).unwrap_err().to_string().contains("still in use"));
    assert_eq!(process(&mut pipeline, Key { port: 2, ..key }).unwrap().result, 0, "no entry, no action");

    let members: Vec<_> = (0..3)
        .map(|n| pipeline.member_add("chosen", &result(100 + n).member(&pipeline, "chosen")).unwrap())
        .collect();
    let group = pipeline.group_add("chosen", &members).unwrap();
    add_reference(&mut pipeline, "by_selector", &[exact(1u8)], ActionCall::Group(group));
    let mut seen = [0; 3];
    for addr in 0..300 {
        let value = process(&mut pipeline, Key { what: 7, port: 1, addr, ..Key::default() }).unwrap().result;
        seen[usize::from(value) - 100] += 1;
    }
    assert!(seen.iter().all(|count| *count > 60), "{seen:?}");
    pipeline.group_modify("chosen", group, &[]).unwrap();
    let key = Key { what: 7, port: 1, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 0, "an empty group does nothing");
    assert_eq!(pipeline.groups("chosen").unwrap(), [(group, vec![])]);
}

#[test]
fn counters_meters_registers() {
    let mut pipeline = pipeline("tables");
    let entry = add(&mut pipeline, "exact_one", &[exact(1u8)], 0, &result(1));
    let table = pipeline.table_by_name("exact_one").unwrap();
    for port in [1, 1, 2] {
        process(&mut pipeline, Key { port, ..Key::default() });
    }
    let counted = pipeline.direct_counter_read(table, weir_switch::pipeline::EntryHandle(entry)).unwrap();
    assert_eq!(counted, CounterValue { packets: 2, bytes: 52 });

    let rates = MeterRates { cir: 1, cburst: 1, pir: 1, pburst: 2 };
    let entry = add(&mut pipeline, "metered", &[exact(1u8)], 0, &call("paced", vec![vec![3]]));
    let metered = pipeline.table_by_name("metered").unwrap();
    pipeline.direct_meter_set_rates(metered, weir_switch::pipeline::EntryHandle(entry), Some(rates)).unwrap();
    let mut colour = || process(&mut pipeline, Key { what: 8, port: 1, ..Key::default() }).unwrap().small;
    assert_eq!([colour(), colour(), colour()], [0, 1, 2]);

    pipeline.meter_set_rates("limit", 2, Some(rates)).unwrap();
    pipeline.register_write("last", 2, &[0x12, 0x30]).unwrap();
    let key = Key { what: 10, small: 2, addr: 0x456, ..Key::default() };
    let first = process(&mut pipeline, key).unwrap();
    assert_eq!((first.result, first.port), (0x123, 0));
    assert_eq!(pipeline.register_read("last", 2).unwrap(), [0, 0, 0, 0, 0x45, 0x60]);
    let second = process(&mut pipeline, key).unwrap();
    assert_eq!((second.result, second.port), (0x456, 1));
    assert_eq!(pipeline.counter_read("seen", 2).unwrap(), CounterValue { packets: 2, bytes: 52 });
    // Indices out of range have no effect.
    assert_eq!(process(&mut pipeline, Key { small: 4, ..key }).unwrap().result, 0);
    let error = pipeline.register_read("last", 4).unwrap_err();
    assert_eq!(error.to_string(), "register array last: index 4 is out of range (size 4)");
    assert!(pipeline.register_write("last", 0, &[1, 0, 0, 0, 0, 0, 0]).is_err());
}

#[test]
fn idle_entries_time_out() {
    let mut pipeline = pipeline("tables");
    let table = pipeline.table_by_name("idle").unwrap();
    let entry = pipeline.table_add(table, &[exact(1u8)], 0, &result(1).of(&pipeline, table)).unwrap();
    pipeline.table_set_timeout(table, entry, 500).unwrap();
    let key = Key { what: 9, port: 1, ..Key::default() };
    assert_eq!(process(&mut pipeline, key).unwrap().small, 7);
    assert_eq!(process(&mut pipeline, Key { port: 2, ..key }).unwrap().small, 8);
    // The packets arrived at tick 1000.
    assert_eq!(pipeline.take_timed_out(1499), []);
    assert_eq!(pipeline.take_timed_out(1500), [(table, entry)]);
    // An idle entry is reported once per timeout.
    assert_eq!(pipeline.take_timed_out(1999), []);
    assert_eq!(pipeline.take_timed_out(2000), [(table, entry)]);
    pipeline.set_now(2300);
    assert_eq!(pipeline.ticks_since_hit(table, entry), Ok(Some(1300)));
    // A timeout begins when it is set, not when the switch started.
    let late = pipeline.table_add(table, &[exact(2u8)], 0, &result(1).of(&pipeline, table)).unwrap();
    pipeline.table_set_timeout(table, late, 500).unwrap();
    assert_eq!(pipeline.take_timed_out(2799), [(table, entry)]);
    assert_eq!(pipeline.take_timed_out(2800), [(table, late)]);
}

#[test]
fn digest_and_random_and_hash() {
    let (mut pipeline, mut effects) = (pipeline("tables"), SideEffects::default());
    let key = Key { what: 11, addr: 0x0a00_0001, port: 0x1ff, ..Key::default() };
    send(&mut pipeline, &key.bytes(), &mut effects).unwrap();
    let values = vec![vec![10, 0, 0, 1], vec![1, 0xff]];
    let digest = Digest { list: "learned_t".into(), list_id: 1, values };
    assert_eq!(effects.digests, [digest]);

    // CRC-32 of 0a 00 00 01 01 ff by zlib.
    let key = Key { what: 15, ..key };
    assert_eq!(process(&mut pipeline, key).unwrap().result, 100 + (0x2582_363eu32 % 1000) as u16);

    let key = Key { what: 16, ..Key::default() };
    let draw = |pipeline: &mut Pipeline| {
        (0..200).map(|_| process(pipeline, key).unwrap().result).collect::<Vec<_>>()
    };
    let drawn = draw(&mut pipeline);
    assert!(
        drawn.iter().all(|value| (10..20).contains(value)) && (10..20).all(|value| drawn.contains(&value))
    );
    let again = |seed| draw(&mut Pipeline::new(program("tables"), seed));
    assert_eq!(again(7), again(7));
    assert_ne!(again(7), again(8));
}

/// `digest_and_random_and_hash` with CRCs whose parameters a controller sets, in both engines.
#[test]
fn a_custom_crc_has_the_parameters_that_were_set() {
    let text = include_str!("../data/tables.json").replacen("\"crc32\"", "\"crc32_custom\"", 1);
    let key = Key { what: 15, addr: 0x0a00_0001, port: 0x1ff, ..Key::default() };
    for engine in [Engine::Compiled, Engine::Interpreter] {
        let mut pipeline = Pipeline::new(Program::load(&text, engine).unwrap(), 1);
        let hash = |pipeline: &mut Pipeline| process(pipeline, key).unwrap().result;
        assert_eq!(hash(&mut pipeline), 100 + (0x2582_363eu32 % 1000) as u16, "the default is CRC-32");
        // CRC-32C of 0a 00 00 01 01 ff.
        let mut parameters = CrcParameters {
            width: 32,
            polynomial: 0x1edc_6f41,
            initial: u32::MAX,
            final_xor: u32::MAX,
            reflect_input: true,
            reflect_output: true,
        };
        pipeline.set_crc_parameters("calc", parameters).unwrap();
        assert_eq!(hash(&mut pipeline), 100 + (0xf73e_9d0eu32 % 1000) as u16, "{engine:?}");
        parameters.width = 16;
        assert!(pipeline.set_crc_parameters("calc", parameters).is_err());
        assert!(pipeline.set_crc_parameters("nowhere", parameters).is_err());
        assert!(pipeline.has_calculation("calc") && !pipeline.has_calculation("nowhere"));
    }
}

/// The same with 16 bits.
#[test]
fn a_custom_crc_of_16_bits_has_the_parameters_that_were_set() {
    let text = include_str!("../data/tables.json").replacen("\"crc32\"", "\"crc16_custom\"", 1);
    let key = Key { what: 15, addr: 0x0a00_0001, port: 0x1ff, ..Key::default() };
    for engine in [Engine::Compiled, Engine::Interpreter] {
        let mut pipeline = Pipeline::new(Program::load(&text, engine).unwrap(), 1);
        let hash = |pipeline: &mut Pipeline| process(pipeline, key).unwrap().result;
        // CRC-16/ARC of 0a 00 00 01 01 ff.
        assert_eq!(hash(&mut pipeline), 100 + 0xba10 % 1000, "the default");
        // CRC-16/X-25.
        let mut parameters = CrcParameters {
            width: 16,
            polynomial: 0x1021,
            initial: 0xffff,
            final_xor: 0xffff,
            reflect_input: true,
            reflect_output: true,
        };
        pipeline.set_crc_parameters("calc", parameters).unwrap();
        assert_eq!(hash(&mut pipeline), 100 + 0x92fd % 1000, "{engine:?}");
        parameters.width = 32;
        assert!(pipeline.set_crc_parameters("calc", parameters).is_err());
        assert_eq!(hash(&mut pipeline), 100 + 0x92fd % 1000, "an error changes nothing");
    }
}

#[test]
fn resubmit_and_recirculate_keep_their_list() {
    let (mut pipeline, mut effects) = (pipeline("tables"), SideEffects::default());
    let frame = Key { what: 12, port: 0x66, ..Key::default() }.bytes();
    let mut packet = Packet::from_bytes(&frame);
    let meta = IngressMeta { port: 3, now: 5 };
    assert_eq!(pipeline.ingress(&mut packet, meta, &mut effects), IngressVerdict::Resubmit);
    assert_eq!(packet.bytes(), frame, "the resubmitted packet is unchanged");
    assert_eq!(
        pipeline.ingress(&mut packet, meta, &mut effects),
        IngressVerdict::Unicast { port: 1, priority: 0 }
    );
    assert_eq!(pipeline.egress(&mut packet, EgressMeta::default(), &mut effects), EgressVerdict::Send);
    const RESUBMITTED: u16 = 6;
    assert_eq!(Key::parse(packet.bytes()).result, RESUBMITTED);

    let key = Key { what: 20, port: 0x66, ..Key::default() };
    let mut packet = Packet::from_bytes(&key.bytes());
    pipeline.ingress(&mut packet, meta, &mut effects);
    assert_eq!(pipeline.egress(&mut packet, EgressMeta::default(), &mut effects), EgressVerdict::Recirculate);
    let sent = Key::parse(&run(&mut pipeline, &mut packet, &mut effects).unwrap());
    assert_eq!((sent.what, sent.port), (21, 0x67));
}

#[test]
fn clones_keep_their_field_list() {
    let (mut pipeline, mut effects) = (pipeline("tables"), SideEffects::default());
    let key = Key { what: 13, port: 0x99, ..Key::default() };
    let sent = Key::parse(&send(&mut pipeline, &key.bytes(), &mut effects).unwrap());
    assert_eq!(sent.result, 0xbad);
    let mut clone = effects.clones.pop().unwrap();
    assert_eq!((clone.session, effects.clones.len()), (5, 0));
    assert_eq!(pipeline.egress(&mut clone.packet, EgressMeta::default(), &mut effects), EgressVerdict::Send);
    // The clone has the bytes of the received packet, and only the metadata of the field list.
    let cloned = Key::parse(clone.packet.bytes());
    assert_eq!((cloned.result, cloned.port, cloned.small), (0, 0x99, 0));

    let key = Key { what: 24, port: 1, ..Key::default() };
    let sent = Key::parse(&send(&mut pipeline, &key.bytes(), &mut effects).unwrap());
    let mut clone = effects.clones.pop().unwrap();
    assert_eq!((clone.session, sent.what, sent.result), (6, 25, 0x11));
    assert_eq!(pipeline.egress(&mut clone.packet, EgressMeta::default(), &mut effects), EgressVerdict::Send);
    assert_eq!(Key::parse(clone.packet.bytes()), sent, "cloned at the end of egress");
}

#[test]
fn drop_multicast_truncate_exit_priority() {
    let (mut pipeline, mut effects) = (pipeline("tables"), SideEffects::default());
    let mut verdict = |key: Key| {
        let mut packet = Packet::from_bytes(&key.bytes());
        pipeline.ingress(&mut packet, IngressMeta { port: 3, now: 5 }, &mut effects)
    };
    let key = Key { what: 14, port: 4, ..Key::default() };
    assert_eq!(verdict(key), IngressVerdict::Multicast { group: 4, priority: 0 });
    assert_eq!(verdict(Key { small: 1, ..key }), IngressVerdict::Drop, "a drop cancels the multicast");
    assert_eq!(verdict(Key { what: 19, ..key }), IngressVerdict::Unicast { port: 1, priority: 5 });
    let failed = IngressVerdict::Abort(DropReason::AssertionFailed);
    assert_eq!(verdict(Key { what: 19, small: 1, ..key }), failed);

    assert_eq!(process(&mut pipeline, Key { what: 17, small: 1, ..Key::default() }).unwrap().result, 1);
    assert_eq!(process(&mut pipeline, Key { what: 17, small: 2, ..Key::default() }).unwrap().result, 2);
    let frame = Key { what: 18, ..Key::default() }.bytes();
    assert_eq!(send(&mut pipeline, &frame, &mut SideEffects::default()).unwrap(), frame[..10]);
    assert_eq!(process(&mut pipeline, Key { what: 22, ..Key::default() }), None);
    let seen = process(&mut pipeline, Key { what: 23, ..Key::default() }).unwrap();
    assert_eq!((seen.port, seen.addr, seen.small, seen.result), (26, 7, 9, 0x1234));
}

#[test]
fn a_saved_state_is_restored_with_its_handles() {
    let mut old = pipeline("tables");
    let exact_table = old.table_by_name("exact_one").unwrap();
    let handles: Vec<EntryHandle> = (0..4u8)
        .map(|n| old.table_add(exact_table, &[exact(n)], 0, &result(n.into()).of(&old, exact_table)).unwrap())
        .collect();
    old.table_delete(exact_table, handles[1]).unwrap();
    old.table_set_default(exact_table, &result(77).of(&old, exact_table)).unwrap();
    let members: Vec<_> =
        (0..3).map(|n| old.member_add("chosen", &result(n).member(&old, "chosen")).unwrap()).collect();
    old.member_delete("chosen", members[0]).unwrap();
    let group = old.group_add("chosen", &[members[1], members[2], members[2]]).unwrap();
    let saved = old.save_state();

    let mut new = pipeline("tables");
    new.restore_state(&saved).unwrap();
    assert_eq!(new.save_state(), saved);
    assert_eq!(new.table_entries(exact_table), old.table_entries(exact_table));
    assert_eq!(new.table_default(exact_table), old.table_default(exact_table));
    assert!(new.table_default(exact_table).is_some());
    assert_eq!(new.members("chosen"), old.members("chosen"));
    assert_eq!(new.groups("chosen"), Ok(vec![(group, vec![members[1], members[2], members[2]])]));
    // The gaps are used by later entries and members.
    assert_eq!(
        new.table_add(exact_table, &[exact(9u8)], 0, &result(9).of(&new, exact_table)),
        Ok(handles[1])
    );
    assert_eq!(new.table_len(exact_table), 4);
    assert_eq!(new.member_add("chosen", &result(9).member(&new, "chosen")), Ok(members[0]));
    for (text, expected) in [
        ("{", "not JSON"),
        ("{}", "has no version 1"),
        (r#"{"version":1}"#, "has no action_profiles"),
        (&saved.replacen("exact_one", "other_one", 1), "other_one"),
        (&saved.replacen("\"exact\":\"", "\"exact\":\"zz", 1), "hexadecimal"),
    ] {
        let error = pipeline("tables").restore_state(text).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
