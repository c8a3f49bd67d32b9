//! Shows and changes the links of a running fabric, for `weir link`.

use super::fabric::{FabricEnd, FabricLink};
use crate::commands::link::LinkController;
use std::collections::HashMap;
use weir_switch::Switch;
use weir_switch::driver::{
    DataplaneError, DataplaneHandle, DirectionStatus, EmulatedLink, LinkEmulatorStats, LinkStatus, PortLink,
};
use weir_switch::link::LinkChange;
use weir_testbed::links::FabricSample;

/// The links of a running fabric, and the data planes of the switches that carry them.
pub struct FabricLinks {
    links: Vec<FabricLink>,
    handles: Vec<DataplaneHandle>,
    /// The ports of each switch that have a link.
    ports: Vec<Vec<u16>>,
}

/// The state of link ends as reported by their switches, by switch and port.
type Seen = HashMap<(u16, u16), PortLink>;

impl FabricLinks {
    /// Creates the controller of `links`; `handles` are the data planes of the switches, by index.
    pub fn new(links: Vec<FabricLink>, handles: Vec<DataplaneHandle>) -> FabricLinks {
        let mut ports = vec![Vec::new(); handles.len()];
        for end in links.iter().flat_map(|link| &link.ends) {
            if let Some(switch) = end.switch {
                ports[usize::from(switch)].push(end.port);
            }
        }
        FabricLinks { links, handles, ports }
    }

    /// Requests the link states of all switches in parallel. Returns them with the lateness of recent frames.
    fn seen(&self) -> Result<(Seen, Vec<weir_units::Time>), DataplaneError> {
        let asked: Vec<_> = self.handles.iter().map(DataplaneHandle::links).collect();
        let (mut seen, mut lateness) = (Seen::new(), Vec::new());
        for (switch, reply) in (0..).zip(asked) {
            let links = reply.wait()?;
            seen.extend(links.ports.into_iter().map(|link| ((switch, link.port), link)));
            lateness.extend(links.lateness);
        }
        Ok((seen, lateness))
    }
}

/// Returns the reported state of an end; `None` at a host.
fn at<'a>(seen: &'a Seen, end: &FabricEnd) -> Option<&'a PortLink> {
    seen.get(&(end.switch?, end.port))
}

/// Returns the state of the direction that begins at `end`: the sending switch's view, or the receiver's if a
/// host sends.
fn from<'a>(seen: &'a Seen, link: &FabricLink, end: usize) -> Option<&'a DirectionStatus> {
    let near = at(seen, &link.ends[end]).map(|port| &port.sent);
    near.or_else(|| at(seen, &link.ends[1 - end]).map(|port| &port.received))
}

impl LinkController for FabricLinks {
    fn names(&self) -> Vec<String> {
        self.links.iter().map(|link| link.name.clone()).collect()
    }

    fn stats(&self) -> Result<LinkEmulatorStats, DataplaneError> {
        let (seen, mut lateness) = self.seen()?;
        lateness.sort_unstable();
        let status = |it: &FabricLink| {
            let parameters = it.ends.iter().find_map(|end| at(&seen, end)).map_or(it.link, |port| port.link);
            let ends = it.ends.clone().map(|end| end.name);
            LinkStatus {
                link: EmulatedLink { name: it.name.clone(), ends, parameters },
                directions: [0, 1].map(|end| from(&seen, it, end).cloned().unwrap_or_default()),
            }
        };
        Ok(LinkEmulatorStats { links: self.links.iter().map(status).collect(), lateness })
    }

    fn change(&self, names: Vec<String>, change: LinkChange) -> Result<(), DataplaneError> {
        let meant = self.links.iter().filter(|link| names.contains(&link.name));
        let ends =
            meant.flat_map(|link| &link.ends).filter_map(|end| Some((usize::from(end.switch?), end.port)));
        let asked: Vec<_> =
            ends.map(|(at, port)| self.handles[at].change_links(vec![port], change)).collect();
        asked.into_iter().try_for_each(|reply| reply.wait())
    }

    fn sample(&self, register: &str) -> Option<Result<FabricSample, DataplaneError>> {
        let read = |(handle, ports): (&DataplaneHandle, &Vec<u16>)| {
            let (ports, register) = (ports.clone(), register.to_owned());
            handle.call(move |switch, _| cells(switch, &ports, &register))
        };
        let asked: Vec<_> = self.handles.iter().zip(&self.ports).map(read).collect();
        let cells = asked.into_iter().map(|reply| reply.wait()).collect::<Result<Vec<_>, _>>();
        Some(cells.and_then(|cells| {
            let (seen, _) = self.seen()?;
            let bytes = |link: &FabricLink| {
                [0, 1].map(|end| from(&seen, link, end).map_or(0, |it| it.counters.offered.bytes))
            };
            Ok(FabricSample { bytes: self.links.iter().map(bytes).collect(), cells })
        }))
    }
}

/// Returns the cells of a register at the indices `ports`. The result is empty if the program has no such
/// register.
fn cells(switch: &Switch, ports: &[u16], register: &str) -> Vec<(u16, u64)> {
    let cell = |&port: &u16| {
        let bytes = switch.pipeline().register_read(register, usize::from(port)).ok()?;
        Some((port, bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))))
    };
    ports.iter().filter_map(cell).collect()
}
