//! Completion times in the columns of the HPCC simulator.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use weir_experiment::results::SchemeTrace;

/// `sip dip sport dport size start fct ideal`, addresses in hexadecimal and times in nanoseconds, as the HPCC simulator's
/// fct files, whose `fct_analysis.py` reads it. The port that it goes to says what a flow is.
pub fn text(trace: &SchemeTrace, addresses: &BTreeMap<String, Ipv4Addr>) -> String {
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
            .expect("a String takes all");
    }
    text
}
