// One of every P4Runtime entity, for switch/tests/it/control. Compiled by
//   p4c-bm2-ss --p4v 16 --p4runtime-files entities.p4info.txtpb -o entities.json entities.p4
#include <core.p4>
#include <v1model.p4>

header data_t {
    bit<32> a;
    bit<16> b;
    bit<9>  c;
    bit<7>  d;
}
struct headers_t { data_t data; }
struct metadata_t { bit<16> tag; bit<2> colour; }

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t meta,
                 inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.data);
        transition accept;
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t meta) { apply {} }

control TheIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<12>>(16) cells;
    counter(8, CounterType.packets_and_bytes) ports;
    meter(4, MeterType.bytes) limits;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;
    action_profile(4) nexthops;
    action_selector(HashAlgorithm.crc16, 32w16, 32w14) paths;

    action drop() { mark_to_drop(std); }
    action send(bit<9> port) { std.egress_spec = port; }
    action tag(bit<16> value, bit<9> port) { meta.tag = value; std.egress_spec = port; }
    action counted(bit<9> port) { hits.count(); std.egress_spec = port; }
    action paced(bit<9> port) { pace.read(meta.colour); std.egress_spec = port; }
    action replicate(bit<16> group) { std.mcast_grp = group; }

    table exact_one {
        key = { hdr.data.a : exact @name("a"); hdr.data.c : exact @name("c"); }
        actions = { send; tag; @tableonly drop; @defaultonly NoAction; }
        default_action = NoAction();
        size = 4;
        support_timeout = true;
    }
    table lpm_one {
        key = { hdr.data.a : lpm @name("a"); }
        actions = { counted; drop; }
        const default_action = drop();
        counters = hits;
    }
    table ternary_one {
        key = { hdr.data.a : ternary @name("a"); hdr.data.b : range @name("b"); hdr.data.c : optional @name("c"); }
        actions = { paced; drop; }
        default_action = drop();
        meters = pace;
    }
    table const_one {
        key = { hdr.data.d : exact @name("d"); }
        actions = { send; drop; }
        default_action = drop();
        const entries = { 1 : send(1); 2 : send(2); }
    }
    table keyless {
        actions = { send; replicate; drop; }
        default_action = drop();
    }
    table by_profile {
        key = { hdr.data.b : exact @name("b"); }
        actions = { send; tag; NoAction; }
        implementation = nexthops;
    }
    table by_selector {
        key = { hdr.data.b : exact @name("b"); hdr.data.a : selector; }
        actions = { send; tag; NoAction; }
        implementation = paths;
    }

    apply {
        cells.write((bit<32>)hdr.data.d[3:0], hdr.data.b[11:0]);
        ports.count((bit<32>)hdr.data.d[2:0]);
        limits.execute_meter((bit<32>)hdr.data.d[1:0], meta.colour);
        exact_one.apply();
        lpm_one.apply();
        ternary_one.apply();
        const_one.apply();
        keyless.apply();
        by_profile.apply();
        by_selector.apply();
        if (hdr.data.d == 127) { clone(CloneType.I2E, 32w5); }
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) { apply {} }
control NoCompute(inout headers_t hdr, inout metadata_t meta) { apply {} }
control TheDeparser(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr.data); } }

V1Switch(TheParser(), NoVerify(), TheIngress(), TheEgress(), NoCompute(), TheDeparser()) main;
