//! The control socket of a process that carries links, used by `weir link show` and `set`.

use super::LinkReport;
use crate::console::Failure;
use crate::control::{Socket, SocketServer};
use serde::Serialize;
use std::collections::BTreeSet;
use weir_switch::driver::{DataplaneError, LinkEmulatorHandle, LinkEmulatorStats};
use weir_switch::link::LinkChange;
use weir_testbed::links::{FabricSample, LinkRequest};

/// The links that a control socket serves: those of an emulator, or of a single-process fabric.
pub(crate) trait LinkController: Send {
    /// Returns the names of all links.
    fn names(&self) -> Vec<String>;
    /// Returns parameters and counters of all links.
    fn stats(&self) -> Result<LinkEmulatorStats, DataplaneError>;
    /// Changes the links with these names.
    fn change(&self, names: Vec<String>, change: LinkChange) -> Result<(), DataplaneError>;
    /// Returns a sample of the switches with the given register; `None` if there are no switches.
    fn sample(&self, register: &str) -> Option<Result<FabricSample, DataplaneError>>;
}

/// The links of an emulator between interfaces.
pub(super) struct EmulatorLinks {
    pub emulator: LinkEmulatorHandle,
    /// Names of the links.
    pub names: Vec<String>,
}

impl LinkController for EmulatorLinks {
    fn names(&self) -> Vec<String> {
        self.names.clone()
    }
    fn stats(&self) -> Result<LinkEmulatorStats, DataplaneError> {
        self.emulator.stats().wait()
    }
    fn change(&self, names: Vec<String>, change: LinkChange) -> Result<(), DataplaneError> {
        self.emulator.change(names, change).wait().map(|_| ())
    }
    fn sample(&self, _register: &str) -> Option<Result<FabricSample, DataplaneError>> {
        None
    }
}

/// The reply to a [`LinkRequest`].
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Reply {
    Report(LinkReport),
    Sample(FabricSample),
}

/// Serves requests about links on the control socket.
pub(crate) fn serve(control: Socket, links: impl LinkController + 'static) -> Result<SocketServer, Failure> {
    let names = links.names();
    control.serve(move |request| {
        let stats = || links.stats().map_err(|error| error.to_string());
        match request {
            LinkRequest::Show {} => Ok(Reply::Report(LinkReport::new(&stats()?, |_| true))),
            LinkRequest::Sample { register } => match links.sample(&register) {
                Some(Ok(sample)) => Ok(Reply::Sample(sample)),
                Some(Err(error)) => Err(error.to_string()),
                None => Err("not a single-process fabric".to_owned()),
            },
            LinkRequest::Set { links: selectors, change } => {
                let change: LinkChange = change.parse()?;
                let selected = selected_links(&names, &selectors)?;
                links
                    .change(selected.iter().cloned().collect(), change)
                    .map_err(|error| error.to_string())?;
                Ok(Reply::Report(LinkReport::new(&stats()?, |name| selected.contains(name))))
            }
        }
    })
}

/// Returns the names of all links that `selectors` select. Fails if one of them selects no link.
fn selected_links(all: &[String], selectors: &[String]) -> Result<BTreeSet<String>, String> {
    let mut names = BTreeSet::new();
    for selector in selectors {
        let mut selected = all.iter().filter(|name| is_selected_by(selector, name)).cloned().peekable();
        if selected.peek().is_none() {
            return Err(format!("unknown link {selector}; links are {}", all.join(", ")));
        }
        names.extend(selected);
    }
    Ok(names)
}

/// Returns true if `selector` selects the link `name`: by its name, by its nodes in either order, by one of its
/// nodes, or as `all`.
fn is_selected_by(selector: &str, name: &str) -> bool {
    // Parallel links between the same nodes have the suffix `#n`.
    let nodes = name.split('#').next().unwrap_or(name);
    selector == "all"
        || selector == name
        // Node names may contain `-`, so every split is tried.
        || nodes.match_indices('-').any(|(index, _)| {
            let (a, b) = (&nodes[..index], &nodes[index + 1..]);
            selector == a || selector == b || selector == nodes || *selector == format!("{b}-{a}")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_selected_by_name_node_or_all() {
        for selector in ["s1-s2", "s2-s1", "s1", "s2", "all"] {
            assert!(is_selected_by(selector, "s1-s2"), "{selector}");
        }
        for selector in ["s1-s3", "s", "s1-", "s2-s1-s1", ""] {
            assert!(!is_selected_by(selector, "s1-s2"), "{selector}");
        }
        assert!(
            is_selected_by("core-1", "core-1-s2") && is_selected_by("s2-core-1", "core-1-s2"),
            "names with dashes"
        );
        assert!(
            is_selected_by("s1-s2", "s1-s2#2")
                && is_selected_by("s1-s2#2", "s1-s2#2")
                && !is_selected_by("s1-s2#2", "s1-s2")
        );
    }
}
