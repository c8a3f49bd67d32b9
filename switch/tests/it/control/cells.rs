//! Counters, meters and registers, indexed and direct.

use super::device::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::p4_data::Data;
use p4runtime::p4::v1::update::Type::{Insert, Modify};
use p4runtime::p4::v1::*;
use p4runtime::p4info::Object;

#[test]
fn direct_counters_and_meters_belong_to_their_entries() {
    let mut device = Device::new();
    let data = CounterData { packet_count: 5, byte_count: 700 };
    let counted = TableEntry {
        counter_data: Some(data),
        ..device.entry("lpm_one", &[lpm(0x0a00_0000, 8)], 0, device.call("counted", &[3]))
    };
    device.apply(Insert, Kind::TableEntry(counted.clone()));
    let request = TableEntry { action: None, counter_data: Some(CounterData::default()), ..counted.clone() };
    assert_eq!(device.read(Kind::TableEntry(request)).unwrap(), [Kind::TableEntry(counted.clone())]);
    let named = TableEntry { action: None, counter_data: None, ..counted.clone() };
    let direct =
        |data| Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(named.clone()), data });
    let more = CounterData { packet_count: 6, byte_count: 800 };
    device.apply(Modify, direct(Some(more)));
    assert_eq!(device.read(direct(None)).unwrap(), [direct(Some(more))]);
    device.expect_error(Insert, direct(Some(more)), Code::InvalidArgument, "can only be modified");
    let negative = CounterData { packet_count: -1, byte_count: 0 };
    device.expect_error(Modify, direct(Some(negative)), Code::InvalidArgument, "packet_count -1 is negative");
    let absent = device.entry("lpm_one", &[lpm(0x0b00_0000, 8)], 0, None);
    let absent = Kind::DirectCounterEntry(DirectCounterEntry { table_entry: Some(absent), data: None });
    assert_eq!(device.read(absent.clone()).unwrap_err().code, Code::NotFound);
    device.expect_error(Modify, absent, Code::NotFound, "no such entry");
    let uncounted = TableEntry { counter_data: Some(data), ..device.exact_one(1, 2) };
    device.expect_error(Insert, Kind::TableEntry(uncounted), Code::InvalidArgument, "has no direct counter");

    let config = MeterConfig { cir: 100, cburst: 10, pir: 200, pburst: 20, eburst: 0 };
    let metered = TableEntry {
        meter_config: Some(config),
        ..device.entry("ternary_one", &[ternary(1, 1)], 3, device.call("paced", &[1]))
    };
    device.apply(Insert, Kind::TableEntry(metered.clone()));
    let named = TableEntry { action: None, meter_config: None, ..metered.clone() };
    let direct = |config| {
        Kind::DirectMeterEntry(DirectMeterEntry {
            table_entry: Some(named.clone()),
            config,
            counter_data: None,
        })
    };
    let read = |device: &Device| match &device.read(direct(None)).unwrap()[..] {
        [Kind::DirectMeterEntry(entry)] => entry.config,
        other => panic!("{other:?}"),
    };
    assert_eq!(read(&device), Some(config));
    device.apply(Modify, direct(None));
    assert_eq!(read(&device), None);
    device.expect_error(
        Modify,
        direct(Some(MeterConfig { eburst: 1, ..config })),
        Code::InvalidArgument,
        "eburst",
    );
    let peak_below_committed = Some(MeterConfig { pir: 50, ..config });
    device.expect_error(Modify, direct(peak_below_committed), Code::InvalidArgument, "below cir");
    let dropping = TableEntry {
        action: device.call("drop", &[]),
        meter_config: peak_below_committed,
        ..metered.clone()
    };
    device.expect_error(Modify, Kind::TableEntry(dropping), Code::InvalidArgument, "below cir");
    device.expect_error(
        Modify,
        direct(Some(MeterConfig { cir: -1, ..config })),
        Code::InvalidArgument,
        "cir -1 is negative",
    );
}

#[test]
fn cells_are_written_individually_or_all_at_once() {
    let mut device = Device::new();
    let (register, counter, meter) = (
        device.index().registers.named("cells").unwrap().preamble().id,
        device.index().counters.named("ports").unwrap().preamble().id,
        device.index().meters.named("limits").unwrap().preamble().id,
    );
    let cell = |index, value: &[u8]| {
        let data = Some(P4Data { data: Some(Data::Bitstring(value.to_vec())) });
        Kind::RegisterEntry(RegisterEntry { register_id: register, index, data })
    };
    device.apply(Modify, cell(cell_index(3), &[0x0a, 0xbc]));
    let read = |index| Kind::RegisterEntry(RegisterEntry { register_id: register, index, data: None });
    assert_eq!(device.read(read(cell_index(3))).unwrap(), [cell(cell_index(3), &[0x0a, 0xbc])]);
    assert_eq!(device.read(read(None)).unwrap().len(), 16);
    device.apply(Modify, cell(None, &[7]));
    assert!(
        device
            .read(read(None))
            .unwrap()
            .iter()
            .zip(0..)
            .all(|(found, i)| *found == cell(cell_index(i), &[7]))
    );
    device.expect_error(Modify, cell(cell_index(16), &[1]), Code::OutOfRange, "out of range (size 16)");
    device.expect_error(Modify, cell(cell_index(-1), &[1]), Code::InvalidArgument, "is negative");
    device.expect_error(
        Modify,
        cell(cell_index(0), &[0x10, 0]),
        Code::InvalidArgument,
        "does not fit 12 bits",
    );
    device.expect_error(Insert, cell(cell_index(0), &[1]), Code::InvalidArgument, "can only be modified");
    let valueless = RegisterEntry { register_id: register, index: cell_index(0), data: None };
    device.expect_error(
        Modify,
        Kind::RegisterEntry(valueless),
        Code::InvalidArgument,
        "must be a bit string of 12 bits",
    );
    let unknown = RegisterEntry { register_id: 5, ..RegisterEntry::default() };
    device.expect_error(Modify, Kind::RegisterEntry(unknown), Code::InvalidArgument, "there is no register");

    let data = CounterData { packet_count: 1, byte_count: 2 };
    let count = |index, data| Kind::CounterEntry(CounterEntry { counter_id: counter, index, data });
    device.apply(Modify, count(cell_index(7), Some(data)));
    device.apply(Modify, count(cell_index(7), None));
    assert_eq!(device.read(count(cell_index(7), None)).unwrap(), [count(cell_index(7), Some(data))]);
    assert_eq!(device.read(count(None, None)).unwrap().len(), 8);
    device.expect_error(Modify, count(cell_index(8), Some(data)), Code::OutOfRange, "out of range (size 8)");

    let config = MeterConfig { cir: 1000, cburst: 100, pir: 2000, pburst: 200, eburst: 0 };
    let limit =
        |index, config| Kind::MeterEntry(MeterEntry { meter_id: meter, index, config, counter_data: None });
    device.apply(Modify, limit(None, Some(config)));
    device.apply(Modify, limit(cell_index(1), None));
    assert_eq!(device.read(limit(cell_index(0), None)).unwrap(), [limit(cell_index(0), Some(config))]);
    assert_eq!(device.read(limit(cell_index(1), None)).unwrap(), [limit(cell_index(1), None)]);
    let coloured = MeterEntry { counter_data: Some(MeterCounterData::default()), ..MeterEntry::default() };
    assert_eq!(device.read(Kind::MeterEntry(coloured)).unwrap_err().code, Code::Unimplemented);
}
