// Parsing and building headers: stacks, unions, variable fields, lookahead, errors, checksums; for
// switch/tests/it/headers.rs.
#include <core.p4>
#include <v1model.p4>

header start_t {
    bit<8> kind;
    bit<8> n;
}
header label_t {
    bit<20> label;
    bit<3> tc;
    bit<1> bottom;
    bit<8> ttl;
}
header options_t {
    bit<8> len;
    varbit<320> data;
    bit<8> tail;
}
header ipv4_t {
    bit<4> version;
    bit<4> ihl;
    bit<8> tos;
    bit<16> len;
    bit<16> id;
    bit<3> flags;
    bit<13> offset;
    bit<8> ttl;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> src;
    bit<32> dst;
}
header one_t {
    bit<8> tag;
}
header two_t {
    bit<8> tag;
    bit<8> value;
}
header_union either_t {
    one_t one;
    two_t two;
}
header odd_t {
    bit<7> a;
    bit<64> b;
    bit<1> c;
    bit<100> d;
    bit<4> e;
}
header result_t {
    bit<32> number;
    bit<8> bad_checksum;
    bit<32> index;
}
struct headers_t {
    result_t result;
    start_t start;
    label_t[3] labels;
    options_t options;
    ipv4_t ipv4;
    either_t either;
    odd_t odd;
}
struct metadata_t {}

error { BadVersion }

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    value_set<bit<8>>(4) special;
    state start {
        packet.extract(hdr.start);
        transition select(hdr.start.kind) {
            1: labels;
            2: options;
            3: ipv4;
            4: peek;
            5: skip;
            6: odd;
            0x80 &&& 0xc0: accept;
            special: odd;
            default: accept;
        }
    }
    state labels {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.bottom) {
            0: labels;
            1: accept;
        }
    }
    state options {
        packet.extract(hdr.options, (bit<32>) hdr.start.n * 8);
        transition accept;
    }
    state ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4, error.BadVersion);
        transition accept;
    }
    state peek {
        transition select(packet.lookahead<bit<8>>()) {
            1: one;
            2: two;
        }
    }
    state one {
        packet.extract(hdr.either.one);
        transition accept;
    }
    state two {
        packet.extract(hdr.either.two);
        transition accept;
    }
    state skip {
        packet.advance((bit<32>) hdr.start.n);
        packet.extract(hdr.odd);
        transition accept;
    }
    state odd {
        packet.extract(hdr.odd);
        transition accept;
    }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum_with_payload(hdr.ipv4.isValid() && hdr.start.n == 9,
            { hdr.ipv4.src }, hdr.ipv4.id, HashAlgorithm.csum16);
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.len, hdr.ipv4.id, hdr.ipv4.flags,
              hdr.ipv4.offset, hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src, hdr.ipv4.dst },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}
control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        std.egress_spec = 1;
        if (std.parser_error != error.NoError || std.checksum_error == 1) {
            hdr.result.setValid();
            bit<32> found = 0;
            if (std.parser_error == error.PacketTooShort) { found = 1; }
            if (std.parser_error == error.NoMatch) { found = 2; }
            if (std.parser_error == error.StackOutOfBounds) { found = 3; }
            if (std.parser_error == error.HeaderTooShort) { found = 4; }
            if (std.parser_error == error.ParserInvalidArgument) { found = 6; }
            if (std.parser_error == error.BadVersion) { found = 7; }
            hdr.result.number = found;
            hdr.result.bad_checksum = (bit<8>) std.checksum_error;
        }
        if (hdr.labels[0].isValid()) {
            if (hdr.start.n == 1) {
                hdr.labels.push_front(1);
                hdr.labels[0].setValid();
                hdr.labels[0].label = 0xabcde;
                hdr.labels[0].ttl = 64;
            } else if (hdr.start.n == 2) {
                hdr.labels.pop_front(1);
            } else if (hdr.start.n == 3) {
                hdr.labels[2] = hdr.labels[0];
                hdr.labels[1].setInvalid();
            } else if (hdr.start.n >= 16) {
                bit<2> which = hdr.start.n[1:0];
                hdr.labels[which].ttl = hdr.labels[which].ttl - 1;
            }
        }
        if (hdr.ipv4.isValid()) {
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        }
        if (hdr.either.one.isValid()) {
            hdr.either.two.setValid();
            hdr.either.two.tag = 9;
            hdr.either.two.value = 8;
        } else if (hdr.either.two.isValid() && hdr.start.n == 1) {
            hdr.either.two.setInvalid();
        }
        if (hdr.odd.isValid()) {
            hdr.odd.b = hdr.odd.b + 1;
            hdr.odd.d = hdr.odd.d << 1;
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (hdr.result.isValid()) {
            hdr.result.index = std.packet_length;
        }
    }
}
control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.result);
        packet.emit(hdr.start);
        packet.emit(hdr.labels);
        packet.emit(hdr.options);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.either);
        packet.emit(hdr.odd);
    }
}
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
