//! Heat maps of link load.

use super::section::{Figure, Layout, Section};
use crate::chart::{HeatCell, HeatMap, Picture};
use crate::format;
use crate::names::file_name;
use std::collections::BTreeSet;
use weir_experiment::results::Results;

/// Returns the section with a heat map of the load of all ports for each scheme.
pub(super) fn section(results: &Results) -> Option<Section> {
    /// With fewer ports, the table of ports is sufficient.
    const MIN_PORTS: usize = 8;
    /// With more switches than this, the map has the full width of the page.
    const MAX_HALF_WIDTH: usize = 20;
    let summary = &results.summary;
    // Name without digits, number and name of each switch, for the natural order: s2 before s10.
    let mut switches: Vec<(String, u64, String)> = Vec::new();
    let mut ports: Vec<u64> = Vec::new();
    let parse = |port: &str| -> Option<((String, u64, String), u64)> {
        let (switch, port_number) = port.rsplit_once(':')?;
        let name = switch.trim_end_matches(|c: char| c.is_ascii_digit());
        let switch_number = switch[name.len()..].parse().unwrap_or(0);
        Some(((name.to_owned(), switch_number, switch.to_owned()), port_number.parse().ok()?))
    };
    let all: BTreeSet<&String> = summary.schemes.values().flat_map(|s| s.utilisation.keys()).collect();
    for (switch, port) in all.iter().filter_map(|name| parse(name)) {
        switches.push(switch);
        ports.push(port);
    }
    ports.sort_unstable();
    ports.dedup();
    switches.sort();
    switches.dedup();
    if all.len() < MIN_PORTS || switches.len() < 2 {
        return None;
    }
    let figures = results.order.iter().filter_map(|label| {
        let loads = &summary.schemes.get(label)?.utilisation;
        let cells = loads.iter().filter_map(|(name, share)| {
            let (switch, port) = parse(name)?;
            let (column, row) = (switches.binary_search(&switch).ok()?, ports.binary_search(&port).ok()?);
            Some(HeatCell { column, row, share: *share })
        });
        let (busiest, max) = loads.iter().max_by(|a, b| a.1.total_cmp(b.1))?;
        let mean = loads.values().sum::<f64>() / loads.len() as f64;
        let percent = |share: f64| format::decimal(100.0 * share, 1);
        let heat = HeatMap {
            alt: format!("Load of every port under {label}"),
            note: format!("mean {} %, maximum {} % at {busiest}", percent(mean), percent(*max)),
            x_title: "switch".into(),
            y_title: "port".into(),
            columns: switches.iter().map(|(_, _, name)| name.clone()).collect(),
            rows: ports.iter().map(u64::to_string).collect(),
            cells: cells.collect(),
        };
        Some(Figure {
            file: format!("load-{}", file_name(label)),
            title: label.clone(),
            layout: if switches.len() > MAX_HALF_WIDTH { Layout::Full } else { Layout::Half },
            picture: Picture::Heat(heat),
        })
    });
    Some(Section {
        title: "Link load".into(),
        note: Some(
            "Utilisation of every switch port over the run; ports that sent nothing are blank.".into(),
        ),
        figures: figures.collect(),
    })
}
