//! The cost of one DATA packet and its ACK: emitting and receiving both, and running the scheme. Telemetry of three
//! hops is written into the frames, as switches would do.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use std::hint::black_box;
use std::net::Ipv4Addr;
use weir_host::scheme::TelemetrySource;
use weir_host::schemes::Registry;
use weir_host::wire::{HEADERS_LEN, INT_RECORD_LEN, IntRecord, MAX_HEADER_LEN, RateCode, internet_checksum};
use weir_host::{FlowSpec, Host, HostConfig, Transmit};
use weir_units::{Bandwidth, Bytes, Time};

const RATE: Bandwidth = Bandwidth::from_gbps(100);
const T: Time = Time::from_us(12);
const HOPS: usize = 3;
const SENDER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const RECEIVER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

struct HostPair {
    sender: Host,
    receiver: Host,
    now: Time,
    telemetry: TelemetrySource,
    sent: u64,
    head: [u8; MAX_HEADER_LEN],
}

impl HostPair {
    fn new(scheme: &str, flows: u32) -> HostPair {
        let scheme = Registry::builtin().get(scheme).expect("a built-in scheme");
        let host =
            |addr| Host::new(HostConfig::new(addr, RATE, T, scheme.clone())).expect("a valid configuration");
        let mut pair = HostPair {
            sender: host(SENDER),
            receiver: host(RECEIVER),
            now: Time::ZERO,
            telemetry: scheme.needs().telemetry,
            sent: 0,
            head: [0; MAX_HEADER_LEN],
        };
        for message in 0..flows {
            let entropy_port = 49_152 + (message % 16_384) as u16;
            let spec = FlowSpec { peer: RECEIVER, next_hop_mac: [2; 6], entropy_port, size: None, message };
            pair.sender.open(Time::ZERO, spec).expect("an unused message id");
        }
        pair
    }

    /// Inserts three telemetry records of links with a utilisation of 90 % behind the headers, and updates hop count,
    /// lengths and checksum. Returns the new length.
    fn insert_records(&mut self, len: usize) -> usize {
        let rate = RateCode::from_bandwidth(RATE).expect("100 Gbit/s has a code");
        let record =
            IntRecord::from_counters(rate, self.now.as_ns(), Bytes::new(self.sent * 9 / 10), Bytes::ZERO);
        for hop in 0..HOPS {
            let offset = HEADERS_LEN + hop * INT_RECORD_LEN;
            self.head[offset..offset + INT_RECORD_LEN].copy_from_slice(&record.pack().to_be_bytes());
        }
        // Hop count in the Weir header.
        self.head[48] = (HOPS as u8) << 4;
        // Total length in the IPv4 header, and length in the UDP header.
        for offset in [16, 38] {
            let length = u16::from_be_bytes([self.head[offset], self.head[offset + 1]]);
            let length = length + (HOPS * INT_RECORD_LEN) as u16;
            self.head[offset..offset + 2].copy_from_slice(&length.to_be_bytes());
        }
        // IPv4 checksum.
        self.head[24..26].copy_from_slice(&[0, 0]);
        let sum = internet_checksum(&self.head[14..34]);
        self.head[24..26].copy_from_slice(&sum.to_be_bytes());
        len + HOPS * INT_RECORD_LEN
    }

    /// Passes one DATA packet to the receiver and its ACK back to the sender.
    fn round_trip(&mut self) {
        loop {
            if let Transmit::Frame { mut head_len, payload, .. } =
                self.sender.transmit(self.now, 0, &mut self.head)
            {
                self.sent += head_len as u64 + u64::from(payload);
                if self.telemetry == TelemetrySource::Data {
                    head_len = self.insert_records(head_len);
                }
                self.receiver.receive(self.now, &self.head[..head_len], payload);
                break;
            }
            self.now = self.sender.next_wakeup().expect("pacing releases the next packet").max(self.now);
            self.sender.wakeup(self.now);
        }
        if let Transmit::Frame { mut head_len, .. } = self.receiver.transmit(self.now, 0, &mut self.head) {
            if self.telemetry == TelemetrySource::Acks {
                head_len = self.insert_records(head_len);
            }
            self.sender.receive(self.now, &self.head[..head_len], 0);
        }
        // Transmission time of a full frame at 100 Gbit/s.
        self.now += Time::from_ns(122);
    }
}

fn transport(c: &mut Criterion) {
    let mut group = c.benchmark_group("data_packet_and_ack");
    group.throughput(Throughput::Elements(1));
    for scheme in ["hpcc", "fncc"] {
        for flows in [1, 5_000] {
            let mut pair = HostPair::new(scheme, flows);
            for _ in 0..2 * flows {
                pair.round_trip();
            }
            group.bench_function(format!("{scheme}/{flows}_flows"), |b| {
                b.iter(|| black_box(&mut pair).round_trip())
            });
            let stats = pair.sender.stats();
            assert_eq!((stats.drops.total(), stats.retransmits, stats.telemetry.total()), (0, 0, 0));
        }
    }
    group.finish();
}

criterion_group!(benches, transport);
criterion_main!(benches);
