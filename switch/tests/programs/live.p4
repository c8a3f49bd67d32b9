// What the live comparison of two switches sends frames through: tables of every kind whose entries change between packets,
// counters, meters, copies, and a header in which the switch writes what the packet's queue was like. Compiled by
//   p4c-bm2-ss --p4v 16 --p4runtime-files live.p4info.txtpb -o live.json live.p4
#include <core.p4>
#include <v1model.p4>

header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}
// The first two fields are the sender's, the others the switch's.
header probe_t {
    bit<16> class;
    bit<32> serial;
    bit<8>  colour;
    bit<8>  instance;
    bit<32> enq_qdepth;
    bit<32> deq_qdepth;
    bit<32> deq_timedelta;
    bit<48> came;
    bit<48> left;
}
struct headers_t {
    ethernet_t ethernet;
    probe_t    probe;
}
struct metadata_t { bit<2> colour; bit<1> straight; }

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            0x88B5: parse_probe;
            default: accept;
        }
    }
    state parse_probe {
        packet.extract(hdr.probe);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) classes;
    direct_counter(CounterType.packets_and_bytes) routed;
    meter(4, MeterType.packets) packet_meter;
    meter(4, MeterType.bytes) byte_meter;
    action_selector(HashAlgorithm.crc16, 64, 14) next_hops;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) {
        routed.count();
        std.egress_spec = port;
    }
    // No other table.
    action straight(bit<9> port, bit<3> priority) {
        forward(port);
        std.priority = priority;
        meta.straight = 1;
    }
    action multicast(bit<16> group) {
        routed.count();
        std.mcast_grp = group;
    }
    action mirror(bit<9> port, bit<32> session) {
        routed.count();
        std.egress_spec = port;
        clone(CloneType.I2E, session);
    }
    action deny() { mark_to_drop(std); }
    action permit() {}
    action via(bit<9> port) { std.egress_spec = port; }
    action by_packets(bit<32> cell) { packet_meter.execute_meter(cell, meta.colour); }
    action by_bytes(bit<32> cell) { byte_meter.execute_meter(cell, meta.colour); }

    table routes {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; straight; multicast; mirror; drop; }
        default_action = drop();
        counters = routed;
    }
    table prefixes {
        key = { hdr.ethernet.src : lpm; }
        actions = { via; NoAction; }
        default_action = NoAction();
    }
    table groups {
        key = { hdr.probe.class : exact; hdr.probe.serial : selector; }
        actions = { via; @defaultonly NoAction; }
        implementation = next_hops;
    }
    table acl {
        key = { hdr.ethernet.src : ternary; hdr.probe.class : ternary; }
        actions = { permit; deny; }
        default_action = permit();
    }
    table metering {
        key = { hdr.probe.class : exact; }
        actions = { by_packets; by_bytes; @defaultonly NoAction; }
        default_action = NoAction();
    }

    apply {
        if (hdr.probe.isValid()) { classes.count((bit<32>)hdr.probe.class[3:0]); }
        routes.apply();
        if (meta.straight == 1) { return; }
        prefixes.apply();
        if (!hdr.probe.isValid()) { return; }
        groups.apply();
        metering.apply();
        hdr.probe.colour = (bit<8>)meta.colour;
        acl.apply();
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    counter(16, CounterType.packets_and_bytes) ports;
    apply {
        ports.count((bit<32>)std.egress_port[3:0]);
        hdr.probe.instance = (bit<8>)std.instance_type;
        hdr.probe.enq_qdepth = (bit<32>)std.enq_qdepth;
        hdr.probe.deq_qdepth = (bit<32>)std.deq_qdepth;
        hdr.probe.deq_timedelta = (bit<32>)std.deq_timedelta;
        hdr.probe.came = std.ingress_global_timestamp;
        hdr.probe.left = std.egress_global_timestamp;
    }
}

control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.ethernet);
        packet.emit(hdr.probe);
    }
}

V1Switch(TheParser(), NoVerify(), TheIngress(), TheEgress(), NoCompute(), TheDeparser()) main;
