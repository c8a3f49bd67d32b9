// Egress of the programs whose switches write into data what it met (hpcc.p4).
#ifndef WEIR_HPCC_EGRESS_P4
#define WEIR_HPCC_EGRESS_P4

#include INT_PUSH_CONTROL

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
            if (ASKS_ON_DATA(hdr.weir)) {
                int_push.apply(hdr, meta, TIMESTAMP(target), TX_UNITS(meta.tx_bytes), meta.queue_bytes);
            }
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

#endif
