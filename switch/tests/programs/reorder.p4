// A deparser that emits headers in another order than that of the parser, fields that nothing reads, and a stack behind a
// header that egress removes. Compiled with: p4c-bm2-ss reorder.p4 -o reorder.json
#include <core.p4>
#include <v1model.p4>

header first_t { bit<8> next; bit<8> value; }
header second_t { bit<8> kind; bit<24> unread; }
header third_t { bit<16> also_unread; }
header label_t { bit<15> tag; bit<1> more; bit<16> data; }

struct headers_t {
    first_t first;
    second_t second;
    third_t third;
    label_t[2] labels;
}
struct metadata_t {}

parser TheParser(packet_in packet, out headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.first);
        packet.extract(hdr.second);
        packet.extract(hdr.third);
        transition select(hdr.first.next) {
            1: label;
            default: accept;
        }
    }
    state label {
        packet.extract(hdr.labels.next);
        transition select(hdr.labels.last.more) {
            1: label;
            default: accept;
        }
    }
}

control NoVerify(inout headers_t hdr, inout metadata_t m) { apply {} }
control NoCompute(inout headers_t hdr, inout metadata_t m) { apply {} }

control TheIngress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 3;
        hdr.second.kind = hdr.first.value;
    }
}

control TheEgress(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t standard) {
    apply {
        if (hdr.first.value == 9) {
            hdr.third.setInvalid();
        }
    }
}

control TheDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.second);
        packet.emit(hdr.first);
        packet.emit(hdr.third);
        packet.emit(hdr.labels);
    }
}

V1Switch(TheParser(), NoVerify(), TheIngress(), TheEgress(), NoCompute(), TheDeparser()) main;
