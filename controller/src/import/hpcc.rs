//! Imports topology files of the HPCC simulator, and of ns3-datacenter and Reverie, whose files have longer headers.
//!
//! ```text
//! nodes switches links            (ns3-datacenter: nodes switches tors links [server_rate fabric_rate])
//! ids of the switches
//! a b rate delay error-rate       once for each link
//! ```

use super::formats::FORMATS;
use super::imported::{ImportError, Imported};
use crate::topology::{Custom, LinkSpec, TopologySpec};
use std::collections::{BTreeMap, BTreeSet};
use weir_units::{Bandwidth, Time};

/// Maximum number of hosts and switches together, so that an invalid header does not exhaust memory.
const MAX_NODES: usize = 2_000_000;

/// Imports a file; all its nodes get names from their ids, such as `s3`.
pub(super) fn import(text: &str) -> Result<Imported, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let line = |number: usize| format!("line {number}");
    let (header_line, header) = lines.next().ok_or_else(|| ImportError::at(line(1), "the file is empty"))?;
    let words: Vec<&str> = header.split_whitespace().collect();
    let parse_count = |word: &str| {
        word.parse::<usize>()
            .map_err(|_| ImportError::at(line(header_line), format!("\"{word}\" is not a number")))
    };
    let (nodes, switch_count, link_count) = match words[..] {
        [nodes, switches, links] | [nodes, switches, _, links] => {
            (parse_count(nodes)?, parse_count(switches)?, parse_count(links)?)
        }
        // The two rates are ignored, since every link has its own. In SimAI's files the last word is the name of a GPU,
        // not a rate.
        [nodes, switches, _, links, server_rate, fabric_rate]
            if rate_of(server_rate).and(rate_of(fabric_rate)).is_some() =>
        {
            (parse_count(nodes)?, parse_count(switches)?, parse_count(links)?)
        }
        _ => {
            let problem = "the header is not \"nodes switches links\", \"nodes switches tors links\" or \"nodes switches \
                           tors links server_rate fabric_rate\" (SimAI's with GPUs and NVSwitches is not supported)";
            return Err(ImportError::at(line(header_line), format!("{problem}; {FORMATS}")));
        }
    };
    if nodes > MAX_NODES || switch_count > nodes {
        return Err(ImportError::at(
            line(header_line),
            format!(
                "invalid counts: {nodes} nodes, {switch_count} of them switches (at most {MAX_NODES} nodes)"
            ),
        ));
    }
    // The simulator reads words, so the ids may span several lines.
    let mut switches = BTreeSet::new();
    while switches.len() < switch_count {
        let (line_number, ids) =
            lines.next().ok_or_else(|| ImportError::at("end of file", "switch ids are missing"))?;
        for word in ids.split_whitespace() {
            let id = word.parse().ok().filter(|&id: &usize| id < nodes);
            let id = id.ok_or_else(|| {
                ImportError::at(line(line_number), format!("\"{word}\" is not a node id below {nodes}"))
            })?;
            if !switches.insert(id) {
                return Err(ImportError::at(line(line_number), format!("switch {id} is listed twice")));
            }
        }
    }
    if switches.len() > switch_count {
        return Err(ImportError::at(
            line(header_line),
            format!("{} switch ids are listed, not {switch_count}", switches.len()),
        ));
    }
    let name = |id: usize| if switches.contains(&id) { format!("s{id}") } else { format!("h{id}") };
    let mut links = Vec::new();
    let mut lossy = 0;
    for _ in 0..link_count {
        let (line_number, words) = lines.next().ok_or_else(|| {
            ImportError::at("end of file", format!("only {} of {link_count} links are listed", links.len()))
        })?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let &[a, b, rate, delay, ref rest @ ..] = words.as_slice() else {
            return Err(ImportError::at(line(line_number), "a link is \"a b rate delay error-rate\""));
        };
        let id = |word: &str| {
            let id = word.parse().ok().filter(|&id: &usize| id < nodes);
            id.ok_or_else(|| {
                ImportError::at(line(line_number), format!("\"{word}\" is not a node id below {nodes}"))
            })
        };
        lossy += usize::from(rest.first().is_some_and(|rate| rate.parse::<f64>() != Ok(0.0)));
        links.push(LinkSpec {
            a: name(id(a)?),
            b: name(id(b)?),
            rate: Some(
                rate_of(rate)
                    .ok_or_else(|| ImportError::at(line(line_number), format!("\"{rate}\" is not a rate")))?,
            ),
            delay: Some(delay.parse::<Time>().map_err(|reason| ImportError::at(line(line_number), reason))?),
            a_port: None,
            b_port: None,
        });
    }
    let mut warnings = Vec::new();
    match lines.count() {
        0 => {}
        more => warnings.push(format!(
            "{more} lines after the {link_count} links of the header are ignored, as in the HPCC simulator"
        )),
    }
    if lossy > 0 {
        warnings.push(format!("{lossy} links have an error rate, which is ignored"));
    }
    if let Some(pair) = parallel_links(&links) {
        warnings.push(format!(
            "{pair} have several links, all of which are used; the HPCC simulator uses the last one"
        ));
    }
    let hosts = (0..nodes).filter(|id| !switches.contains(id)).map(name).collect();
    let topology = TopologySpec::Custom(Custom {
        hosts,
        switches: switches.iter().map(|&id| format!("s{id}")).collect(),
        links,
        addresses: BTreeMap::new(),
        rate: Bandwidth::from_gbps(100),
        delay: Time::from_us(1),
    });
    Ok(Imported { topology, runtime: BTreeMap::new(), switch_addresses: BTreeMap::new(), warnings })
}

/// Parses `100Gbps`, or a number of bits per second without a unit.
fn rate_of(word: &str) -> Option<Bandwidth> {
    match word.parse::<f64>() {
        Ok(bps) if bps.is_finite() && bps >= 0.0 => Some(Bandwidth::from_bps(bps.round() as u64)),
        Ok(_) => None,
        Err(_) => word.parse().ok(),
    }
}

/// Returns the first pair of nodes that more than one link connects.
fn parallel_links(links: &[LinkSpec]) -> Option<String> {
    let mut seen = BTreeSet::new();
    let pair = |link: &LinkSpec| {
        if link.a < link.b { (link.a.clone(), link.b.clone()) } else { (link.b.clone(), link.a.clone()) }
    };
    links.iter().map(pair).find(|pair| !seen.insert(pair.clone())).map(|(a, b)| format!("{a} and {b}"))
}
