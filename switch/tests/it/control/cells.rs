//! Counters, meters and registers, indexed and direct.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::p4_data::Data;
use p4runtime::p4::v1::update::Type::{Insert, Modify};
use p4runtime::p4::v1::*;
use p4runtime::p4info::Object;

#[test]
fn direct_counters_and_meters_go_with_their_entries() {
    let mut d = Device::new();
    let data = CounterData { packet_count: 5, byte_count: 700 };
    let counted = TableEntry {
        counter_data: Some(data),
        ..d.entry("lpm_one", &[lpm(0x0a00_0000, 8)], 0, d.call("counted", &[3]))
    };
    d.ok(Insert, Kind::TableEntry(counted.clone()));
    let asked = TableEntry { action: None, counter_data: Some(CounterData::default()), ..counted.clone() };
    assert_eq!(d.read(Kind::TableEntry(asked)).unwrap(), [Kind::TableEntry(counted.clone())]);
    let named = TableEntry { action: None, counter_data: None, ..counted.clone() };
    let direct =
        |data| Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(named.clone()), data });
    let more = CounterData { packet_count: 6, byte_count: 800 };
    d.ok(Modify, direct(Some(more)));
    assert_eq!(d.read(direct(None)).unwrap(), [direct(Some(more))]);
    d.refused(Insert, direct(Some(more)), Code::InvalidArgument, "can only be modified");
    let negative = CounterData { packet_count: -1, byte_count: 0 };
    d.refused(Modify, direct(Some(negative)), Code::InvalidArgument, "counter value -1 is negative");
    let absent = d.entry("lpm_one", &[lpm(0x0b00_0000, 8)], 0, None);
    let absent = Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(absent), data: None });
    assert_eq!(d.read(absent.clone()).unwrap_err().code, Code::NotFound);
    d.refused(Modify, absent, Code::NotFound, "no such entry");
    let uncounted = TableEntry { counter_data: Some(data), ..d.exact_one(1, 2) };
    d.refused(Insert, Kind::TableEntry(uncounted), Code::InvalidArgument, "has no direct counter");

    let config = MeterConfig { cir: 100, cburst: 10, pir: 200, pburst: 20, eburst: 0 };
    let metered = TableEntry {
        meter_config: Some(config),
        ..d.entry("ternary_one", &[ternary(1, 1)], 3, d.call("paced", &[1]))
    };
    d.ok(Insert, Kind::TableEntry(metered.clone()));
    let named = TableEntry { action: None, meter_config: None, ..metered.clone() };
    let direct = |config| {
        Kind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(named.clone()),
            config,
            counter_data: None,
        })
    };
    let read = |d: &Device| match &d.read(direct(None)).unwrap()[..] {
        [Kind::DirectMeterEntry(entry)] => entry.config,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&d), Some(config));
    d.ok(Modify, direct(None));
    assert_eq!(read(&d), None);
    d.refused(Modify, direct(Some(MeterConfig { eburst: 1, ..config })), Code::InvalidArgument, "eburst");
    let upside_down = Some(MeterConfig { pir: 50, ..config });
    d.refused(Modify, direct(upside_down), Code::InvalidArgument, "below the rate");
    let dropping = TableEntry { action: d.call("drop", &[]), meter_config: upside_down, ..metered.clone() };
    d.refused(Modify, Kind::TableEntry(dropping), Code::InvalidArgument, "below the rate");
    d.refused(
        Modify,
        direct(Some(MeterConfig { cir: -1, ..config })),
        Code::InvalidArgument,
        "meter rate or burst -1 is negative",
    );
}

#[test]
fn cells_are_written_one_or_all() {
    let mut d = Device::new();
    let (register, counter, meter) = (
        d.index().registers.named("cells").unwrap().preamble().id,
        d.index().counters.named("ports").unwrap().preamble().id,
        d.index().meters.named("limits").unwrap().preamble().id,
    );
    let cell = |index, value: &[u8]| {
        let data = Some(P4Data { data: Some(Data::Bitstring(value.to_vec())) });
        Kind::RegisterEntry(RegisterEntry { register_id: register, index, data })
    };
    d.ok(Modify, cell(at(3), &[0x0a, 0xbc]));
    let read = |index| Kind::RegisterEntry(RegisterEntry { register_id: register, index, data: None });
    assert_eq!(d.read(read(at(3))).unwrap(), [cell(at(3), &[0x0a, 0xbc])]);
    assert_eq!(d.read(read(None)).unwrap().len(), 16);
    d.ok(Modify, cell(None, &[7]));
    assert!(d.read(read(None)).unwrap().iter().zip(0..).all(|(it, i)| *it == cell(at(i), &[7])));
    d.refused(Modify, cell(at(16), &[1]), Code::OutOfRange, "out of range (size 16)");
    d.refused(Modify, cell(at(-1), &[1]), Code::InvalidArgument, "is negative");
    d.refused(Modify, cell(at(0), &[0x10, 0]), Code::InvalidArgument, "does not fit 12 bits");
    d.refused(Insert, cell(at(0), &[1]), Code::InvalidArgument, "can only be modified");
    let valueless = RegisterEntry { register_id: register, index: at(0), data: None };
    d.refused(Modify, Kind::RegisterEntry(valueless), Code::InvalidArgument, "takes a bit string of 12 bits");
    let unknown = RegisterEntry { register_id: 5, ..RegisterEntry::default() };
    d.refused(Modify, Kind::RegisterEntry(unknown), Code::InvalidArgument, "there is no register");

    let data = CounterData { packet_count: 1, byte_count: 2 };
    let count = |index, data| Kind::CounterEntry(CounterEntry { counter_id: counter, index, data });
    d.ok(Modify, count(at(7), Some(data)));
    d.ok(Modify, count(at(7), None));
    assert_eq!(d.read(count(at(7), None)).unwrap(), [count(at(7), Some(data))]);
    assert_eq!(d.read(count(None, None)).unwrap().len(), 8);
    d.refused(Modify, count(at(8), Some(data)), Code::OutOfRange, "out of range (size 8)");

    let config = MeterConfig { cir: 1000, cburst: 100, pir: 2000, pburst: 200, eburst: 0 };
    let limit =
        |index, config| Kind::MeterEntry(MeterEntry { meter_id: meter, index, config, counter_data: None });
    d.ok(Modify, limit(None, Some(config)));
    d.ok(Modify, limit(at(1), None));
    assert_eq!(d.read(limit(at(0), None)).unwrap(), [limit(at(0), Some(config))]);
    assert_eq!(d.read(limit(at(1), None)).unwrap(), [limit(at(1), None)]);
    let coloured = MeterEntry { counter_data: Some(MeterCounterData::default()), ..MeterEntry::default() };
    assert_eq!(d.read(Kind::MeterEntry(coloured)).unwrap_err().code, Code::Unimplemented);
}
