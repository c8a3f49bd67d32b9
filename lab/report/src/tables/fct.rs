//! Flow completion times in the format of the HPCC simulator.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use weir_experiment::results::SchemeTrace;

/// Returns lines `sip dip sport dport size start fct ideal` for finished flows, with addresses in hexadecimal and
/// times in nanoseconds, as read by the HPCC simulator's `fct_analysis.py`. The destination port distinguishes incast
/// flows from others.
pub(super) fn text(trace: &SchemeTrace, addresses: &BTreeMap<String, Ipv4Addr>) -> String {
    const NORMAL: u32 = 100;
    const INCAST: u32 = 200;
    let address = |name: &str| addresses.get(name).map_or(0, |ip| ip.to_bits());
    let mut text = String::new();
    for flow in &trace.flows {
        let (Some(size), Some(fct), Some(ideal)) = (flow.size, flow.fct, flow.ideal) else { continue };
        let (from, to) = (address(&flow.from), address(&flow.to));
        let (port, start) = (if flow.incast { INCAST } else { NORMAL }, flow.start.as_ns());
        let (sport, size, fct, ideal) = (flow.port, size.get(), fct.as_ns(), ideal.as_ns());
        writeln!(text, "{from:08x} {to:08x} {sport} {port} {size} {start} {fct} {ideal}")
            .expect("writing to a String does not fail");
    }
    text
}
