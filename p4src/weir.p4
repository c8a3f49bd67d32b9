// All in one program: telemetry on data (hpcc.p4) and on ACKs (fncc.p4), ECN, and deflection (dart.p4). Which of them apply
// to a packet depends on the flags and tokens that its host sets, and on the table entries of the ports.
//
//   sender --- data, TELEMETRY ---> [switch: + record] ---> [switch: + record] ---> receiver      as HPCC
//          --- data --------------> [switch] ------x------> [switch] ---+                         as Dart
//                                       '---> another port -> [switch] -+-----> receiver
//          <-- ACK, TELEMETRY ----- [+ record] <----------- [+ record] <-----------------         as FNCC
//
// No paper combines them. With this program, hosts that use different schemes can share a fabric, and can change their scheme
// without a change to the switches.
#define WEIR_DEFLECTS
#include "include/weir.p4"
#include "controls/int_push.p4"
#include "controls/all_int_table.p4"
#include "controls/port_telemetry.p4"

control AllEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    IntRefresh() int_refresh;
    PortTelemetry() port_telemetry;
    AllIntRead() all_int_read;
    IntPush() int_push;
    Depart() depart;
    AllIntUpdate() all_int_update;
    Ecn() ecn;
    port_t described_port;           // the port whose profile is read and whose state a record has
    bit<1> wants_record;
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
            port_telemetry.apply(hdr, described_port, wants_record);
            if (wants_record == 1) {
                if (IS_ANSWER(hdr.weir)) {
                    all_int_read.apply(meta, target, period, time, tx, queue);
                } else {
                    time = TIMESTAMP(target);
                    tx = TX_UNITS(meta.tx_bytes);
                    queue = meta.queue_bytes;
                }
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

@weir_telemetry("data, acks")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), AllEgress(), WeirComputeChecksum(), WeirDeparser()) main;
