//! A run for the Perfetto UI (<https://ui.perfetto.dev>), in Chrome's JSON trace format.
//!
//! Every switch and host under every scheme is a process. A port is a thread for each priority class, whose slices are the
//! PFC pauses that it sent, with counters of its queue and its load. A flow is an asynchronous slice of its sender, with a counter of its rate.

use super::figures::carried;
use super::format;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use weir_experiment::results::{PauseRecord, Results, SchemeTrace};
use weir_units::Time;

/// Writes the series of a run as one trace.
///
/// # Errors
///
/// The error of `out`.
pub fn write(results: &Results, out: &mut impl Write) -> io::Result<()> {
    let mut trace = Trace { out, first: true, processes: BTreeMap::new(), asynchronous: 0 };
    trace.out.write_all(b"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[")?;
    for (scheme, series) in results.order.iter().filter_map(|label| Some((label, results.traces.get(label)?)))
    {
        trace.scheme(scheme, series)?;
    }
    trace.out.write_all(b"\n]}\n")
}

struct Trace<'a, W> {
    out: &'a mut W,
    first: bool,
    /// Process numbers of nodes under schemes.
    processes: BTreeMap<String, usize>,
    /// Asynchronous slices so far.
    asynchronous: usize,
}

/// The thread of a port and a class. Pauses of different classes may overlap, which slices of one thread must not.
fn thread(port: u16, class: u8) -> u64 {
    const CLASSES: u64 = 256;
    u64::from(port) * CLASSES + u64::from(class)
}

impl<W: Write> Trace<'_, W> {
    fn event(&mut self, event: &Value) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.first) { "\n" } else { ",\n" };
        self.out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }

    /// The number of a node's process, which is named when it is first asked for.
    fn process(&mut self, scheme: &str, node: &str) -> io::Result<usize> {
        let name = format!("{scheme}: {node}");
        if let Some(&pid) = self.processes.get(&name) {
            return Ok(pid);
        }
        let pid = self.processes.len() + 1;
        self.event(&json!({"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}))?;
        self.event(
            &json!({"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}),
        )?;
        self.processes.insert(name, pid);
        Ok(pid)
    }

    fn scheme(&mut self, scheme: &str, series: &SchemeTrace) -> io::Result<()> {
        for port in &series.ports {
            let (switch, _) = port.port.rsplit_once(':').unwrap_or((&port.port, ""));
            let pid = self.process(scheme, switch)?;
            let name = |what: &str| format!("{} towards {}: {what}", port.port, port.towards);
            let queue = port.queue_bytes.iter().map(|&bytes| json!(bytes));
            self.counter(pid, &name("queue"), "bytes", series.interval, queue)?;
            let load =
                carried(&port.utilisation).into_iter().map(|share| json!((1e3 * share).round() / 10.0));
            self.counter(pid, &name("load"), "percent", series.interval, load)?;
        }
        self.pauses(scheme, series)?;
        for flow in &series.flows {
            let pid = self.process(scheme, &flow.from)?;
            self.asynchronous += 1;
            let (name, id) = (format::flow(&flow.name()), self.asynchronous);
            let end = flow.fct.map_or(series.end, |fct| flow.start + fct);
            let slice = json!({
                "name": name, "cat": "flow", "id": id, "pid": pid, "tid": 0, "ph": "b", "ts": us(flow.start),
                "args": {
                    "to": *flow.to, "size_bytes": flow.size.map(weir_units::Bytes::get), "finished": flow.fct.is_some(),
                    "slowdown": flow.slowdown(), "acked_bytes": flow.acked.get(), "retransmits": flow.retransmits,
                },
            });
            self.event(&slice)?;
            self.event(&json!({"name": name, "cat": "flow", "id": id, "pid": pid, "tid": 0, "ph": "e", "ts": us(end)}))?;
        }
        for rate in &series.rates {
            let (from, _) = rate.flow.split_once("->").unwrap_or((&rate.flow, ""));
            let pid = self.process(scheme, from)?;
            let gbps = rate.rate.iter().map(|rate| json!(rate.as_bps_f64() / 1e9));
            self.counter(
                pid,
                &format!("{}: rate", format::flow(&rate.flow)),
                "Gbit/s",
                series.interval,
                gbps,
            )?;
        }
        Ok(())
    }

    /// A value at the beginning, and then at each sample that differs from the one before.
    fn counter(
        &mut self,
        pid: usize,
        name: &str,
        unit: &str,
        interval: Time,
        values: impl Iterator<Item = Value>,
    ) -> io::Result<()> {
        let mut last = json!(0);
        for (i, value) in std::iter::once(json!(0)).chain(values).enumerate() {
            if i == 0 || value != last {
                let ts = us(interval * i as u64);
                self.event(&json!({"ph": "C", "name": name, "pid": pid, "ts": ts, "args": {unit: value}}))?;
                last = value;
            }
        }
        Ok(())
    }

    /// Each pause of a port and class until its resume, or the end of the run.
    fn pauses(&mut self, scheme: &str, series: &SchemeTrace) -> io::Result<()> {
        let mut named = BTreeSet::new();
        let mut open: BTreeMap<(&str, u16, u8), Time> = BTreeMap::new();
        let mut slices: Vec<((&str, u16, u8), Time, Time)> = Vec::new();
        for PauseRecord { time, switch, port, priority, on } in &series.pauses {
            let key = (switch.as_str(), *port, *priority);
            match (on, open.get(&key)) {
                (true, None) => _ = open.insert(key, *time),
                (false, Some(&since)) => {
                    slices.push((key, since, *time));
                    open.remove(&key);
                }
                // A pause that is sent again goes on.
                _ => {}
            }
        }
        slices.extend(open.into_iter().map(|(key, since)| (key, since, series.end)));
        slices.sort_by_key(|slice| (slice.1, slice.0));
        for ((switch, port, class), since, until) in slices {
            let pid = self.process(scheme, switch)?;
            let tid = thread(port, class);
            if named.insert((pid, tid)) {
                let name = format!("{switch}:{port}, class {class}");
                let args = json!({"name": name});
                self.event(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": args}))?;
            }
            let duration = until.saturating_sub(since);
            let slice = json!({
                "name": "PFC pause", "cat": "pfc", "ph": "X", "pid": pid, "tid": tid, "ts": us(since),
                "dur": us(duration),
            });
            self.event(&slice)?;
        }
        Ok(())
    }
}

/// Microseconds, the unit of the format.
fn us(time: Time) -> f64 {
    time.as_us_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn events(results: &Results) -> Vec<Value> {
        let mut text = Vec::new();
        write(results, &mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn switches_are_processes_and_queues_counters() {
        let results = sample::dumbbell();
        let events = events(&results);
        let named = |name: &str| {
            let process = events.iter().find(|it| it["name"] == "process_name" && it["args"]["name"] == name);
            process.unwrap_or_else(|| panic!("{name}"))["pid"].clone()
        };
        for scheme in ["fncc", "hpcc eta=0.95"] {
            let pid = named(&format!("{scheme}: s1"));
            let queue = events.iter().filter(|it| it["pid"] == pid && it["name"] == "s1:3 towards s2: queue");
            let peak = queue.clone().map(|it| it["args"]["bytes"].as_u64().unwrap()).max();
            let port = &results.traces[scheme].ports[0];
            assert_eq!(peak, port.queue_bytes.iter().max().copied(), "{scheme}");
            let times: Vec<f64> = queue.map(|it| it["ts"].as_f64().unwrap()).collect();
            assert!(times.is_sorted() && times.len() > 10 && times[0] == 0.0, "{times:?}");
            let flows =
                events.iter().filter(|it| it["pid"] == named(&format!("{scheme}: h2")) && it["ph"] == "b");
            assert_eq!(flows.map(|it| it["ts"].as_f64().unwrap()).collect::<Vec<_>>(), [300.0]);
        }
        let load = events.iter().filter_map(|it| it["args"]["percent"].as_f64());
        assert!(load.fold(0.0, f64::max) <= 100.0);
    }

    #[test]
    fn every_slice_ends_and_pauses_do_not_overlap() {
        let events = events(&sample::workload());
        let ids = |ph: &str| -> Vec<u64> {
            events.iter().filter(|it| it["ph"] == ph).map(|it| it["id"].as_u64().unwrap()).collect()
        };
        assert!(ids("b").len() == 6000 && ids("b") == ids("e"));
        let mut until: BTreeMap<String, f64> = BTreeMap::new();
        let mut pauses = 0;
        for slice in events.iter().filter(|it| it["ph"] == "X") {
            let (ts, dur) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            let last = until.entry(format!("{}:{}", slice["pid"], slice["tid"])).or_default();
            assert!(ts >= *last && dur > 0.0, "{slice}");
            *last = ts + dur;
            pauses += 1;
        }
        assert!(pauses > 10, "{pauses}");
    }
}
