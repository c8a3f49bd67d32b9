//! The CSV files: one row for each sample, with the scheme in the first column. Times are in
//! microseconds, exact to the picosecond.

use super::format::micros;
use super::names::file_name;
use csv::Writer;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::Ipv4Addr;
use std::{fs, fs::File, io, path::Path};
use weir_experiment::results::{Results, SchemeTrace};
use weir_units::Time;

/// The CSV files to write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tables {
    /// `flows.csv`: one row for each flow.
    pub flows: bool,
    /// `queues.csv`: queue and utilisation of each observed port at each sample.
    pub queues: bool,
    /// `rates.csv`: pacing rate and goodput of each observed flow at each sample.
    pub rates: bool,
    /// `pauses.csv`: each PFC frame.
    pub pauses: bool,
    /// `fct-<scheme>.txt`: finished flows in the HPCC simulator's eight columns.
    pub fct: bool,
}

/// Writes the chosen tables into `dir`; `addresses` are those of the hosts.
pub fn write(
    dir: &Path,
    tables: Tables,
    addresses: &BTreeMap<String, Ipv4Addr>,
    results: &Results,
) -> io::Result<()> {
    let traces =
        || results.order.iter().filter_map(|label| Some((label.as_str(), results.traces.get(label)?)));
    if tables.flows {
        let head = "scheme,flow,from,to,size_bytes,start_us,fct_us,ideal_us,slowdown,acked_bytes,retransmits";
        file(&dir.join("flows.csv"), head, traces(), flows)?;
    }
    if tables.queues {
        file(
            &dir.join("queues.csv"),
            "scheme,time_us,port,towards,queue_bytes,utilisation",
            traces(),
            queues,
        )?;
    }
    if tables.rates {
        file(&dir.join("rates.csv"), "scheme,time_us,flow,rate_bps,goodput_bps", traces(), rates)?;
    }
    if tables.pauses {
        file(&dir.join("pauses.csv"), "scheme,time_us,switch,port,priority,event", traces(), pauses)?;
    }
    if tables.fct {
        for (label, trace) in traces() {
            fs::write(dir.join(format!("fct-{}.txt", file_name(label))), fct(trace, addresses))?;
        }
    }
    Ok(())
}

/// `sip dip sport dport size start fct ideal`, addresses in hexadecimal and times in nanoseconds, as the HPCC simulator's
/// fct files, whose `fct_analysis.py` reads it. The port that it goes to says what a flow is.
fn fct(trace: &SchemeTrace, addresses: &BTreeMap<String, Ipv4Addr>) -> String {
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

type Rows = fn(&mut Writer<File>, &str, &SchemeTrace) -> csv::Result<()>;

fn file<'a>(
    path: &Path,
    head: &str,
    traces: impl Iterator<Item = (&'a str, &'a SchemeTrace)>,
    rows: Rows,
) -> io::Result<()> {
    let mut writer = Writer::from_path(path)?;
    writer.write_record(head.split(','))?;
    for (label, trace) in traces {
        rows(&mut writer, label, trace)?;
    }
    writer.flush()
}

fn flows(writer: &mut Writer<File>, scheme: &str, trace: &SchemeTrace) -> csv::Result<()> {
    let text = |time: Option<Time>| time.map(micros).unwrap_or_default();
    for flow in &trace.flows {
        writer.write_record([
            scheme,
            &flow.name(),
            &flow.from,
            &flow.to,
            &flow.size.map(|s| s.get().to_string()).unwrap_or_default(),
            &micros(flow.start),
            &text(flow.fct),
            &text(flow.ideal),
            &flow.slowdown().map(|s| format!("{s:.4}")).unwrap_or_default(),
            &flow.acked.get().to_string(),
            &flow.retransmits.to_string(),
        ])?;
    }
    Ok(())
}

fn queues(writer: &mut Writer<File>, scheme: &str, trace: &SchemeTrace) -> csv::Result<()> {
    for port in &trace.ports {
        for (i, (bytes, utilisation)) in port.queue_bytes.iter().zip(&port.utilisation).enumerate() {
            let (time, bytes, utilisation) =
                (micros(trace.sample_time(i)), bytes.to_string(), format!("{utilisation:.4}"));
            writer.write_record([scheme, &time, &port.port, &port.towards, &bytes, &utilisation])?;
        }
    }
    Ok(())
}

fn rates(writer: &mut Writer<File>, scheme: &str, trace: &SchemeTrace) -> csv::Result<()> {
    for flow in &trace.rates {
        for (i, (rate, goodput)) in flow.rate.iter().zip(&flow.goodput).enumerate() {
            let (rate, goodput) = (rate.as_bps().to_string(), goodput.as_bps().to_string());
            writer.write_record([scheme, &micros(trace.sample_time(i)), &flow.flow, &rate, &goodput])?;
        }
    }
    Ok(())
}

fn pauses(writer: &mut Writer<File>, scheme: &str, trace: &SchemeTrace) -> csv::Result<()> {
    for pause in &trace.pauses {
        let event = if pause.on { "pause" } else { "resume" };
        let (port, priority) = (pause.port.to_string(), pause.priority.to_string());
        writer.write_record([scheme, &micros(pause.time), &pause.switch, &port, &priority, event])?;
    }
    Ok(())
}
