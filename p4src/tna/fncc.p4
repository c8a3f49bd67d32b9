// ../fncc.p4 for Tofino: every switch writes the state of the data's queue into the ACK on its return path, and into the NACK.
#include "include/tofino.p4"
#include "../include/weir.p4"
#include "controls/int_push.p4"
#include "controls/all_int_table.p4"

control FnccTnaEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntPush() int_push;
    Depart() depart;
    AllIntTable() all_int_table;
    Ecn() ecn;
    port_t described;                // the port that the profile, and a record, are about

    apply {
        described = target.egress_port;
        if (hdr.weir.isValid() && IS_ANSWER(hdr.weir)) {
            described = target.ingress_port;
        }
        port_profile.apply(meta, described);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            if (ASKS_ON_ANSWERS(hdr.weir)) {
                int_push.apply(hdr, meta, 0, 0, 0);          // the table has the rest
            }
        }
        depart.apply(meta, target);
        all_int_table.apply(hdr, meta, target, hdr.record.isValid());
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

#define PROGRAM_EGRESS FnccTnaEgress
#define PROGRAM_ANNOTATIONS @weir_telemetry("acks")
#include "include/main.p4"
