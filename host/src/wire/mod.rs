//! Wire formats: Ethernet, IPv4, UDP, the Weir header and telemetry records.
//!
//! Each layer has a checked *view* of bytes and a *value* (`Repr`) that is read from a view or written to bytes. No
//! input makes a view panic. docs/wire.md describes the fields; tests keep the layout equal to that of the P4
//! programs.

mod announcement;
mod checksum;
mod ethernet;
mod frame;
mod int;
mod ipv4;
mod layout;
mod udp;
mod weir;

pub use announcement::{
    LIST_ENTRY_LEN, LIST_HEADER_LEN, MAX_LIST_ENTRIES, max_announced, max_announced_under_any_scheme,
};
pub use checksum::internet_checksum;
pub use ethernet::{ETHERTYPE_IPV4, EthernetRepr, EthernetView, MacAddr};
pub use frame::{Direction, FrameRepr, FrameView, POLICY_GROUP, POLICY_GROUP_MAC, WEIR_PORT};
pub use int::{
    INT_RECORD_LEN, IntRecord, MAX_CUSTOM_RECORD_LEN, MAX_RECORD_LEN, QUEUE_FIELD_LEN, RecordFormat,
};
pub use ipv4::{Ecn, INITIAL_TTL, Ipv4Repr, Ipv4View, PROTOCOL_UDP};
pub use layout::{ETHERNET_LEN, HEADERS_LEN, IPV4_LEN, MAX_HEADER_LEN, MAX_HOPS, UDP_LEN, VERSION, WEIR_LEN};
pub use udp::{UdpRepr, UdpView};
pub use weir::{Flags, PacketKind, WeirRepr, WeirView};
pub use weir_units::RateCode;
