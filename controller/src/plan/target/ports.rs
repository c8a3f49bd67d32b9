use serde::Deserialize;
use std::collections::BTreeMap;

/// The switches' own numbers of the topology's ports.
///
/// ```
/// # use weir_controller::plan::PortMap;
/// let map: PortMap = serde_yaml::from_str("{ports: {1: 132, 2: 140}, switches: {s3: {1: 148}}}").unwrap();
/// assert_eq!((map.number("s1", 1), map.number("s3", 1), map.number("s3", 2)), (Some(132), Some(148), Some(140)));
/// assert_eq!(map.port("s3", 148), Some(1));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PortMap {
    /// Of all switches: port of the topology -> number.
    #[serde(default)]
    pub ports: BTreeMap<u16, u16>,
    /// Of single switches, instead of those.
    #[serde(default)]
    pub switches: BTreeMap<String, BTreeMap<u16, u16>>,
    /// The recirculation port for which the program is compiled, if it is not the chip's first.
    pub recirculation: Option<u16>,
}

impl PortMap {
    /// Returns the number of a port, if the map has it.
    pub fn number(&self, switch: &str, port: u16) -> Option<u16> {
        let own = self.switches.get(switch).and_then(|own| own.get(&port));
        own.or_else(|| self.ports.get(&port)).copied()
    }

    /// Returns the port that has a number, if the map has it.
    pub fn port(&self, switch: &str, number: u16) -> Option<u16> {
        let own = self.switches.get(switch).into_iter().flatten();
        let mut all = own.chain(&self.ports).map(|(&port, _)| port);
        all.find(|&port| self.number(switch, port) == Some(number))
    }

    /// Returns whether the map has no port.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.switches.is_empty()
    }
}
