//! The metrics that a switch exports to Prometheus.

use crate::metrics::Page;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use weir_experiment::counts::{Counts, count_program};
use weir_server::p4runtime::{CallCounters, DroppedMessages};
use weir_switch::driver::{DataplaneError, DataplaneHandle, DataplaneStats, IoDrops};
use weir_switch::drops::DropReason;

/// A switch that is watched.
pub struct Watched {
    /// Its name: of a switch on its own, its device id.
    pub name: String,
    /// Its data plane.
    pub dataplane: DataplaneHandle,
    /// Messages that its P4Runtime server lost.
    pub lost: Arc<DroppedMessages>,
    /// Calls that it received.
    pub calls: Arc<CallCounters>,
}

/// The metrics of a switch that has a program.
struct Inside {
    /// Bytes queued, and the most, by port.
    queues: Vec<(u16, u64, u64)>,
    /// Entries by table.
    tables: Vec<(String, u64)>,
    program: Counts,
}

/// Returns the page of all switches of a process.
pub fn page(switches: &[Watched]) -> Page {
    let mut page = Page::default();
    for switch in switches {
        // A switch that has stopped has nothing to say.
        let Ok(stats) = switch.dataplane.stats().wait() else { continue };
        put_driver(&mut page, &switch.name, &stats);
        let ports: Vec<u16> = stats.ports.iter().map(|port| port.port).collect();
        // One without a program has no tables.
        if let Ok(inside) = inside(&switch.dataplane, ports) {
            put_inside(&mut page, &switch.name, &inside);
        }
        put_server(&mut page, switch);
    }
    page
}

fn inside(dataplane: &DataplaneHandle, ports: Vec<u16>) -> Result<Inside, DataplaneError> {
    dataplane.with(move |switch, _| {
        let pipeline = switch.pipeline();
        let mut program = Counts::default();
        count_program(&mut program, |counter, index| {
            pipeline.counter_read(counter, index as usize).map_or(0, |value| value.packets)
        });
        let queue = |port: u16| {
            let level = switch.queues().port_occupancy(port);
            (port, level.bytes, level.peak_bytes)
        };
        // Those without a key are p4c's own, for statements outside of tables.
        let tables = pipeline.program().tables().filter(|(_, info)| !info.key.is_empty());
        let tables = tables.map(|(id, info)| (info.name.clone(), pipeline.table_len(id) as u64));
        Inside { queues: ports.into_iter().map(queue).collect(), tables: tables.collect(), program }
    })
}

fn put_driver(page: &mut Page, switch: &str, stats: &DataplaneStats) {
    page.gauge(
        "weir_switch_uptime_seconds",
        "Seconds since the data plane started.",
        &[("switch", switch)],
        stats.uptime.as_ns() / 1_000_000_000,
    );
    for port in &stats.ports {
        let number = port.port.to_string();
        let labels = [("switch", switch), ("port", &number), ("interface", &port.interface)];
        let counters = &port.counters;
        page.gauge("weir_port_up", "1 if the port can send and receive.", &labels, port.up.into());
        for (direction, tally) in [("in", counters.received), ("out", counters.sent)] {
            let labels = [("switch", switch), ("port", &number), ("direction", direction)];
            let help = "Frames through a port.";
            page.counter("weir_port_packets_total", help, &labels, tally.packets);
            page.counter("weir_port_bytes_total", "Bytes of frames through a port.", &labels, tally.bytes);
        }
        put_lost(page, switch, &number, &counters.dropped);
        let labels = [("switch", switch), ("port", &number)];
        let help = "Times that a port went down.";
        page.counter("weir_port_went_down_total", help, &labels, counters.link_down_events);
        page.gauge("weir_queue_packets", "Packets that wait for a port.", &labels, port.queued.into());
    }
    put_lost(page, switch, "", &stats.portless_drops);
    let labels = [("switch", switch)];
    page.counter("weir_packet_in_total", "Packets sent to the controller.", &labels, stats.packet_in);
    page.counter("weir_packet_out_total", "Packets from the controller.", &labels, stats.packet_out);
    if let Some(books) = &stats.switch {
        let help = "Packets that came into the switch.";
        page.counter("weir_switch_received_packets_total", help, &labels, books.received);
        page.counter(
            "weir_switch_copied_packets_total",
            "Packets that the switch made.",
            &labels,
            books.copied,
        );
        page.counter("weir_switch_sent_packets_total", "Packets that left the switch.", &labels, books.sent);
        for (reason, tally) in books.dropped.iter() {
            // What the program dropped stands under the program's reasons.
            if reason != DropReason::IngressDrop {
                put_drop(page, switch, reason.name(), tally.packets);
            }
        }
    }
}

fn put_lost(page: &mut Page, switch: &str, port: &str, drops: &IoDrops) {
    for (reason, frames) in drops.iter() {
        let labels = [("switch", switch), ("port", port), ("reason", reason.name())];
        page.counter(
            "weir_port_dropped_packets_total",
            "Frames lost between a link and the switch, by reason.",
            &labels,
            frames,
        );
    }
}

fn put_drop(page: &mut Page, switch: &str, reason: &str, packets: u64) {
    let help = "Packets that the switch or its program dropped, by reason.";
    let labels = [("switch", switch), ("reason", reason)];
    page.counter("weir_switch_dropped_packets_total", help, &labels, packets);
}

fn put_inside(page: &mut Page, switch: &str, inside: &Inside) {
    for &(port, bytes, peak) in &inside.queues {
        let port = port.to_string();
        let labels = [("switch", switch), ("port", &port)];
        page.gauge("weir_queue_bytes", "Bytes that wait for a port.", &labels, bytes);
        page.gauge("weir_queue_peak_bytes", "The most bytes that waited for a port.", &labels, peak);
    }
    for (table, entries) in &inside.tables {
        let labels = [("switch", switch), ("table", table)];
        page.gauge(
            "weir_table_entries",
            "Entries of a table; routes are those of forward.",
            &labels,
            *entries,
        );
    }
    for (reason, &packets) in &inside.program.drops {
        put_drop(page, switch, reason, packets);
    }
    let labels = [("switch", switch)];
    page.counter("weir_ecn_marked_packets_total", "Packets marked CE.", &labels, inside.program.marks);
    let help = "Packets deflected to another port.";
    page.counter("weir_deflected_packets_total", help, &labels, inside.program.deflections);
}

fn put_server(page: &mut Page, switch: &Watched) {
    for (method, calls) in switch.calls.by_method() {
        let labels = [("switch", switch.name.as_str()), ("method", method)];
        page.counter("weir_p4runtime_requests_total", "P4Runtime calls received.", &labels, calls);
    }
    let lost = [
        ("packet_in", &switch.lost.packet_in),
        ("digest", &switch.lost.digests),
        ("idle_timeout", &switch.lost.timeouts),
    ];
    for (kind, count) in lost {
        let labels = [("switch", switch.name.as_str()), ("kind", kind)];
        let help = "Messages that did not reach the primary client.";
        page.counter("weir_p4runtime_lost_messages_total", help, &labels, count.load(Ordering::Relaxed));
    }
}
