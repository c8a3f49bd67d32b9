// ECN alone: switches mark, hosts do the rest (DCTCP, DCQCN; also schemes that only look at time).
//
//   sender --- data, ECT ---> [switch: CE if the queue is long] ---> receiver
//          <-- ACK with ECN_ECHO, or CNP ---------------------------
//
// No packet changes its length here.
#include "include/weir.p4"

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

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), EcnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
