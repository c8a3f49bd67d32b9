//! Raw sockets by which the tests send and observe frames beside the agents.

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

const ETHERTYPE_AT: usize = 12;
const PROTOCOL_AT: usize = 23;
const ICMP_TYPE_AT: usize = 34;
const ICMP: u8 = 1;
const UNREACHABLE: u8 = 3;

/// A raw channel on the interface of the namespace the caller is in.
pub fn raw() -> (Box<dyn DataLinkSender>, Box<dyn DataLinkReceiver>) {
    let all = datalink::interfaces();
    let interface = all.iter().find(|i| i.name == IFACE).expect("the interface is there");
    let config =
        Config { read_timeout: Some(Duration::from_millis(20)), promiscuous: false, ..Config::default() };
    match datalink::channel(interface, config) {
        Ok(Channel::Ethernet(sender, receiver)) => (sender, receiver),
        _ => panic!("pnet opens a channel for root"),
    }
}

/// Watches the wire for ICMP "unreachable" until it is asked.
pub struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(u64, u64)>,
}

impl Watch {
    pub fn start(net: &Net, side: usize) -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let (ready, up) = std::sync::mpsc::channel();
        let seen_stop = Arc::clone(&stop);
        let thread = net.spawn(side, move || {
            let (_sender, mut receiver) = raw();
            ready.send(()).expect("the test waits");
            let (mut frames, mut unreachable) = (0, 0);
            loop {
                match receiver.next() {
                    Ok(frame) => {
                        frames += 1;
                        let is_icmp = frame.get(ETHERTYPE_AT..ETHERTYPE_AT + 2) == Some(&[8, 0])
                            && frame.get(PROTOCOL_AT) == Some(&ICMP);
                        unreachable += u64::from(is_icmp && frame.get(ICMP_TYPE_AT) == Some(&UNREACHABLE));
                    }
                    Err(_) if seen_stop.load(Ordering::Relaxed) => return (frames, unreachable),
                    Err(_) => {}
                }
            }
        });
        up.recv().expect("the watch starts");
        Watch { stop, thread }
    }

    /// Frames, and ICMP "unreachable" among them.
    pub fn stop(self) -> (u64, u64) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the watch does not panic")
    }
}

/// Pings the other side through the kernel's stack. True if it answered within a second.
pub fn ping(net: &Net, from: usize) -> bool {
    net.on(from, move || {
        let mut socket = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::ICMPV4)).expect("root may");
        socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
        // Echo request, identifier and sequence number of our own.
        let mut request = [8, 0, 0, 0, 0x57, 0x31, 0, 1];
        let sum = internet_checksum(&request);
        request[2..4].copy_from_slice(&sum.to_be_bytes());
        socket.send_to(&request, &SocketAddrV4::new(ADDRS[1 - from], 0).into()).expect("the link is up");
        let mut answer = [0; 128];
        while let Ok(length) = socket.read(&mut answer) {
            // Behind the IPv4 header: echo reply with our identifier.
            if length >= 28 && answer[20] == 0 && answer[24..26] == request[4..6] {
                return true;
            }
        }
        false
    })
}
