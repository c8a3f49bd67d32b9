// The wire format, as docs/wire.md describes it.
//
//   | ethernet 14 | ipv4 20 | ports 4 | udp 4 | weir 24 | record 8 | older records, payload ... |
//
// TCP and UDP share `ports`, so that the path hash has one pair of fields to read; `udp` is the rest
// of a UDP header. Records that were there before are payload to a switch: it writes its own record
// in front of them, so the cost of a hop does not grow with the hops before it.
#ifndef WEIR_HEADERS_P4
#define WEIR_HEADERS_P4

header ethernet_t {
    mac_t   dst_addr;
    mac_t   src_addr;
    bit<16> ether_type;
}

header ipv4_t {
    bit<4>      version;
    bit<4>      ihl;
    bit<6>      dscp;
    bit<2>      ecn;
    bit<16>     total_len;
    bit<16>     identification;
    bit<3>      flags;               // reserved, don't fragment, more fragments
    bit<13>     frag_offset;
    bit<8>      ttl;
    bit<8>      protocol;
    bit<16>     checksum;
    ipv4_addr_t src_addr;
    ipv4_addr_t dst_addr;
}

header ports_t {
    bit<16> src_port;
    bit<16> dst_port;
}

header udp_t {
    bit<16> length;
    bit<16> checksum;                // 0 in Weir packets: switches grow them
}

header weir_t {
    bit<4>  version;
    bit<4>  kind;
    bit<1>  express;                 // of the eight flags the one that tables match: may go before others of its kind
    bit<7>  flags;
    bit<4>  tokens;
    bit<4>  subflow;
    bit<8>  int_format;              // what the records are made of
    bit<16> concurrency;
    bit<4>  int_hops;
    bit<12> path_id;
    bit<32> message;
    bit<32> seq;
    bit<32> stamp;
    bit<32> grant;
}

header record_t {
    bit<4>  rate_code;
    bit<24> timestamp;               // the target's ticks (docs/p4.md), modulo 2^24
    bit<20> tx_bytes;                // 128 bytes, modulo 2^20
    bit<16> queue;                   // 80 bytes, saturating
}

#ifdef WITH_LINK_IDS
// In front of a record, where int_format asks for it.
header link_t {
    bit<16> switch_id;
    bit<16> port_id;
}
#endif

// Between the switch and its controller, in front of the frame.
@controller_header("packet_in")
header packet_in_t {
    PADDED_PORT(ingress_port)
}

@controller_header("packet_out")
header packet_out_t {
    PADDED_PORT(egress_port)
}

struct headers_t {
#ifdef TARGET_HEADERS
    TARGET_HEADERS                   // what only one target or program has
#endif
    packet_out_t packet_out;
    packet_in_t  packet_in;
    ethernet_t   ethernet;
    ipv4_t       ipv4;
    ports_t      ports;
    udp_t        udp;
    weir_t       weir;
#ifdef WITH_LINK_IDS
    link_t       link;
#endif
#ifdef PROGRAM_RECORD
    PROGRAM_RECORD record;           // a program's own
#else
    record_t     record;
#endif
}

// The fields that the IPv4 checksum covers.
#define IPV4_CHECKED_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, \
    hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, \
    hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr }

// What travels with a packet from ingress to egress. Zero when a packet arrives (v1model).
struct metadata_t {
    reason_t drop_reason;
    bit<32>  enqueued_bytes;         // what queue_bytes was raised by and Dequeue takes off; then, less records, what Depart adds to tx_bytes
    hash_range_t hash_range;         // path_hash is taken modulo this
    bit<32>  path_hash;
    bit<16>  ecmp_group;             // the group to choose from,
    bit<16>  ecmp_size;
    bit<8>   ecmp_slice;
    bit<16>  ecmp_index;             //   and the member that the hash chose
    bit<4>   rate_code;              // the port's profile
    bit<32>  ecn_kmin;
    bit<32>  ecn_kmax;
    bit<32>  ecn_slope;
    bit<32>  queue_bytes;            // left in the queue behind this packet
    bit<32>  tx_bytes;               // sent by the port before this packet, without records; at the end, with it
#ifdef TARGET_METADATA
    TARGET_METADATA                  // what only one target has
#endif
#ifdef PROGRAM_METADATA
    PROGRAM_METADATA                 // what only one program has
#endif
}

#endif
