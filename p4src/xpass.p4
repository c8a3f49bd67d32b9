// ExpressPass: receivers send credits, and switches drop the credits whose data would exceed the rate of the link.
//
//   sender --- PROBE: a request ------------> [switch] -------------------> receiver
//          <-- PROBE_REPLY: credits --------- [switch: credits limited] <--- credits
//   sender --- one data packet per credit --> [switch] -------------------> receiver
//
// (Cho, Jang and Han, ExpressPass, SIGCOMM 2017.) Needs symmetric paths: credits must cross the links that their data will use.
#include "include/weir.p4"
#include "controls/credit_shaper.p4"

control XpassEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    CreditShaper() credit_shaper;
    Depart() depart;
    Ecn() ecn;
    Drops() drop;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
            if (hdr.weir.kind == KIND_PROBE_REPLY) {
                credit_shaper.apply(meta, target);
            }
        }
        if (meta.drop_reason == DROP_NONE) {
            depart.apply(meta, target);
            if (hdr.ipv4.isValid()) {
                ecn.apply(hdr, meta);
            }
        } else {
            drop.apply(meta, target);
        }
    }
}

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), XpassEgress(), WeirComputeChecksum(), WeirDeparser()) main;
