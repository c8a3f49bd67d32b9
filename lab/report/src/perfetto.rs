//! Exports a run to the Perfetto UI (<https://ui.perfetto.dev>), in Chrome's JSON trace format.
//!
//! Every pair of a scheme and a node is a process. A port is a thread for each priority class, whose slices are the
//! PFC pauses that it sent, with counters of its queue and its utilisation. A flow is an asynchronous slice of its
//! sender, with a counter of its rate. A packet is a slice of its sender and of every switch on its path, connected
//! by flow arrows.

use super::figures::carry_over_utilisation;
use super::format;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use weir_experiment::results::{PacketPath, PauseRecord, Results, SchemeTrace};
use weir_units::Time;

/// Writes the series of a run as one trace.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write(results: &Results, out: &mut impl Write) -> io::Result<()> {
    let mut trace = Trace::begin(out)?;
    for (scheme, series) in results.order.iter().filter_map(|label| Some((label, results.traces.get(label)?)))
    {
        trace.scheme(scheme, series)?;
    }
    trace.end()
}

/// The traversal of a switch by a packet, for `weir trace`.
pub struct SwitchTraversal {
    pub switch: String,
    /// Name of the packet.
    pub name: String,
    /// Processing steps in order.
    pub steps: Vec<String>,
    /// Index of the traversal from which the packet came; `None` for the first one.
    pub from: Option<usize>,
}

/// Writes traversals in sequence: a slice for each, with a nested slice for each step. An arrow leads from a
/// traversal to the first one that followed. Steps have no duration in P4; each is drawn as one microsecond.
///
/// # Errors
///
/// If `out` cannot be written.
pub fn write_traversals(traversals: &[SwitchTraversal], out: &mut impl Write) -> io::Result<()> {
    let mut trace = Trace::begin(out)?;
    let next = |index: usize| traversals.iter().position(|traversal| traversal.from == Some(index));
    // Traversals of the same packet, without its copies, share an id.
    let mut ids: Vec<usize> = Vec::new();
    let mut now: u64 = 0;
    for (index, SwitchTraversal { switch, name, steps, from }) in traversals.iter().enumerate() {
        let before = from.filter(|&from| next(from) == Some(index)).and_then(|from| ids.get(from)).copied();
        ids.push(before.unwrap_or(index + 1));
        let pid = trace.process("trace", switch)?;
        let duration = steps.len().max(1) as u64;
        let mut slice = json!({"name": name, "cat": "packet", "ph": "X", "pid": pid, "tid": 1, "ts": now, "dur": duration});
        if before.is_some() || next(index).is_some() {
            slice["bind_id"] = json!(format!("{:#x}", ids[index]));
            slice["flow_in"] = json!(before.is_some());
            slice["flow_out"] = json!(next(index).is_some());
        }
        trace.event(&slice)?;
        for (step, name) in (now..).zip(steps) {
            trace.event(
                &json!({"name": name, "cat": "step", "ph": "X", "pid": pid, "tid": 1, "ts": step, "dur": 1}),
            )?;
        }
        now += duration + 1;
    }
    trace.end()
}

struct Trace<'a, W> {
    out: &'a mut W,
    is_first: bool,
    /// Process ids by scheme and node.
    processes: BTreeMap<String, usize>,
    /// Number of flows so far; ids of asynchronous slices are derived from it.
    flow_count: usize,
    /// Number of packets of the schemes so far; ids of arrows are derived from it.
    packet_count: usize,
}

/// The time of a packet at a host or switch.
struct PacketSlice {
    /// Index of the packet in the trace of its scheme.
    packet: usize,
    /// True if an arrow leads here from the previous slice of the packet.
    has_previous: bool,
    /// True if an arrow leads from here to the next slice of the packet.
    has_next: bool,
    since: Time,
    until: Time,
}

/// Lowest thread id for packets: above those of [`thread`], at most 2^24.
const PACKET_TID_BASE: usize = 1 << 25;

/// Returns the thread id of a port and priority class. Pauses of different classes may overlap, which slices of the
/// same thread must not.
fn thread(port: u16, class: u8) -> u64 {
    const CLASSES: u64 = 256;
    u64::from(port) * CLASSES + u64::from(class)
}

impl<'a, W: Write> Trace<'a, W> {
    fn begin(out: &'a mut W) -> io::Result<Trace<'a, W>> {
        out.write_all(b"{\"traceEvents\":[")?;
        Ok(Trace { out, is_first: true, processes: BTreeMap::new(), flow_count: 0, packet_count: 0 })
    }

    fn end(self) -> io::Result<()> {
        self.out.write_all(b"\n]}\n")
    }

    fn event(&mut self, event: &Value) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.is_first) { "\n" } else { ",\n" };
        self.out.write_all(separator.as_bytes())?;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }

    /// Returns the process id of a node, and writes its name on first use.
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
            let name = |quantity: &str| format!("{} towards {}: {quantity}", port.port, port.towards);
            let queue = port.queue_bytes.iter().map(|&bytes| json!(bytes));
            self.counter(pid, &name("queue"), "bytes", series.interval, queue)?;
            let load = carry_over_utilisation(&port.utilisation)
                .into_iter()
                // Percent with one decimal.
                .map(|share| json!((1e3 * share).round() / 10.0));
            self.counter(pid, &name("load"), "percent", series.interval, load)?;
        }
        self.pauses(scheme, series)?;
        for flow in &series.flows {
            let pid = self.process(scheme, &flow.from)?;
            self.flow_count += 1;
            let (name, id) = (format::flow(&flow.name()), self.flow_count);
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
        self.packets(scheme, &series.packets)
    }

    /// Writes a slice for each packet at each host and switch. Slices of a thread must not overlap, so each uses the
    /// first free thread.
    fn packets(&mut self, scheme: &str, packets: &[PacketPath]) -> io::Result<()> {
        let mut tracks: BTreeMap<(&str, String), Vec<PacketSlice>> = BTreeMap::new();
        for (packet, path) in packets.iter().enumerate() {
            let switches = path.hops.iter().map(|hop| {
                let track = match hop.port {
                    Some(port) => format!("{}:{port}, packets", hop.switch),
                    None => format!("{}, undelivered packets", hop.switch),
                };
                (hop.switch.as_str(), track, hop.arrived, hop.left.unwrap_or(hop.arrived))
            });
            let (first_bit, last_bit) = path.sent;
            let first = (path.from.as_str(), format!("{}, packets sent", path.from), first_bit, last_bit);
            let last = path
                .delivered
                .map(|time| (path.to.as_str(), format!("{}, packets received", path.to), time, time));
            let slices: Vec<_> = std::iter::once(first).chain(switches).chain(last).collect();
            let count = slices.len();
            for (n, (node, track, since, until)) in slices.into_iter().enumerate() {
                let slice =
                    PacketSlice { packet, has_previous: n > 0, has_next: n + 1 < count, since, until };
                tracks.entry((node, track)).or_default().push(slice);
            }
        }
        let mut tid = PACKET_TID_BASE;
        for ((node, track), mut slices) in tracks {
            let pid = self.process(scheme, node)?;
            slices.sort_by_key(|packet_slice| (packet_slice.since, packet_slice.until));
            // Time from which each thread of the track is free.
            let mut free_from: Vec<Time> = Vec::new();
            for packet_slice in slices {
                let free_row = free_from.iter().position(|&time| time <= packet_slice.since);
                let row = free_row.unwrap_or(free_from.len());
                if row == free_from.len() {
                    let name = if row == 0 { track.clone() } else { format!("{track} ({})", row + 1) };
                    let args = json!({"name": name});
                    self.event(&json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": tid + row, "args": args}))?;
                    free_from.push(Time::ZERO);
                }
                free_from[row] = packet_slice.until;
                self.packet_slice(&packets[packet_slice.packet], &packet_slice, (pid, tid + row))?;
            }
            tid += free_from.len();
        }
        self.packet_count += packets.len();
        Ok(())
    }

    fn packet_slice(
        &mut self,
        path: &PacketPath,
        packet_slice: &PacketSlice,
        (pid, tid): (usize, usize),
    ) -> io::Result<()> {
        let name = format!("{} {}→{}", path.kind, path.from, path.to);
        let args = json!({"message": path.message, "seq": path.seq, "bytes": path.bytes});
        let mut slice = json!({
            "name": name, "cat": "packet", "ph": "X", "pid": pid, "tid": tid, "ts": us(packet_slice.since),
            "dur": us(packet_slice.until.saturating_sub(packet_slice.since)), "args": args,
        });
        if packet_slice.has_previous || packet_slice.has_next {
            // Flow events, version 2: the slices of a packet share a bind id.
            slice["bind_id"] = json!(format!("{:#x}", self.packet_count + packet_slice.packet + 1));
            slice["flow_in"] = json!(packet_slice.has_previous);
            slice["flow_out"] = json!(packet_slice.has_next);
        }
        self.event(&slice)
    }

    /// Writes a counter: 0 at the beginning, and the value of each sample that differs from the previous one.
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

    /// Writes each pause of a port and class, which lasts until its resume or the end of the run.
    fn pauses(&mut self, scheme: &str, series: &SchemeTrace) -> io::Result<()> {
        let mut named_threads = BTreeSet::new();
        // Port and class of each pause without a resume so far, and its start.
        let mut open: BTreeMap<(&str, u16, u8), Time> = BTreeMap::new();
        let mut slices: Vec<((&str, u16, u8), Time, Time)> = Vec::new();
        for PauseRecord { time, switch, port, priority, is_pause } in &series.pauses {
            let key = (switch.as_str(), *port, *priority);
            match (is_pause, open.get(&key)) {
                (true, None) => _ = open.insert(key, *time),
                (false, Some(&since)) => {
                    slices.push((key, since, *time));
                    open.remove(&key);
                }
                // A refresh extends the current one.
                _ => {}
            }
        }
        slices.extend(open.into_iter().map(|(key, since)| (key, since, series.end)));
        slices.sort_by_key(|slice| (slice.1, slice.0));
        for ((switch, port, class), since, until) in slices {
            let pid = self.process(scheme, switch)?;
            let tid = thread(port, class);
            if named_threads.insert((pid, tid)) {
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

/// Converts to microseconds, the unit of the format.
fn us(time: Time) -> f64 {
    time.as_us_f64()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use weir_experiment::results::PacketHop;

    fn events(results: &Results) -> Vec<Value> {
        let mut text = Vec::new();
        write(results, &mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        trace["traceEvents"].as_array().unwrap().clone()
    }

    #[test]
    fn switches_are_processes_and_queues_counters() {
        let results = fixtures::dumbbell();
        let events = events(&results);
        let named = |name: &str| {
            let process =
                events.iter().find(|event| event["name"] == "process_name" && event["args"]["name"] == name);
            process.unwrap_or_else(|| panic!("{name}"))["pid"].clone()
        };
        for scheme in ["fncc", "hpcc eta=0.95"] {
            let pid = named(&format!("{scheme}: s1"));
            let queue = events
                .iter()
                .filter(|event| event["pid"] == pid && event["name"] == "s1:3 towards s2: queue");
            let peak = queue.clone().map(|event| event["args"]["bytes"].as_u64().unwrap()).max();
            let port = &results.traces[scheme].ports[0];
            assert_eq!(peak, port.queue_bytes.iter().max().copied(), "{scheme}");
            let times: Vec<f64> = queue.map(|event| event["ts"].as_f64().unwrap()).collect();
            assert!(times.is_sorted() && times.len() > 10 && times[0] == 0.0, "{times:?}");
            let flows = events
                .iter()
                .filter(|event| event["pid"] == named(&format!("{scheme}: h2")) && event["ph"] == "b");
            assert_eq!(flows.map(|event| event["ts"].as_f64().unwrap()).collect::<Vec<_>>(), [300.0]);
        }
        let load = events.iter().filter_map(|event| event["args"]["percent"].as_f64());
        assert!(load.fold(0.0, f64::max) <= 100.0);
    }

    /// Checks what Perfetto's JSON importer requires: slices of a thread nest or follow each other, and of the slices
    /// with the same `bind_id`, the first has only `flow_out` and the last only `flow_in`.
    #[test]
    fn packets_are_slices_connected_by_arrows() {
        let (us, hop) = (Time::from_us, |switch: &str, port, arrived, left| PacketHop {
            switch: switch.into(),
            port,
            arrived: Time::from_us(arrived),
            left: Some(Time::from_us(left)),
        });
        let path = |seq, sent_us: u64, wait_us: u64| PacketPath {
            kind: "DATA",
            from: "h1".into(),
            to: "h2".into(),
            message: 1,
            seq,
            bytes: 1_066,
            sent: (us(sent_us), us(sent_us + 1)),
            hops: vec![
                hop("s1", Some(2), sent_us + 2, sent_us + 3 + wait_us),
                hop("s2", Some(1), sent_us + 5 + wait_us, sent_us + 6 + wait_us),
            ],
            delivered: Some(us(sent_us + 8 + wait_us)),
        };
        let mut lost = path(2, 5, 9);
        lost.hops[1] = PacketHop { port: None, left: None, ..lost.hops[1].clone() };
        lost.delivered = None;
        let mut results = fixtures::dumbbell();
        for trace in results.traces.values_mut() {
            // The second and third wait behind the first at s1.
            trace.packets = vec![path(0, 3, 20), path(1, 4, 20), lost.clone()];
        }
        let events = events(&results);
        let packets: Vec<&Value> = events.iter().filter(|event| event["cat"] == "packet").collect();
        let number = |event: &Value, key: &str| event[key].as_f64().unwrap();
        let mut threads: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
        let mut flows: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for slice in &packets {
            assert_eq!(slice["ph"], "X");
            let since = number(slice, "ts");
            let thread = format!("{}:{}", slice["pid"], slice["tid"]);
            threads.entry(thread).or_default().push((since, since + number(slice, "dur")));
            flows.entry(slice["bind_id"].as_str().unwrap()).or_default().push(slice);
        }
        for slices in threads.values_mut() {
            slices.sort_by(|a, b| a.0.total_cmp(&b.0));
            assert!(slices.windows(2).all(|two| two[0].1 <= two[1].0), "{slices:?}");
        }
        assert_eq!(flows.len(), 6, "three packets under two schemes");
        for (id, slices) in &mut flows {
            assert!(u64::from_str_radix(id.strip_prefix("0x").unwrap(), 16).is_ok());
            slices.sort_by(|a, b| number(a, "ts").total_cmp(&number(b, "ts")));
            let arrows: Vec<_> =
                slices.iter().map(|event| (event["flow_in"] == true, event["flow_out"] == true)).collect();
            let (first, last) = ((false, true), (true, false));
            let whole = [first, (true, true), (true, true), last];
            assert!(arrows == whole || arrows == [first, (true, true), last], "{arrows:?}");
            assert!(slices.windows(2).all(|two| two[0]["pid"] != two[1]["pid"]));
        }
        let names = events.iter().filter(|event| event["name"] == "thread_name");
        let names: Vec<&str> = names.filter_map(|event| event["args"]["name"].as_str()).collect();
        for name in ["h1, packets sent", "s1:2, packets", "s1:2, packets (3)", "s2, undelivered packets"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
    }

    #[test]
    fn steps_are_nested_in_the_slice_of_their_traversal() {
        let traversal = |switch: &str, steps: &[&str], from| SwitchTraversal {
            switch: switch.into(),
            name: "p".into(),
            steps: steps.iter().map(|&name| name.to_owned()).collect(),
            from,
        };
        // A packet goes from s1 to s2, and a copy of it to s3.
        let traversals = [
            traversal("s1", &["x", "y"], None),
            traversal("s2", &["z"], Some(0)),
            traversal("s3", &[], Some(0)),
        ];
        let mut text = Vec::new();
        write_traversals(&traversals, &mut text).unwrap();
        let trace: Value = serde_json::from_slice(&text).unwrap();
        let slices: Vec<&Value> =
            trace["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X").collect();
        let number = |event: &Value, key: &str| event[key].as_u64().unwrap();
        let seen: Vec<_> = slices
            .iter()
            .map(|event| (event["name"].as_str().unwrap(), number(event, "ts"), number(event, "dur")))
            .collect();
        assert_eq!(seen, [("p", 0, 2), ("x", 0, 1), ("y", 1, 1), ("p", 3, 1), ("z", 3, 1), ("p", 5, 1)]);
        let packets = slices.iter().filter(|event| event["cat"] == "packet");
        let arrows: Vec<_> =
            packets.map(|event| (event["flow_in"] == true, event["flow_out"] == true)).collect();
        assert_eq!(arrows, [(false, true), (true, false), (false, false)]);
        assert_eq!(slices[0]["bind_id"], slices[3]["bind_id"]);
        assert_ne!(slices[0]["pid"], slices[3]["pid"]);
    }

    #[test]
    fn every_slice_ends_and_pauses_do_not_overlap() {
        let events = events(&fixtures::workload());
        let ids = |ph: &str| -> Vec<u64> {
            events
                .iter()
                .filter(|event| event["ph"] == ph)
                .map(|event| event["id"].as_u64().unwrap())
                .collect()
        };
        assert!(ids("b").len() == 6000 && ids("b") == ids("e"));
        let mut until: BTreeMap<String, f64> = BTreeMap::new();
        let mut pauses = 0;
        for slice in events.iter().filter(|event| event["ph"] == "X") {
            let (ts, dur) = (slice["ts"].as_f64().unwrap(), slice["dur"].as_f64().unwrap());
            let last = until.entry(format!("{}:{}", slice["pid"], slice["tid"])).or_default();
            assert!(ts >= *last && dur > 0.0, "{slice}");
            *last = ts + dur;
            pauses += 1;
        }
        assert!(pauses > 10, "{pauses}");
    }
}
