//! Keeps the ports of BMv2 switches at the bit rates of their links. BMv2 limits packets per second, so the limit is
//! adapted to the lengths of the queued frames.

use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::mpsc::{Receiver, Sender, channel};
use weir_client::ThriftClient;
use weir_experiment::backend::Error;
use weir_switch::driver::{EmulatedLink, LinkObserver};
use weir_switch::link::PacketRateController;
use weir_units::{Bytes, Time};

/// Maximum number of flows whose egress interfaces are known. A full table is cleared, and the flows are learnt again.
const MAX_LEARNT_FLOWS: usize = 1 << 16;
const ETHERTYPE_IPV4: [u8; 2] = [0x08, 0x00];

/// A BMv2 switch: the address of its Thrift server, and its ports with the interface that connects each to a
/// link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bmv2Switch {
    thrift_address: String,
    /// Port number, and name of the interface.
    ports: Vec<(u16, String)>,
}

impl Bmv2Switch {
    /// Parses `127.0.0.1:9090=1@veth1,2@veth2`.
    pub(super) fn parse(text: &str) -> Result<Bmv2Switch, String> {
        let syntax_error = || {
            format!("\"{text}\": expected HOST:PORT=PORT@INTERFACE,..., for example 127.0.0.1:9090=1@veth1")
        };
        let (thrift_address, ports) = text.split_once('=').ok_or_else(syntax_error)?;
        let port = |part: &str| {
            let (port, interface) = part.split_once('@')?;
            Some((port.parse().ok()?, interface.to_owned()))
        };
        let ports: Option<Vec<(u16, String)>> = ports.split(',').map(port).collect();
        Ok(Bmv2Switch { thrift_address: thrift_address.to_owned(), ports: ports.ok_or_else(syntax_error)? })
    }
}

/// A switch port that is connected to an interface of the emulator.
struct LimitedPort {
    /// Index of the switch.
    switch: usize,
    port: u16,
    /// Computes the packet rate that gives the port the bit rate of its link; `None` for a link without rate limit.
    rate_control: Option<PacketRateController>,
}

/// A new rate for a port.
struct NewRate {
    switch: usize,
    port: u16,
    packets_per_second: u64,
}

/// Observes the frames of all switches. The egress port of a flow is learnt from its last frame that left the
/// switch; a frame that enters the switch is then accounted to the queue of that port.
pub(super) struct Bmv2RateController {
    thrift_addresses: Vec<String>,
    /// Indexed by the emulator's interfaces; `None` if the interface has no BMv2 switch.
    limits: Vec<Option<LimitedPort>>,
    /// Interface by which a flow leaves a switch, by switch index and flow hash.
    egress_interfaces: HashMap<(usize, u64), u16>,
    /// Channel to the thread that sets the rates; `None` before [`Self::start`].
    rate_tx: Option<Sender<NewRate>>,
}

impl Bmv2RateController {
    /// Creates the controller for `switches`, whose ports get the rates of `links`; `None` without switches.
    /// `max_frame_len` is the length of a full frame. Fails if a port's interface belongs to no link.
    pub(super) fn new(
        switches: &[Bmv2Switch],
        links: &[EmulatedLink],
        max_frame_len: Bytes,
    ) -> Result<Option<Bmv2RateController>, String> {
        if switches.is_empty() {
            return Ok(None);
        }
        let mut limits: Vec<Option<LimitedPort>> = (0..links.len() * 2).map(|_| None).collect();
        for (switch, bmv2) in switches.iter().enumerate() {
            for (port, interface) in &bmv2.ports {
                let ends = links.iter().flat_map(|link| &link.ends);
                let index = ends.into_iter().position(|end| end == interface).ok_or_else(|| {
                    format!("--bmv2 {}: interface {interface} belongs to no link", bmv2.thrift_address)
                })?;
                let rate = links[index / 2].parameters.rate;
                let rate_control = rate.map(|rate| PacketRateController::new(rate, max_frame_len));
                limits[index] = Some(LimitedPort { switch, port: *port, rate_control });
            }
        }
        let thrift_addresses = switches.iter().map(|switch| switch.thrift_address.clone()).collect();
        Ok(Some(Bmv2RateController {
            thrift_addresses,
            limits,
            egress_interfaces: HashMap::new(),
            rate_tx: None,
        }))
    }

    /// Starts the thread that sets the rates. The thread connects to a switch when a rate of that switch
    /// changes for the first time.
    pub(super) fn start(mut self) -> Result<Box<dyn LinkObserver>, String> {
        let (rate_tx, rate_rx) = channel();
        let thrift_addresses = std::mem::take(&mut self.thrift_addresses);
        let thread = std::thread::Builder::new().name("rates".into());
        thread
            .spawn(move || set_rates(&thrift_addresses, &rate_rx))
            .map_err(|error| Error::thread(&error).to_string())?;
        self.rate_tx = Some(rate_tx);
        Ok(Box::new(self))
    }

    /// Accounts a frame of `len` bytes to the queue of an interface's port, and requests a new rate if it changes.
    fn on_enqueue(&mut self, now: Time, interface: u16, len: usize) {
        let Some(Some(LimitedPort { switch, port, rate_control: Some(rate_control) })) =
            self.limits.get_mut(usize::from(interface))
        else {
            return;
        };
        if let (Some(packets_per_second), Some(rate_tx)) =
            (rate_control.on_enqueue(now, len as u32), &self.rate_tx)
        {
            // The thread runs as long as this end of the channel exists.
            let _ = rate_tx.send(NewRate { switch: *switch, port: *port, packets_per_second });
        }
    }

    fn switch_at(&self, interface: u16) -> Option<usize> {
        Some(self.limits.get(usize::from(interface))?.as_ref()?.switch)
    }
}

impl LinkObserver for Bmv2RateController {
    /// The link has delivered a frame to the switch.
    fn delivered(&mut self, now: Time, interface: u16, frame: &[u8]) {
        let Some(switch) = self.switch_at(interface) else { return };
        if let Some(&egress) = self.egress_interfaces.get(&(switch, flow_hash(frame))) {
            self.on_enqueue(now, egress, frame.len());
        }
    }

    /// The link has received a frame from the switch.
    fn received(&mut self, now: Time, interface: u16, frame: &[u8]) {
        let Some(switch) = self.switch_at(interface) else { return };
        if self.egress_interfaces.len() >= MAX_LEARNT_FLOWS {
            self.egress_interfaces.clear();
        }
        if self.egress_interfaces.insert((switch, flow_hash(frame)), interface).is_none() {
            // The flow's egress port was unknown when its first frame entered, so that frame is accounted
            // now.
            self.on_enqueue(now, interface, frame.len());
        }
    }
}

/// Returns a hash of the fields that identify a flow: addresses, protocol and ports of IPv4, otherwise the
/// Ethernet addresses.
fn flow_hash(frame: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    match frame.get(12..14) {
        // Protocol; addresses and ports of a header without options.
        Some(ethertype) if *ethertype == ETHERTYPE_IPV4 => {
            (frame.get(23), frame.get(26..38)).hash(&mut hasher)
        }
        _ => frame.get(..12).hash(&mut hasher),
    }
    hasher.finish()
}

/// Sets the latest requested rate of each port, until the channel is closed. Warns once per switch.
fn set_rates(thrift_addresses: &[String], requests: &Receiver<NewRate>) {
    let mut clients: Vec<Option<ThriftClient>> = thrift_addresses.iter().map(|_| None).collect();
    let mut has_warned = vec![false; thrift_addresses.len()];
    while let Ok(first) = requests.recv() {
        let mut newest = HashMap::new();
        for rate in std::iter::once(first).chain(requests.try_iter()) {
            newest.insert((rate.switch, rate.port), rate.packets_per_second);
        }
        for ((switch, port), rate) in newest {
            let result = match clients[switch].as_mut() {
                Some(client) => client.set_queue_rate(port, rate),
                None => ThriftClient::connect(&thrift_addresses[switch])
                    .and_then(|client| clients[switch].insert(client).set_queue_rate(port, rate)),
            };
            if let Err(error) = result {
                // Connect again for the next rate.
                clients[switch] = None;
                if !std::mem::replace(&mut has_warned[switch], true) {
                    crate::console::warn(&format!("cannot set the rate of port {port}: {error}"));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_switch::link::LinkParameters;

    fn controller() -> (Bmv2RateController, Receiver<NewRate>) {
        let link = |name: &str, ends: [&str; 2]| EmulatedLink {
            name: name.to_owned(),
            ends: ends.map(str::to_owned),
            parameters: "rate=1Mbps"
                .parse::<weir_switch::link::LinkChange>()
                .unwrap()
                .apply(LinkParameters::default()),
        };
        let links = [link("h1-s1", ["a0", "a1"]), link("s1-h2", ["b0", "b1"])];
        let switches = [Bmv2Switch::parse("127.0.0.1:9090=1@a1,2@b0").unwrap()];
        let mut controller = Bmv2RateController::new(&switches, &links, Bytes::new(1_518)).unwrap().unwrap();
        let (rate_tx, requests) = channel();
        controller.rate_tx = Some(rate_tx);
        (controller, requests)
    }

    fn frame(to: u8, len: usize) -> Vec<u8> {
        let mut frame = vec![0; len];
        frame[12..14].copy_from_slice(&ETHERTYPE_IPV4);
        frame[33] = to;
        frame
    }

    #[test]
    fn the_rate_follows_the_lengths_of_a_flow_whose_port_is_known() {
        let (mut controller, requests) = controller();
        controller.delivered(Time::ZERO, 1, &frame(2, 90)); // the egress port is unknown
        controller.received(Time::ZERO, 2, &frame(2, 90)); // leaves by port 2
        (0..40).for_each(|i| controller.delivered(Time::from_us(i), 1, &frame(2, 90)));
        let set: Vec<_> =
            requests.try_iter().map(|rate| (rate.switch, rate.port, rate.packets_per_second)).collect();
        assert!(!set.is_empty() && set.iter().all(|(switch, port, _)| (*switch, *port) == (0, 2)), "{set:?}");
        assert!(set.last().unwrap().2 > 82 * 2, "short frames raise the packet rate: {set:?}");
        // Frames at interfaces without a BMv2 switch are ignored.
        controller.received(Time::ZERO, 0, &frame(2, 90));
        controller.delivered(Time::ZERO, 3, &frame(2, 90));
        assert_eq!(requests.try_iter().count(), 0);
        for garbage in [&[][..], &[1, 2, 3], &[0; 13], &[8; 20]] {
            controller.received(Time::ZERO, 2, garbage);
            controller.delivered(Time::ZERO, 1, garbage);
        }
    }

    #[test]
    fn errors_name_the_option() {
        for invalid in ["", "127.0.0.1:9090", "127.0.0.1:9090=1", "127.0.0.1:9090=x@a"] {
            assert!(
                Bmv2Switch::parse(invalid).unwrap_err().contains("expected HOST:PORT=PORT@INTERFACE"),
                "{invalid}"
            );
        }
        let switches = [Bmv2Switch::parse("127.0.0.1:9090=1@a1").unwrap()];
        let Err(reason) = Bmv2RateController::new(&switches, &[], Bytes::new(1_518)) else {
            panic!("a1 belongs to no link")
        };
        assert_eq!(reason, "--bmv2 127.0.0.1:9090: interface a1 belongs to no link");
    }
}
