//! The report of an emulator on its links, as table and JSON.

use crate::console::{Console, Failure};
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Write;
use weir_report::table::fit;
use weir_switch::driver::{DirectionStatus, LinkEmulatorStats, LinkStatus};
use weir_switch::link::{LinkDrop, LinkParameters};
use weir_units::{Ratio, Time};

/// The reply to `weir link show` and `set`.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LinkReport {
    /// All links, or those that were changed.
    pub links: Vec<Link>,
    /// Lateness of the last 4,096 frames.
    pub lateness_us: Lateness,
}

/// Delay of frames beyond their due time: median, 99th percentile and maximum, in us.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Lateness {
    p50: f64,
    p99: f64,
    #[serde(rename = "most")]
    max: f64,
}

/// Properties and counters of one link.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    name: String,
    ends: [String; 2],
    /// Rate in bit/s; absent if unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_bps: Option<u64>,
    delay_us: f64,
    queue_bytes: u64,
    jitter_us: f64,
    loss: f64,
    reorder: f64,
    reorder_by_us: f64,
    duplicate: f64,
    corrupt: f64,
    #[serde(rename = "up")]
    is_up: bool,
    /// From the first end to the second, and from the second to the first.
    directions: [Direction; 2],
}

/// Counters of one direction, in frames.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Direction {
    offered: u64,
    delivered: u64,
    delivered_bytes: u64,
    duplicated: u64,
    reordered: u64,
    corrupted: u64,
    in_flight: usize,
    /// Dropped frames, by reason.
    dropped: BTreeMap<String, u64>,
}

impl LinkReport {
    /// Returns the report on the links for whose names `is_selected` returns true.
    pub(crate) fn new(stats: &LinkEmulatorStats, is_selected: impl Fn(&str) -> bool) -> LinkReport {
        let links = stats.links.iter().filter(|status| is_selected(&status.link.name));
        // The latenesses are sorted.
        let percentile = |percent: usize| {
            let index = stats.lateness.len().saturating_sub(1) * percent / 100;
            stats.lateness.get(index).copied().unwrap_or(Time::ZERO).as_us_f64()
        };
        LinkReport {
            links: links.map(Link::new).collect(),
            lateness_us: Lateness { p50: percentile(50), p99: percentile(99), max: percentile(100) },
        }
    }

    /// Prints the report as a table, or as JSON with `--json`.
    pub(crate) fn print(&self, console: &mut Console) -> Result<(), Failure> {
        if console.style.json {
            return console.print_json(self);
        }
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header([
            "link",
            "state",
            "from",
            "offered",
            "delivered",
            "in flight",
            "lost",
        ]);
        // The columns with numbers.
        for column in 3..6 {
            table
                .column_mut(column)
                .expect("the header has seven columns")
                .set_cell_alignment(CellAlignment::Right);
        }
        for link in &self.links {
            for (end, direction) in link.ends.iter().zip(&link.directions) {
                // The second row of a link leaves name and state empty.
                let is_first_end = *end == link.ends[0];
                let (name, state) =
                    if is_first_end { (link.name.clone(), link.state()) } else { Default::default() };
                let counts = [direction.offered, direction.delivered, direction.in_flight as u64]
                    .map(|count| count.to_string());
                let lost: Vec<String> =
                    direction.dropped.iter().map(|(reason, frames)| format!("{reason} {frames}")).collect();
                let lost = if lost.is_empty() { "-".to_owned() } else { lost.join(", ") };
                table.add_row([vec![name, state, end.clone()], counts.to_vec(), vec![lost]].concat());
            }
        }
        fit(&mut table, console.width);
        writeln!(console.out, "{}", table.trim_fmt())?;
        let Lateness { p50, p99, max } = self.lateness_us;
        Ok(writeln!(
            console.out,
            "frames were late by {p50:.0} us (median), {p99:.0} us (p99), {max:.0} us at most"
        )?)
    }
}

impl Link {
    fn new(status: &LinkStatus) -> Link {
        let parameters: &LinkParameters = &status.link.parameters;
        Link {
            name: status.link.name.clone(),
            ends: status.link.ends.clone(),
            rate_bps: parameters.rate.map(|rate| rate.as_bps()),
            delay_us: parameters.delay.as_us_f64(),
            queue_bytes: parameters.queue.get(),
            jitter_us: parameters.jitter.as_us_f64(),
            loss: parameters.loss.get(),
            reorder: parameters.reorder.get(),
            reorder_by_us: parameters.reorder_by.as_us_f64(),
            duplicate: parameters.duplicate.get(),
            corrupt: parameters.corrupt.get(),
            is_up: parameters.up,
            directions: [0, 1].map(|end| Direction::new(&status.directions[end])),
        }
    }

    /// Returns the state of the link: rate, delay and the enabled impairments.
    fn state(&self) -> String {
        let mut words = Vec::new();
        if !self.is_up {
            words.push("down".to_owned());
        }
        words.extend(self.rate_bps.map(|bps| weir_units::Bandwidth::from_bps(bps).to_string()));
        words.push(time(self.delay_us));
        if self.jitter_us > 0.0 {
            words.push(format!("jitter {}", time(self.jitter_us)));
        }
        let faults = [
            ("loss", self.loss),
            ("reorder", self.reorder),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
        ];
        words.extend(
            faults
                .iter()
                .filter(|(_, share)| *share > 0.0)
                .map(|(name, share)| format!("{name} {}", Ratio::new(*share).unwrap_or_default())),
        );
        words.join(", ")
    }
}

fn time(us: f64) -> String {
    Time::from_secs_f64(us * 1e-6).to_string()
}

impl Direction {
    fn new(status: &DirectionStatus) -> Direction {
        let counters = &status.counters;
        let by_link = LinkDrop::ALL.iter().map(|&reason| (reason.name(), counters.dropped(reason)));
        let by_interface = status.interfaces.iter().map(|(reason, frames)| (reason.name(), frames));
        let dropped = by_link.chain(by_interface).filter(|(_, frames)| *frames > 0);
        Direction {
            offered: counters.offered.packets,
            delivered: counters.delivered.packets,
            delivered_bytes: counters.delivered.bytes,
            duplicated: counters.duplicated,
            reordered: counters.reordered,
            corrupted: counters.corrupted,
            in_flight: status.in_flight,
            dropped: dropped.map(|(reason, frames)| (reason.to_owned(), frames)).collect(),
        }
    }
}
