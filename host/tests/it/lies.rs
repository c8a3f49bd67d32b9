//! The effect of a switch that writes false telemetry for one sender. The numbers are those of `docs/threats.md`.

use weir_host::schemes::Registry;
use weir_testkit::net::{RATE, RecordTamper, TestNetwork};
use weir_units::Time;

const LIES: [(&str, RecordTamper); 4] = [
    ("queue always 0", |record| record.queue_units = 0),
    ("queue and bytes always 0", |record| (record.queue_units, record.tx_units) = (0, 0)),
    ("queue always full", |record| record.queue_units = u16::MAX),
    ("time runs backwards", |record| record.timestamp = (1 << 24) - 1 - record.timestamp),
];

/// Returns the shares of a 100 Gbit/s link in percent that the deceived and the other sender get from 1 ms to 4 ms, and
/// the longest queue in KB.
fn outcome(scheme: &str, lie: Option<RecordTamper>) -> [u64; 3] {
    let scheme = Registry::builtin().make::<&str, &str>(scheme, &[]).unwrap();
    let mut net = TestNetwork::star(3, &scheme);
    net.tamper = lie.map(|lie| (0, lie));
    let flows = [0, 1].map(|host| net.open(host, 2, None));
    net.run_until(Time::from_ms(1));
    let acked = |net: &TestNetwork| [0, 1].map(|host| net.flow(host, flows[host]).acked.as_f64());
    let before = acked(&net);
    net.run_until(Time::from_ms(4));
    let after = acked(&net);
    let capacity = RATE.bytes_in(Time::from_ms(3)).as_f64();
    let share = |host: usize| ((after[host] - before[host]) / capacity * 100.0).round() as u64;
    [share(0), share(1), net.peak_queue[2] / 1_000]
}

/// False telemetry cannot raise a sender's rate above its NIC's or its window above the initial one, so the queue has
/// the same bound as with true telemetry. Within this bound the deceived sender may take nearly the whole link, or
/// almost nothing.
#[test]
fn a_lying_switch_gains_at_most_the_window_of_the_deceived_sender() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/threats.md")).unwrap();
    let mut rows = Vec::new();
    for scheme in ["hpcc", "fncc"] {
        rows.push((scheme, "none", outcome(scheme, None)));
        for (name, lie) in LIES {
            let [deceived, other, queue] = outcome(scheme, Some(lie));
            rows.push((scheme, name, [deceived, other, queue]));
            assert!(deceived + other <= 100, "{scheme}, {name}");
            // Two windows of 81 KB, with headers.
            assert!(queue <= 170, "{scheme}, {name}: {queue} KB");
        }
    }
    let rows = rows.iter().map(|(scheme, name, [deceived, other, queue])| {
        format!("| {scheme} | {name} | {deceived} % | {other} % | {queue} KB |")
    });
    let missing: Vec<String> = rows.filter(|row| !page.contains(row)).collect();
    assert!(missing.is_empty(), "docs/threats.md needs these rows:\n{}", missing.join("\n"));
}
