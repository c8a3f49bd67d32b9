//! Raw sockets with which the tests send and observe frames beside the agents.

use super::netns::{ADDRS, IFACE, Net};
use pnet::datalink::{self, Channel, Config, DataLinkReceiver, DataLinkSender};
use socket2::{Domain, Protocol, Socket, Type};
use std::io::Read;
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use weir_host::wire::internet_checksum;

const ETHERTYPE_OFFSET: usize = 12;
const PROTOCOL_OFFSET: usize = 23;
const ICMP_TYPE_OFFSET: usize = 34;
const PROTOCOL_ICMP: u8 = 1;
const ICMP_DESTINATION_UNREACHABLE: u8 = 3;

/// Opens a raw socket on the interface of the caller's network namespace.
pub(crate) fn open_raw() -> (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>) {
    let all = datalink::interfaces();
    let interface = all.iter().find(|i| i.name == IFACE).expect("the interface exists");
    let config =
        Config { read_timeout: Some(Duration::from_millis(20)), promiscuous: false, ..Config::default() };
    match datalink::channel(interface, config) {
        Ok(Channel::Ethernet(sender, receiver)) => (sender, receiver),
        _ => panic!("pnet cannot open {IFACE}"),
    }
}

/// What an [`IcmpMonitor`] has seen.
pub(crate) struct IcmpCounts {
    /// Number of frames of any kind.
    pub frames: u64,
    /// Number of ICMP "destination unreachable" messages.
    pub unreachable: u64,
}

/// Counts frames and ICMP "destination unreachable" messages on an interface until it is stopped.
pub(crate) struct IcmpMonitor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<IcmpCounts>,
}

impl IcmpMonitor {
    pub(crate) fn start(net: &Net, side: usize) -> IcmpMonitor {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready_tx, ready_rx) = std::sync::mpsc::channel();
        let stop_flag = Arc::clone(&stop);
        let thread = net.spawn(side, move || {
            let (_sender, mut receiver) = open_raw();
            ready_tx.send(()).expect("the test is still waiting");
            let mut counts = IcmpCounts { frames: 0, unreachable: 0 };
            loop {
                match receiver.next() {
                    Ok(frame) => {
                        counts.frames += 1;
                        let is_icmp = frame.get(ETHERTYPE_OFFSET..ETHERTYPE_OFFSET + 2) == Some(&[8, 0])
                            && frame.get(PROTOCOL_OFFSET) == Some(&PROTOCOL_ICMP);
                        counts.unreachable += u64::from(
                            is_icmp && frame.get(ICMP_TYPE_OFFSET) == Some(&ICMP_DESTINATION_UNREACHABLE),
                        );
                    }
                    Err(_) if stop_flag.load(Ordering::Relaxed) => return counts,
                    Err(_) => {}
                }
            }
        });
        ready_rx.recv().expect("the monitor thread has failed to start");
        IcmpMonitor { stop, thread }
    }

    /// Stops after reading all frames that have arrived.
    pub(crate) fn stop(self) -> IcmpCounts {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the monitor thread panicked")
    }
}

/// Pings the other side through the kernel's stack. Returns true if it answers within a second.
pub(crate) fn ping(net: &Net, from: usize) -> bool {
    net.on(from, move || {
        let mut socket =
            Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("raw sockets need root");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        // Echo request (type 8) with an arbitrary identifier and sequence number.
        let mut request = [8, 0, 0, 0, 0x57, 0x31, 0, 1];
        let sum = internet_checksum(&request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        socket.send_to(&request, &SocketAddrV4::new(ADDRS[1 - from], 0).into()).expect("the link is up");
        let mut answer = [0; 128];
        while let Ok(length) = socket.read(&mut answer) {
            // After the IPv4 header of 20 bytes: an echo reply (type 0) with our identifier.
            if length >= 28 && answer[20] == 0 && answer[24..26] == request[4..6] {
                return true;
            }
        }
        false
    })
}
