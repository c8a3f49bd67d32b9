//! Frames and table entries that the tests and the bench share.

use weir_switch::Switch;
use weir_switch::pipeline::{ActionCall, KeyMatch};

/// The program that the tests load.
pub(crate) const HPCC: &str = include_str!("../../../p4src/build/hpcc.json");
/// The IPv4 address of the host behind a port: 10.0.0.<port>.
pub(crate) fn host(port: u8) -> [u8; 4] {
    [10, 0, 0, port]
}
/// The MAC address of the host behind a port.
pub(crate) fn mac(port: u8) -> [u8; 6] {
    [8, 0, 0, 0, 0, port]
}

/// Routes 10.0.0.<port> to <port>.
pub(crate) fn route(switch: &mut Switch, ports: impl IntoIterator<Item = u8>) {
    for port in ports {
        let table = switch.pipeline().table_by_name("forward").expect("hpcc.p4 has this table");
        let key = [KeyMatch::Lpm { value: host(port).to_vec(), prefix_len: 32 }];
        let deliver = switch.pipeline().action_by_name(table, "deliver").expect("hpcc.p4 has this action");
        let deliver = ActionCall::action(deliver, [vec![port], mac(port).to_vec()]);
        switch.pipeline_mut().table_add(table, &key, 0, &deliver).expect("the entry is valid");
    }
}

/// An Ethernet frame of `len` bytes with IPv4 and UDP from the host behind one port to that behind another.
pub(crate) fn udp(from: u8, to: u8, len: usize) -> Vec<u8> {
    let mut frame = Vec::with_capacity(len);
    frame.extend(mac(0xfe));
    frame.extend(mac(from));
    frame.extend([0x08, 0x00]);
    let ip_len = (len - 14) as u16;
    frame.extend([0x45, 0, (ip_len >> 8) as u8, ip_len as u8, 0, 0, 0, 0, 64, 17, 0, 0]);
    frame.extend(host(from));
    frame.extend(host(to));
    set_checksum(&mut frame);
    let udp_len = ip_len - 20;
    frame.extend([0x30, 0x39, 0x30, 0x3a, (udp_len >> 8) as u8, udp_len as u8, 0, 0]);
    frame.resize(len, 0x5a);
    frame
}

/// The frame as `to`'s switch delivers it: address rewritten, TTL one less.
pub(crate) fn delivered(mut frame: Vec<u8>, to: u8) -> Vec<u8> {
    frame[..6].copy_from_slice(&mac(to));
    frame[22] -= 1;
    set_checksum(&mut frame);
    frame
}

/// Sets the IPv4 header checksum.
fn set_checksum(frame: &mut [u8]) {
    frame[24..26].fill(0);
    let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !((folded & 0xffff) + (folded >> 16)) as u16;
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
}
