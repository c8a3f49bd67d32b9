// Everything a packet can make the switch do behind the pipeline, chosen by its first byte; egress writes what it
// was told into the frame. Compiled with: p4c-bm2-ss -I p4include replicate.p4 -o replicate.json
#include <core.p4>
#include <v1model.p4>

const bit<8> UNICAST = 0;      // to port `arg`
const bit<8> MULTICAST = 1;    // to group `arg`
const bit<8> CLONE_I2E = 2;    // to session `arg`; itself to port 1
const bit<8> RESUBMIT = 3;     // `arg` times, then to port 1
const bit<8> RECIRCULATE = 4;  // `arg` times, then to port 1
const bit<8> CLONE_E2E = 5;    // to session `arg`; itself to port 1
const bit<8> DROP_INGRESS = 6;
const bit<8> DROP_EGRESS = 7;
const bit<8> PRIORITY = 8;     // port 1, priority `arg`
const bit<8> DIGEST = 9;       // of `arg`; itself to port 1
const bit<8> CLONE_STORM = 10; // clones itself to session `arg` in every egress, and drops itself
const bit<8> ALL_AT_ONCE = 11; // clone to session `arg`, digest, and resubmit once, then group `arg`

header command_t {
    bit<8> op;
    bit<8> arg;
}

header report_t {
    bit<8> instance_type;
    bit<8> tag;
    bit<16> egress_port;
    bit<16> rid;
    bit<24> enq_qdepth;
    bit<24> deq_qdepth;
    bit<32> deq_timedelta;
    bit<16> length;
}

struct headers_t {
    report_t report;
    command_t command;
}

struct metadata_t {
    @field_list(1)
    bit<8> tag;
    bit<8> forgotten;
}

parser MyParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.command);
        transition accept;
    }
}

control MyVerify(inout headers_t h, inout metadata_t m) {
    apply { }
}

control MyIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        m.forgotten = 0xff;
        s.egress_spec = 1;
        if (h.command.op == UNICAST) {
            s.egress_spec = (bit<9>)h.command.arg;
        } else if (h.command.op == MULTICAST) {
            s.mcast_grp = (bit<16>)h.command.arg;
        } else if (h.command.op == CLONE_I2E) {
            m.tag = 0xc1;
            clone_preserving_field_list(CloneType.I2E, (bit<32>)h.command.arg, 1);
            h.command.op = 0xaa;
        } else if (h.command.op == RESUBMIT) {
            if (m.tag < h.command.arg) {
                m.tag = m.tag + 1;
                h.command.op = 0xaa;
                resubmit_preserving_field_list(1);
            }
        } else if (h.command.op == DROP_INGRESS) {
            mark_to_drop(s);
        } else if (h.command.op == PRIORITY) {
            s.priority = (bit<3>)h.command.arg;
        } else if (h.command.op == DIGEST) {
            digest(1, h.command.arg);
        } else if (h.command.op == ALL_AT_ONCE) {
            if (s.instance_type == 0) {
                clone_preserving_field_list(CloneType.I2E, (bit<32>)h.command.arg, 1);
                digest(1, h.command.arg);
                resubmit_preserving_field_list(1);
            }
            s.mcast_grp = (bit<16>)h.command.arg;
        }
    }
}

control MyEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.command.op == RECIRCULATE && m.tag < h.command.arg) {
            m.tag = m.tag + 1;
            recirculate_preserving_field_list(1);
        } else {
            if (h.command.op == CLONE_E2E && s.instance_type == 0) {
                m.tag = 0xc2;
                clone_preserving_field_list(CloneType.E2E, (bit<32>)h.command.arg, 1);
                h.command.op = 0xab;
            }
            if (h.command.op == CLONE_STORM) {
                clone(CloneType.E2E, (bit<32>)h.command.arg);
                mark_to_drop(s);
            }
            if (h.command.op == DROP_EGRESS) {
                mark_to_drop(s);
            }
            h.report.setValid();
            h.report.instance_type = (bit<8>)s.instance_type;
            h.report.tag = m.tag;
            h.report.egress_port = (bit<16>)s.egress_port;
            h.report.rid = s.egress_rid;
            h.report.enq_qdepth = (bit<24>)s.enq_qdepth;
            h.report.deq_qdepth = (bit<24>)s.deq_qdepth;
            h.report.deq_timedelta = s.deq_timedelta;
            h.report.length = (bit<16>)s.packet_length;
        }
    }
}

control MyUpdate(inout headers_t h, inout metadata_t m) {
    apply { }
}

control MyDeparser(packet_out packet, in headers_t h) {
    apply {
        packet.emit(h.report);
        packet.emit(h.command);
    }
}

V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
