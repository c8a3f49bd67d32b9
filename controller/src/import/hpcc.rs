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
use std::fmt::Display;
use weir_units::{Bandwidth, Time};

/// Maximum number of hosts and switches together, so that an invalid header does not exhaust memory.
const MAX_NODES: usize = 2_000_000;

/// The lines that are not empty, with their numbers.
type Lines<'a> = dyn Iterator<Item = (usize, &'a str)> + 'a;

/// The counts of the header, and its line.
struct Header {
    line: usize,
    nodes: usize,
    switches: usize,
    links: usize,
}

fn at_line(line: usize, problem: impl Display) -> ImportError {
    ImportError::at(format!("line {line}"), problem)
}

impl Header {
    fn parse(lines: &mut Lines<'_>) -> Result<Header, ImportError> {
        let (line, text) = lines.next().ok_or_else(|| at_line(1, "the file is empty"))?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let count = |word: &str| {
            word.parse::<usize>().map_err(|_| at_line(line, format!("\"{word}\" is not a number")))
        };
        let [nodes, switches, links] = match words[..] {
            [nodes, switches, links] | [nodes, switches, _, links] => [nodes, switches, links],
            // The two rates are ignored, since every link has its own. In SimAI's files the last word is the name of a
            // GPU, not a rate.
            [nodes, switches, _, links, server_rate, fabric_rate]
                if rate_of(server_rate).and(rate_of(fabric_rate)).is_some() =>
            {
                [nodes, switches, links]
            }
            _ => {
                let problem = "the header is not \"nodes switches links\", \"nodes switches tors links\" or \"nodes \
                               switches tors links server_rate fabric_rate\" (SimAI's with GPUs and NVSwitches is not \
                               supported)";
                return Err(at_line(line, format!("{problem}; {FORMATS}")));
            }
        };
        let (nodes, switches, links) = (count(nodes)?, count(switches)?, count(links)?);
        if nodes > MAX_NODES || switches > nodes {
            let problem = format!(
                "invalid counts: {nodes} nodes, {switches} of them switches (at most {MAX_NODES} nodes)"
            );
            return Err(at_line(line, problem));
        }
        Ok(Header { line, nodes, switches, links })
    }

    fn node_id(&self, line: usize, word: &str) -> Result<usize, ImportError> {
        let id = word.parse().ok().filter(|&id: &usize| id < self.nodes);
        id.ok_or_else(|| at_line(line, format!("\"{word}\" is not a node id below {}", self.nodes)))
    }

    /// Reads the ids of the switches. The simulator reads words, so they may span several lines.
    fn parse_switches(&self, lines: &mut Lines<'_>) -> Result<BTreeSet<usize>, ImportError> {
        let mut switches = BTreeSet::new();
        while switches.len() < self.switches {
            let (line, ids) =
                lines.next().ok_or_else(|| ImportError::at("end of file", "switch ids are missing"))?;
            for word in ids.split_whitespace() {
                let id = self.node_id(line, word)?;
                if !switches.insert(id) {
                    return Err(at_line(line, format!("switch {id} is listed twice")));
                }
            }
        }
        if switches.len() > self.switches {
            let problem = format!("{} switch ids are listed, not {}", switches.len(), self.switches);
            return Err(at_line(self.line, problem));
        }
        Ok(switches)
    }
}

/// Imports a file; all its nodes get names from their ids, such as `s3`.
pub(super) fn import(text: &str) -> Result<Imported, ImportError> {
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty());
    let header = Header::parse(&mut lines)?;
    let switches = header.parse_switches(&mut lines)?;
    let Header { nodes, links: link_count, .. } = header;
    let name = |id: usize| if switches.contains(&id) { format!("s{id}") } else { format!("h{id}") };
    let mut links = Vec::new();
    let mut lossy = 0;
    for _ in 0..link_count {
        let (line_number, words) = lines.next().ok_or_else(|| {
            ImportError::at("end of file", format!("only {} of {link_count} links are listed", links.len()))
        })?;
        let words: Vec<&str> = words.split_whitespace().collect();
        let &[a, b, rate, delay, ref rest @ ..] = words.as_slice() else {
            return Err(at_line(line_number, "a link is \"a b rate delay error-rate\""));
        };
        let id = |word: &str| header.node_id(line_number, word);
        let no_rate = || at_line(line_number, format!("\"{rate}\" is not a rate"));
        lossy += usize::from(rest.first().is_some_and(|rate| rate.parse::<f64>() != Ok(0.0)));
        links.push(LinkSpec {
            a: name(id(a)?),
            b: name(id(b)?),
            rate: Some(rate_of(rate).ok_or_else(no_rate)?),
            delay: Some(delay.parse::<Time>().map_err(|reason| at_line(line_number, reason))?),
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
