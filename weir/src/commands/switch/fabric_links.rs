//! The links of a fabric. Shows and changes those of a running fabric, for `weir link`.

use crate::commands::link::LinkController;
use std::collections::HashMap;
use weir_switch::Switch;
use weir_switch::driver::{
    DataplaneError, DataplaneHandle, DirectionStatus, EmulatedLink, LinkEmulatorStats, LinkStatus, PortLink,
};
use weir_switch::link::{LinkChange, LinkParameters};
use weir_testbed::links::FabricSample;

/// A link of a fabric, between two switches or between a switch and a host.
#[derive(Clone, Debug)]
pub(super) struct FabricLink {
    pub name: String,
    pub ends: [FabricEnd; 2],
    pub parameters: LinkParameters,
}

/// An end of a link.
#[derive(Clone, Debug)]
pub(super) struct FabricEnd {
    /// Index of the switch; `None` at a host.
    pub switch: Option<u16>,
    pub port: u16,
    /// Name of the interface as in the p4 tutorials, such as `s1-eth1`.
    pub name: String,
}

/// The links of a running fabric, and the data planes of the switches that carry them.
pub(super) struct FabricLinks {
    links: Vec<FabricLink>,
    handles: Vec<DataplaneHandle>,
    /// Ports with a link, by switch index.
    ports: Vec<Vec<u16>>,
}

/// The state of link ends as reported by their switches, by switch and port.
type LinkStates = HashMap<(u16, u16), PortLink>;

impl FabricLinks {
    /// Creates the controller of `links`; `handles` are the data planes of the switches, by index.
    pub(super) fn new(links: Vec<FabricLink>, handles: Vec<DataplaneHandle>) -> FabricLinks {
        let mut ports = vec![Vec::new(); handles.len()];
        for end in links.iter().flat_map(|link| &link.ends) {
            if let Some(switch) = end.switch {
                ports[usize::from(switch)].push(end.port);
            }
        }
        FabricLinks { links, handles, ports }
    }

    /// Requests the link states of all switches in parallel. Returns them with the lateness of recent frames.
    fn read_states(&self) -> Result<(LinkStates, Vec<weir_units::Time>), DataplaneError> {
        let replies: Vec<_> = self.handles.iter().map(DataplaneHandle::links).collect();
        let (mut states, mut lateness) = (LinkStates::new(), Vec::new());
        for (switch, reply) in (0..).zip(replies) {
            let links = reply.wait()?;
            states.extend(links.ports.into_iter().map(|link| ((switch, link.port), link)));
            lateness.extend(links.lateness);
        }
        Ok((states, lateness))
    }
}

/// Returns the reported state of an end; `None` at a host.
fn state_of<'a>(states: &'a LinkStates, end: &FabricEnd) -> Option<&'a PortLink> {
    states.get(&(end.switch?, end.port))
}

/// Returns the state of the direction that begins at `end`: the sending switch's view, or the receiver's if a
/// host sends.
fn direction_from<'a>(states: &'a LinkStates, link: &FabricLink, end: usize) -> Option<&'a DirectionStatus> {
    let near = state_of(states, &link.ends[end]).map(|port| &port.sent);
    near.or_else(|| state_of(states, &link.ends[1 - end]).map(|port| &port.received))
}

impl LinkController for FabricLinks {
    fn names(&self) -> Vec<String> {
        self.links.iter().map(|link| link.name.clone()).collect()
    }

    fn stats(&self) -> Result<LinkEmulatorStats, DataplaneError> {
        let (states, mut lateness) = self.read_states()?;
        lateness.sort_unstable();
        let status = |link: &FabricLink| {
            let parameters = link
                .ends
                .iter()
                .find_map(|end| state_of(&states, end))
                .map_or(link.parameters, |port| port.link);
            let ends = link.ends.clone().map(|end| end.name);
            LinkStatus {
                link: EmulatedLink { name: link.name.clone(), ends, parameters },
                directions: [0, 1].map(|end| direction_from(&states, link, end).cloned().unwrap_or_default()),
            }
        };
        Ok(LinkEmulatorStats { links: self.links.iter().map(status).collect(), lateness })
    }

    fn change(&self, names: Vec<String>, change: LinkChange) -> Result<(), DataplaneError> {
        let selected = self.links.iter().filter(|link| names.contains(&link.name));
        let ends =
            selected.flat_map(|link| &link.ends).filter_map(|end| Some((usize::from(end.switch?), end.port)));
        let replies: Vec<_> =
            ends.map(|(switch, port)| self.handles[switch].change_links(vec![port], change)).collect();
        replies.into_iter().try_for_each(|reply| reply.wait())
    }

    fn sample(&self, register: &str) -> Option<Result<FabricSample, DataplaneError>> {
        let read = |(handle, ports): (&DataplaneHandle, &Vec<u16>)| {
            let (ports, register) = (ports.clone(), register.to_owned());
            handle.call(move |switch, _| (read_cells(switch, &ports, &register), take_peaks(switch, &ports)))
        };
        let replies: Vec<_> = self.handles.iter().zip(&self.ports).map(read).collect();
        let read = replies.into_iter().map(|reply| reply.wait()).collect::<Result<(Vec<_>, Vec<_>), _>>();
        Some(read.and_then(|(cells, peaks)| {
            let (states, _) = self.read_states()?;
            let bytes = |link: &FabricLink| {
                [0, 1].map(|end| {
                    direction_from(&states, link, end).map_or(0, |status| status.counters.offered.bytes)
                })
            };
            Ok(FabricSample { bytes: self.links.iter().map(bytes).collect(), cells, peaks })
        }))
    }
}

/// Returns the cells of a register at the indices `ports`. The result is empty if the program has no such
/// register.
fn read_cells(switch: &Switch, ports: &[u16], register: &str) -> Vec<(u16, u64)> {
    let cell = |&port: &u16| {
        let bytes = switch.pipeline().register_read(register, usize::from(port)).ok()?;
        Some((port, bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))))
    };
    ports.iter().filter_map(cell).collect()
}

/// Returns the largest queue of each port since the last call, in bytes.
fn take_peaks(switch: &mut Switch, ports: &[u16]) -> Vec<(u16, u64)> {
    let peak = |&port: &u16| (port, switch.queues().port_occupancy(port).peak_bytes);
    let peaks = ports.iter().map(peak).collect();
    switch.reset_peaks();
    peaks
}
