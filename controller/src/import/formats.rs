//! Which formats are read, for error messages, and how to tell similar ones apart.

/// The formats that are read, and the known ones that are not, for error messages.
pub(super) const FORMATS: &str = "supported topology files are Weir's YAML, topology.json of the p4 tutorials, p4app.json \
     and topology.json of p4-utils, and files of the HPCC simulator, ns3-datacenter and Reverie; not supported yet are \
     htsim's .topo, containerlab, GraphML, netcfg.json, ns-3's own formats, and hosts with two links";

/// Appends the list of supported formats to an error message, unless the file looks like Weir's own YAML.
pub fn with_formats(text: &str, error: impl std::fmt::Display) -> String {
    let is_own = ["kind:", "topology:"].iter().any(|key| text.contains(key)) && !is_containerlab(text);
    if is_own { error.to_string() } else { format!("{error}; {FORMATS}") }
}

/// Returns true for a topology of p4sim. It begins with three numbers as in the HPCC simulator: switches, hosts and
/// links. The links follow at once, as `0 s 4 h 1000Mbps 0.01ms`.
pub(super) fn is_p4sim(text: &str) -> bool {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let Some(link) = lines.nth(1) else { return false };
    let words: Vec<&str> = link.split_whitespace().collect();
    let is_kind = |word: &str| matches!(word, "s" | "h");
    matches!(words[..], [_, a, _, b, ..] if is_kind(a) && is_kind(b))
}

/// Returns true for a file of containerlab, which has the nodes and their `kind` in its own `topology`.
fn is_containerlab(text: &str) -> bool {
    text.lines().any(|line| line.trim() == "nodes:") && text.lines().any(|line| line.trim() == "topology:")
}
