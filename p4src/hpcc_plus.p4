// HPCC++: as hpcc.p4, and a record names its switch and port and has, if the sender asks for it, the time that
// the packet was queued instead of how much is queued behind it.
//
//   sender --- data or probe, TELEMETRY, int_format ---> [switch: + ids and record] ---> receiver
//          <-- the records, copied by the receiver -------------------------------------
//
// All of a record is taken at one moment, when the packet is dequeued (Miao et al., HPCC++,
// draft-miao-iccrg-hpcc, section 6.1: "one consistent snapshot").
#define WITH_LINK_IDS
#include "include/weir.p4"
#include "controls/int_push.p4"
#include "controls/link_push.p4"

control HpccPlusEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntPush() int_push;
    LinkPush() link_push;
    Depart() depart;
    Ecn() ecn;
    bit<12> path_before;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            path_before = hdr.weir.path_id;
            switch_identity.apply(hdr);
            if (ASKS_ON_DATA(hdr.weir)) {
                int_push.apply(hdr, meta, TIMESTAMP(target), TX_UNITS(meta.tx_bytes), meta.queue_bytes);
                link_push.apply(hdr, meta, target, path_before);
            }
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

@weir_telemetry("data, links")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), HpccPlusEgress(), WeirComputeChecksum(), WeirDeparser()) main;
