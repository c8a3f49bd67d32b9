// One result per operation on numbers, for switch/tests/it/arith.rs to compare with Rust's.
#include <core.p4>
#include <v1model.p4>

header operands_t {
    bit<8> a;
    bit<8> b;
    bit<32> c;
    bit<32> d;
    bit<64> e;
    bit<64> f;
    bit<128> g;
    bit<128> h;
    int<16> i;
    int<16> j;
    bit<3> odd;
    bit<5> shift;
}

header results_t {
    bit<8> add8;
    bit<8> sub8;
    bit<8> mul8;
    bit<8> sat_add8;
    bit<8> sat_sub8;
    bit<32> shl32;
    bit<32> shr32;
    bit<32> neg32;
    bit<32> cat32;
    bit<32> xor32;
    bit<64> add64;
    bit<64> sat_add64;
    bit<64> mul64;
    bit<64> shl64;
    bit<128> add128;
    bit<128> sub128;
    bit<128> and128;
    bit<128> shr128;
    bit<128> mul128;
    int<16> addi;
    int<16> sati;
    int<16> shri;
    bit<8> less;
    bit<8> lessi;
    bit<8> less64;
    bit<8> less128;
    bit<8> equal128;
    bit<16> slice;
    bit<32> widen;
    int<32> sign;
    bit<32> pick;
    bit<8> odd;
}

struct headers_t {
    operands_t given;
    results_t made;
}
struct metadata_t {}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.given);
        transition accept;
    }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        hdr.made.setValid();
        hdr.made.add8 = hdr.given.a + hdr.given.b;
        hdr.made.sub8 = hdr.given.a - hdr.given.b;
        hdr.made.mul8 = hdr.given.a * hdr.given.b;
        hdr.made.sat_add8 = hdr.given.a |+| hdr.given.b;
        hdr.made.sat_sub8 = hdr.given.a |-| hdr.given.b;
        hdr.made.shl32 = hdr.given.c << hdr.given.b;
        hdr.made.shr32 = hdr.given.c >> hdr.given.b;
        hdr.made.neg32 = -hdr.given.c;
        hdr.made.cat32 = hdr.given.a ++ hdr.given.d[15:0] ++ hdr.given.b;
        hdr.made.xor32 = ~(hdr.given.c ^ hdr.given.d) | (hdr.given.c & hdr.given.d);
        hdr.made.add64 = hdr.given.e + hdr.given.f;
        hdr.made.sat_add64 = hdr.given.e |+| hdr.given.f;
        hdr.made.mul64 = hdr.given.e * hdr.given.f;
        hdr.made.shl64 = hdr.given.e << hdr.given.b;
        hdr.made.add128 = hdr.given.g + hdr.given.h;
        hdr.made.sub128 = hdr.given.g - hdr.given.h;
        hdr.made.and128 = hdr.given.g & ~hdr.given.h;
        hdr.made.shr128 = hdr.given.g >> hdr.given.b;
        hdr.made.mul128 = hdr.given.g * hdr.given.h;
        hdr.made.addi = hdr.given.i + hdr.given.j;
        hdr.made.sati = hdr.given.i |+| hdr.given.j;
        hdr.made.shri = hdr.given.i >> hdr.given.shift;
        if (hdr.given.a < hdr.given.b) { hdr.made.less = 1; }
        if (hdr.given.i < hdr.given.j) { hdr.made.lessi = 1; }
        if (hdr.given.e < hdr.given.f) { hdr.made.less64 = 1; }
        if (hdr.given.g < hdr.given.h) { hdr.made.less128 = 1; }
        if (hdr.given.g == hdr.given.h) { hdr.made.equal128 = 1; }
        hdr.made.slice = hdr.given.g[75:60];
        hdr.made.widen = (bit<32>) hdr.given.a;
        hdr.made.sign = (int<32>) hdr.given.i;
        hdr.made.pick = hdr.given.odd == 3 ? hdr.given.c : hdr.given.d;
        hdr.made.odd = (bit<8>) (hdr.given.odd + (bit<3>) hdr.given.shift);
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {}
}
control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.given);
        packet.emit(hdr.made);
    }
}
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
