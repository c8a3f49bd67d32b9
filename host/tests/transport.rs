//! Whole transfers between hosts, with every scheme there is.

mod common;

use common::{Faults, Net, RATE, all_schemes, scheme};
use proptest::prelude::*;
use weir_host::HostEvent;
use weir_host::wire::HEADERS_LEN;
use weir_units::{Bytes, Time};

/// One flow alone takes what the law of line rate says, and nothing is repeated or dropped.
#[test]
fn a_flow_alone_runs_at_line_rate() {
    for scheme in all_schemes() {
        let mut net = Net::star(2, &scheme);
        let size = Bytes::new(10_000_000);
        net.open(0, 1, Some(size));
        net.run_to_end(Time::from_ms(2));
        let payload = net.hosts[0].config().payload().unwrap().get();
        let wire = size.get() + size.get().div_ceil(payload) * HEADERS_LEN as u64;
        let ideal = RATE.tx_time(Bytes::new(wire)) + Time::from_us(6);
        let fct = net.fcts()[0];
        assert!(fct >= ideal, "{}: {fct} is faster than the link's {ideal}", scheme.name());
        assert!(fct < ideal * 110 / 100, "{}: {fct} against an ideal {ideal}", scheme.name());
        assert_eq!(net.hosts[0].stats().retransmits, 0);
        assert_eq!(net.hosts[0].stats().drops.total() + net.hosts[1].stats().drops.total(), 0);
        assert_eq!(net.hosts[1].stats().payload_received, size.get());
    }
}
