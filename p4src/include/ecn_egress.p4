// Egress of the programs whose switches mark and write no telemetry. No packet changes its length here.
#ifndef WEIR_ECN_EGRESS_P4
#define WEIR_ECN_EGRESS_P4

control EcnEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    Depart() depart;
    Ecn() ecn;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

#endif
