// HPCC: every switch writes an INT record into data packets and probes that ask for it.
//
//   sender --- data, TELEMETRY ---> [switch: + record] ---> [switch: + record] ---> receiver
//          <-- ACK with the records, copied by the receiver ----------------------
//
// The record is the port's state as this packet leaves it: time, bytes sent before it, bytes queued
// behind it (Li et al., HPCC, SIGCOMM 2019, section 3.1).
#include "include/weir.p4"
#include "controls/int_push.p4"

control HpccEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntPush() int_push;
    Depart() depart;
    Ecn() ecn;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            if ((hdr.weir.flags & FLAG_TELEMETRY) != 0
                && (hdr.weir.kind == KIND_DATA || hdr.weir.kind == KIND_PROBE)) {
                int_push.apply(hdr, meta, TIMESTAMP(target), TX_UNITS(meta.tx_bytes), meta.queue_bytes);
            }
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

@weir_telemetry("data")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), HpccEgress(), WeirComputeChecksum(), WeirDeparser()) main;
