//! The assignment of device port numbers to ports of a topology.

use serde::Deserialize;
use std::collections::BTreeMap;

/// Maps ports of the topology to port numbers of the device.
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
    /// For all switches: port of the topology -> port number of the device.
    #[serde(default)]
    pub ports: BTreeMap<u16, u16>,
    /// By switch; overrides `ports`.
    #[serde(default)]
    pub switches: BTreeMap<String, BTreeMap<u16, u16>>,
    /// The recirculation port for which the program was compiled; `None`: the chip's default.
    pub recirculation: Option<u16>,
}

impl PortMap {
    /// Returns the device port number of a port, or `None` if it is not in the map.
    pub fn number(&self, switch: &str, port: u16) -> Option<u16> {
        let specific = self.switches.get(switch).and_then(|ports| ports.get(&port));
        specific.or_else(|| self.ports.get(&port)).copied()
    }

    /// Returns the port of the topology with this device port number, or `None` if it is not in the map.
    pub fn port(&self, switch: &str, number: u16) -> Option<u16> {
        let specific = self.switches.get(switch).into_iter().flatten();
        // `number` decides, since an entry of `switches` overrides one of `ports`.
        let mut all = specific.chain(&self.ports).map(|(&port, _)| port);
        all.find(|&port| self.number(switch, port) == Some(number))
    }

    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.switches.is_empty()
    }
}
