// HPCC++: as hpcc.p4, and a record can name its switch and port. If the sender requests it, a record has the time that the
// packet was queued instead of the bytes queued behind it, and the bytes that the packet's own queue has sent and its share of
// the port's rate. A sender may request records of congested ports only.
//
//   sender --- data or probe, TELEMETRY, int_format ---> [switch: + ids and record] ---> receiver
//          <-- the records, copied by the receiver -------------------------------------
//
// All fields of a record are read at one moment, when the packet is dequeued (Miao et al., HPCC++,
// draft-miao-iccrg-hpcc, section 6.1: "one consistent snapshot").
#define WITH_LINK_IDS
#define WITH_QUEUE_INFO
// Between the ids and the record, if int_format requests it: state of the priority queue that the packet was in.
header queue_t {
    bit<12> share;                   // of the port's rate, in 4096ths; 0: the whole rate
    bit<20> tx_bytes;                // sent by the queue, in the units of record_t
}
#define TARGET_HEADERS queue_t queue;
#define PROGRAM_CONTROLS "../controls/queue_class.p4"
#define PROGRAM_INGRESS QueueClass
#include "include/weir.p4"
#include "controls/int_push.p4"
#include "controls/link_push.p4"
#include "controls/queue_push.p4"
#include "controls/record_condition.p4"

control HpccPlusEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntPush() int_push;
    LinkPush() link_push;
    QueuePush() queue_push;
    RecordCondition() record_condition;
    Depart() depart;
    Ecn() ecn;
    bit<12> path_before;
    bit<32> port_sent;
    bit<32> queue_sent;
    bit<1> wants_record;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        port_sent = meta.tx_bytes;
        queue_tx_bytes.read(queue_sent, QUEUE_INDEX(target));
        if (hdr.weir.isValid()) {
            path_before = hdr.weir.path_id;
            switch_identity.apply(hdr);
            if (ASKS_ON_DATA(hdr.weir)) {
                record_condition.apply(hdr, meta, target, wants_record);
                if (wants_record == 1) {
                    int_push.apply(hdr, meta, TIMESTAMP(target), TX_UNITS(meta.tx_bytes), meta.queue_bytes);
                    link_push.apply(hdr, meta, target, path_before);
                    queue_push.apply(hdr, meta, target, queue_sent);
                }
            }
        }
        depart.apply(meta, target);
        queue_tx_bytes.write(QUEUE_INDEX(target), queue_sent + (meta.tx_bytes - port_sent));
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

@weir_telemetry("data, links")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), HpccPlusEgress(), WeirComputeChecksum(), WeirDeparser()) main;
