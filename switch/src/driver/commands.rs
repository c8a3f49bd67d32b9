//! Operations of the control plane on a switch and its ports. A `DataplaneHandle` queues them, and the data-plane
//! thread runs them.

use super::capture::{self, Capture};
use super::config::{FabricPort, FrameSource};
use super::error::DataplaneError;
use super::event::Subscriber;
use super::pcap::{PcapError, PcapReader, PcapWriter};
use super::port::{LinkEnd, PlugState, Port};
use super::port_link::{PortLink, PortLinkConfig, SwitchLinks, direction_status};
use super::replay::Replay;
use super::stats::{DataplaneStats, IoDrop, IoDrops, PortStatus};
use super::switch_runtime::{NO_PORT, PORTS, Runtime, receive};
use crate::engine::{Switch, SwitchConfig};
use crate::link::LinkChange;
use crate::tm::{MAX_PORT, QueueLimits, Rate};
use std::path::Path;
use weir_units::Time;

impl Runtime {
    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    pub(super) fn stop(&mut self) {
        self.is_running = false;
    }

    pub(super) fn switch(&mut self) -> Result<&mut Switch, DataplaneError> {
        self.switch.as_deref_mut().ok_or(DataplaneError::NoProgram)
    }

    /// Returns the initial configuration. Rates and limits set later are applied by [`Self::install`].
    pub(super) fn switch_config(&self) -> SwitchConfig {
        self.config.switch_config()
    }

    pub(super) fn install(&mut self, mut switch: Box<Switch>) -> Option<Box<Switch>> {
        for (&(port, priority), &rate) in &self.rates {
            switch.set_rate(port, priority, rate);
        }
        for (&(port, priority), &limits) in &self.limits {
            switch.set_limits(port, Some(priority), limits);
        }
        let old = self.replace_switch(switch);
        self.update_watch_ports();
        // Ports that wait for a rate of the old switch must ask the new one.
        (0..PORTS as u16).for_each(|port| self.wake_port(port));
        old
    }

    pub(super) fn set_rate(&mut self, port: u16, priority: Option<u8>, rate: Rate) -> bool {
        let exists = port <= MAX_PORT && priority.is_none_or(|priority| priority < self.config.priorities);
        if exists {
            self.rates.insert((port, priority), rate);
            self.wake_port(port);
            if let Some(switch) = &mut self.switch {
                switch.set_rate(port, priority, rate);
            }
        }
        exists
    }

    pub(super) fn set_limits(&mut self, port: u16, priority: u8, limits: QueueLimits) {
        self.limits.insert((port, priority), limits);
        if let Some(switch) = &mut self.switch {
            switch.set_limits(port, Some(priority), limits);
        }
    }

    /// Applies an operation to each selected queue; `None` selects all ports or priorities. Returns `false`
    /// if the port or priority does not exist.
    pub(super) fn for_queues(
        &mut self,
        port: Option<u16>,
        priority: Option<u8>,
        operation: impl Fn(&mut Runtime, u16, u8),
    ) -> bool {
        let exists = port.is_none_or(|port| port <= MAX_PORT)
            && priority.is_none_or(|priority| priority < self.config.priorities);
        if exists {
            for port in port.map_or(0..=MAX_PORT, |port| port..=port) {
                for priority in
                    priority.map_or(0..=self.config.priorities - 1, |priority| priority..=priority)
                {
                    operation(self, port, priority);
                }
            }
        }
        exists
    }

    pub(super) fn add_port(&mut self, number: u16, interface: &str) -> Result<(), DataplaneError> {
        let refuse = |reason: String| DataplaneError::Port { port: number, reason };
        if number > MAX_PORT || number == self.config.drop_port || self.config.cpu_port == Some(number) {
            return Err(refuse(format!(
                "invalid port number; use 0 to {MAX_PORT}, except the drop port and the CPU port"
            )));
        }
        if let Some(port) = self.ports.iter().find(|port| port.number == number && port.name == interface)
            && port.peer().is_some()
            && !port.up
        {
            self.set_plug_state(number, LinkEnd::Local, PlugState::Plugged);
            return Ok(());
        }
        if self.ports.len() >= self.config.max_ports {
            return Err(refuse(format!(
                "the limit of {} ports is reached; raise --max-port-count",
                self.ports.len()
            )));
        }
        if let Some(other) = self.ports.iter().find(|port| port.number == number || port.name == interface) {
            return Err(refuse(format!("{} is already port {}", other.name, other.number)));
        }
        let mut port = match &self.config.frames {
            FrameSource::Interfaces => self.open_interface(number, interface),
            FrameSource::Files { directory, .. } => {
                open_files(&mut self.replay, number, directory, interface).map_err(|error| error.to_string())
            }
        }
        .map_err(refuse)?;
        if let Some(&link_config) = self.config.port_links.get(&number) {
            port.attach_link(link_config);
        }
        if let Some([sent, received]) = self.detached_links.remove(&number) {
            (port.egress_link, port.ingress_link) = (sent, received);
        }
        self.epoll_set.watch(self.index, &port);
        self.put_port(port);
        Ok(())
    }

    /// Adds a port that is connected to another switch of this data plane.
    pub(super) fn add_internal_port(&mut self, internal: &FabricPort) -> Result<(), DataplaneError> {
        let refuse = |reason: String| DataplaneError::Port { port: internal.port, reason };
        let link_config = self.config.port_links.get(&internal.port).copied();
        let link_config =
            link_config.ok_or_else(|| refuse("a link between two switches needs a rate".to_owned()))?;
        let capture = self.open_capture(&internal.name).map_err(refuse)?;
        let mut port = Port::internal(internal.port, &internal.name, internal.peer, capture);
        port.attach_link(link_config);
        self.put_port(port);
        Ok(())
    }

    /// Returns the state of all links, also of those at removed ports.
    pub(super) fn links(&mut self) -> SwitchLinks {
        let Runtime { config, ports, port_index, detached_links, lateness, .. } = self;
        let link = |(&number, link_config): (&u16, &PortLinkConfig)| match ports
            .get_mut(usize::from(port_index[usize::from(number)]))
        {
            Some(port) => port.link(link_config),
            None => {
                let link = detached_links.get(&number).unwrap_or(&[None, None]);
                let [sent, received] =
                    link.each_ref().map(|link| direction_status(link.as_ref(), IoDrops::default()));
                PortLink { port: number, link: link_config.link, sent, received }
            }
        };
        SwitchLinks {
            ports: config.port_links.iter().map(link).collect(),
            lateness: lateness.last().to_vec(),
        }
    }

    /// Changes the links at these ports. A changed rate also becomes the rate of the port.
    pub(super) fn change_links(&mut self, numbers: &[u16], change: LinkChange) {
        for &number in numbers {
            let Some(link_config) = self.config.port_links.get_mut(&number) else { continue };
            link_config.link = change.apply(link_config.link);
            let index = usize::from(self.port_index[usize::from(number)]);
            let attached =
                self.ports.get_mut(index).map(|port| [&mut port.egress_link, &mut port.ingress_link]);
            let detached = self.detached_links.get_mut(&number).map(|link| link.each_mut());
            for direction in attached.into_iter().chain(detached).flatten().flatten() {
                direction.change(change, &mut self.out.pool);
            }
            if let Some(rate) = change.rate {
                self.set_rate(number, None, rate.map_or(Rate::Unlimited, Rate::Bits));
            }
        }
    }

    fn put_port(&mut self, port: Port) {
        self.port_index[usize::from(port.number)] = self.ports.len() as u16;
        self.ports.push(port);
        self.ports_changed = true;
        self.update_watch_ports();
    }

    fn open_capture(&self, interface: &str) -> Result<Option<Capture>, String> {
        let capture = self.config.capture.as_ref().map(|config| Capture::open(config, interface));
        capture.transpose().map_err(|error| error.to_string())
    }

    fn open_interface(&self, number: u16, interface: &str) -> Result<Port, String> {
        let capture = self.open_capture(interface)?;
        Port::open(number, interface, self.config.ring_bytes, capture).map_err(|error| {
            let hint = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "; raw sockets need root (CAP_NET_RAW)",
                _ => "",
            };
            format!("interface {interface}: {error}{hint}")
        })
    }

    pub(super) fn remove_port(&mut self, number: u16) -> Result<(), DataplaneError> {
        let refuse = |reason: &str| DataplaneError::Port { port: number, reason: reason.to_owned() };
        if matches!(self.config.frames, FrameSource::Files { .. }) {
            return Err(refuse("ports cannot be removed while frames come from files"));
        }
        let index = self.port_index.get(usize::from(number)).copied().unwrap_or(NO_PORT);
        if index == NO_PORT {
            return Err(refuse("there is no such port"));
        }
        if self.ports[usize::from(index)].peer().is_some() {
            self.set_plug_state(number, LinkEnd::Local, PlugState::Unplugged);
            return Ok(());
        }
        self.ports_changed = true;
        let port = self.ports.remove(usize::from(index));
        self.portless_drops.add(IoDrop::NoInterface, port.unsent() as u64);
        if port.egress_link.is_some() {
            let mut link = [port.egress_link, port.ingress_link];
            link.iter_mut().flatten().for_each(|direction| direction.drop_in_flight(&mut self.out.pool));
            self.detached_links.insert(number, link);
        }
        self.port_index[usize::from(number)] = NO_PORT;
        for (index, port) in self.ports.iter().enumerate() {
            self.port_index[usize::from(port.number)] = index as u16;
        }
        self.wake_port(number);
        self.update_watch_ports();
        Ok(())
    }

    pub(super) fn subscribe(&mut self, subscriber: Subscriber) {
        self.out.subscribers.add(subscriber);
    }

    /// Injects a packet from the controller: the switch receives it at the CPU port.
    pub(super) fn packet_out(&mut self, cpu_port: u16, frame: &[u8]) {
        let now = self.clock.now();
        self.packet_out += 1;
        let Some(switch) = &mut self.switch else { return self.portless_drops.add(IoDrop::NoProgram, 1) };
        receive(switch, &self.config, now, cpu_port, frame, &mut self.out);
    }

    pub(super) fn stats(&mut self) -> DataplaneStats {
        let switch = self.switch.as_deref();
        let mut ports: Vec<PortStatus> = Vec::with_capacity(self.ports.len());
        for port in &mut self.ports {
            port.sync_counters();
            ports.push(PortStatus {
                port: port.number,
                interface: port.name.clone(),
                up: port.up,
                counters: port.counters.clone(),
                queued: switch.map_or(0, |switch| switch.queue_packets(port.number)),
            });
        }
        ports.sort_by_key(|port| port.port);
        DataplaneStats {
            uptime: self.clock.now(),
            ports,
            portless_drops: self.portless_drops.clone(),
            packet_in: self.packet_in,
            packet_out: self.packet_out,
            digests_lost: self.out.digests_lost,
            switch: switch.map(Switch::counters),
        }
    }
}

fn open_files(
    replay: &mut Replay,
    number: u16,
    directory: &Path,
    interface: &str,
) -> Result<Port, PcapError> {
    let (input, output) = capture::file_paths(directory, interface);
    let reader = PcapReader::open(&input)?;
    let writer = PcapWriter::create(&output, u64::MAX)?;
    replay.add(number, reader)?;
    Ok(Port::to_file(number, interface, writer))
}
