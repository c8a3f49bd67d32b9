// ../weir.p4 for Tofino: telemetry on data and on ACKs, ECN, and deflection in one program.
#define WEIR_DEFLECTS
#include "include/tofino.p4"
#include "../include/weir.p4"
#include "controls/int_push.p4"
#include "../controls/port_telemetry.p4"
#include "controls/all_int_table.p4"

control AllTnaEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    PortTelemetry() port_telemetry;
    IntPush() int_push;
    RecordTxBytes() record_tx_bytes;
    Depart() depart;
    AllIntTable() all_int_table;
    Ecn() ecn;
    port_t described;                // the port that the profile, and a record, are about
    bit<1> asks;

    apply {
        described = target.egress_port;
        if (hdr.weir.isValid() && IS_ANSWER(hdr.weir)) {
            described = target.ingress_port;
        }
        port_profile.apply(meta, described);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            port_telemetry.apply(hdr, described, asks);
            if (asks == 1) {
                int_push.apply(hdr, meta, TIMESTAMP(target), 0, meta.queue_bytes);
            }
        }
        depart.apply(meta, target);
        if (hdr.record.isValid()) {
            record_tx_bytes.apply(hdr, meta.tx_before);
        }
        all_int_table.apply(hdr, meta, target, hdr.record.isValid() && IS_ANSWER(hdr.weir));
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

#define PROGRAM_EGRESS AllTnaEgress
#define PROGRAM_ANNOTATIONS @weir_telemetry("data, acks")
#include "include/main.p4"
