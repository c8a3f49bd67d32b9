// FNCC: every switch writes the state of the queue that the data passed into the ACK or NACK on its return path.
//
//   sender --- data ----------------> [switch] ---------> [switch] ---------> receiver
//          <-- ACK, all records ----- [+ record] <------- [+ record] <------- ACK
//
// Data is not modified; the sender learns the state half a round trip earlier (Xu et al., FNCC, arXiv
// 2405.07608, section 3.2.1). Needs symmetric paths: the ACK must arrive by the port that the data left by.
#include "include/weir.p4"
#include "controls/int_push.p4"
#include "controls/all_int_table.p4"

control FnccEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntRefresh() int_refresh;
    AllIntRead() all_int_read;
    IntPush() int_push;
    Depart() depart;
    AllIntUpdate() all_int_update;
    Ecn() ecn;
    port_t described_port;           // the port whose profile is read and whose state a record has
    bit<24> period;                  // ticks between updates of all_int_table; 0: update at every dequeue
    bit<24> time;
    bit<20> tx;
    bit<32> queue;

    apply {
        described_port = target.egress_port;
        if (hdr.weir.isValid() && IS_ANSWER(hdr.weir)) {
            described_port = target.ingress_port;
        }
        port_profile.apply(meta, described_port);
        dequeue.apply(meta, target);
        int_refresh.apply(period);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            if (ASKS_ON_ANSWERS(hdr.weir)) {
                all_int_read.apply(meta, target, period, time, tx, queue);
                int_push.apply(hdr, meta, time, tx, queue);
            }
        }
        depart.apply(meta, target);
        all_int_update.apply(meta, target, period);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

@weir_telemetry("acks")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), FnccEgress(), WeirComputeChecksum(), WeirDeparser()) main;
