// RCP: every port computes one rate for all flows through it, and ACKs carry the lowest rate of the path to the sender.
//
//   sender --- data ---------------------> [switch: R] -----------------> [switch: R] ------> receiver
//          <-- ACK, grant = min over path  [min(grant, R of data's port)] [min(grant, R)] <-- ACK, grant = no limit
//
// (Dukkipati, RCP: Congestion control to make flows complete quickly, 2008.) In the paper data carries the rate and the
// receiver echoes it; here the ACK collects it on its return path, so that it is half a round trip newer.
#include "include/weir.p4"
#include "controls/fair_rate.p4"
#include "controls/rcp_rate.p4"

control RcpEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    RcpRate() rcp_rate;
    RateGrant() rate_grant;
    Depart() depart;
    Ecn() ecn;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        rcp_rate.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            rate_grant.apply(hdr, target);
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            ecn.apply(hdr, meta);
        }
    }
}

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), RcpEgress(), WeirComputeChecksum(), WeirDeparser()) main;
