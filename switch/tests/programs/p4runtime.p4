// What the clients of the P4Runtime server drive in its tests: every entity, packets to and from the controller, digests
// and idle timeouts. A packet-out with `tables` set runs through the tables as if it had come in by the CPU port, so
// that all of it can be seen without an interface. Compiled by
//   p4c-bm2-ss --p4v 16 --p4runtime-files p4runtime.p4info.txtpb -o p4runtime.json p4runtime.p4
#include <core.p4>
#include <v1model.p4>

const bit<9> CPU_PORT = 255;

@controller_header("packet_out")
header packet_out_t {
    bit<9> egress_port;
    bit<1> tables;
    bit<6> pad;
}
@controller_header("packet_in")
header packet_in_t {
    bit<9> ingress_port;
    bit<7> reason;   // 0 sent to the CPU port, 1 a copy
}
header ethernet_t {
    bit<48> dst;
    bit<48> src;
    bit<16> type;
}
struct headers_t {
    packet_out_t packet_out;
    packet_in_t  packet_in;
    ethernet_t   ethernet;
}
struct metadata_t { bit<2> colour; bit<1> punted; }
struct learn_t {
    bit<48> src;
    bit<9>  port;
}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<16>>(4) control_types;
    state start {
        transition select(std.ingress_port) {
            CPU_PORT: parse_packet_out;
            default: parse_ethernet;
        }
    }
    state parse_packet_out {
        packet.extract(hdr.packet_out);
        transition parse_ethernet;
    }
    state parse_ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            control_types: mark;
            default: accept;
        }
    }
    state mark {
        meta.punted = 1;
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<48>>(16) last_source;
    counter(16, CounterType.packets_and_bytes) types;
    meter(16, MeterType.packets) limits;
    direct_counter(CounterType.packets_and_bytes) forwarded;
    direct_meter<bit<2>>(MeterType.packets) pace;
    action_selector(HashAlgorithm.crc16, 64, 14) next_hops;

    action drop() { mark_to_drop(std); }
    action forward(bit<9> port) { forwarded.count(); std.egress_spec = port; }
    action multicast(bit<16> group) { forwarded.count(); std.mcast_grp = group; }
    action mirror(bit<9> port) { forwarded.count(); std.egress_spec = port; clone(CloneType.I2E, 5); }
    action punt() { forwarded.count(); std.egress_spec = CPU_PORT; }
    action learn() { digest<learn_t>(1, { hdr.ethernet.src, std.ingress_port }); }
    action known() {}
    action permit() { pace.read(meta.colour); }
    action deny() { pace.read(meta.colour); mark_to_drop(std); }
    action via(bit<9> port, bit<48> mac) { std.egress_spec = port; hdr.ethernet.dst = mac; }

    table sources {
        key = { hdr.ethernet.src : exact; }
        actions = { known; @defaultonly learn; }
        default_action = learn();
        size = 65536;
        support_timeout = true;
    }
    table l2 {
        key = { hdr.ethernet.dst : exact; }
        actions = { forward; multicast; mirror; punt; @defaultonly drop; }
        default_action = drop();
        counters = forwarded;
        size = 65536;
    }
    table routes {
        key = { hdr.ethernet.dst : lpm; }
        actions = { via; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1024;
    }
    table groups {
        key = { hdr.ethernet.type : exact; hdr.ethernet.src : selector; }
        actions = { via; @defaultonly NoAction; }
        implementation = next_hops;
        size = 64;
    }
    table acl {
        key = { hdr.ethernet.src : ternary; hdr.ethernet.type : range; std.ingress_port : optional; }
        actions = { permit; deny; @defaultonly NoAction; }
        default_action = NoAction();
        meters = pace;
        size = 256;
    }

    apply {
        if (hdr.packet_out.isValid()) {
            bit<1> tables = hdr.packet_out.tables;
            std.egress_spec = hdr.packet_out.egress_port;
            hdr.packet_out.setInvalid();
            if (tables == 0) { return; }
        }
        if (!hdr.ethernet.isValid()) { drop(); return; }
        if (meta.punted == 1) { std.egress_spec = CPU_PORT; return; }
        bit<32> cell = (bit<32>)hdr.ethernet.type[3:0];
        types.count(cell);
        last_source.write(cell, hdr.ethernet.src);
        limits.execute_meter(cell, meta.colour);
        if (meta.colour == 2) { drop(); return; }
        sources.apply();
        l2.apply();
        routes.apply();
        groups.apply();
        acl.apply();
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.egress_port == CPU_PORT) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = std.ingress_port;
            hdr.packet_in.reason = 0;
            if (std.instance_type != 0) { hdr.packet_in.reason = 1; }
        }
    }
}

control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
    }
}

V1Switch(TheParser(), NoVerify(), TheIngress(), TheEgress(), NoCompute(), TheDeparser()) main;
