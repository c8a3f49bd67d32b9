// RoCC: every port computes a fair rate from its queue and sends it to the senders.
//
//   sender --- data ---------------> [switch: PI controller] ---> receiver
//          <-- RATE, if requested by TELEMETRY; or the lowest rate of the path, in the ACK's grant ---
//
// (Taheri et al., RoCC, CoNEXT 2020.) The paper's feedback is the RATE packet; the grant in ACKs is an addition of Weir's.
#define PROGRAM_METADATA @field_list(1) bit<32> feedback_rate; @field_list(1) port_t feedback_port;
#define PROGRAM_CONTROLS "../controls/rate_feedback.p4"
#define PROGRAM_INGRESS TriggerRateFeedback
#include "include/weir.p4"
#include "controls/rocc_rate.p4"

control RoccEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    BuildRatePacket() build_rate_packet;
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    RoccRate() rocc_rate;
    RateGrant() rate_grant;
    Depart() depart;
    Ecn() ecn;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (IS_CLONE(target)) {
            build_rate_packet.apply(hdr, meta, target);
            meta.enqueued_bytes = RATE_FRAME_BYTES;
        } else {
            rocc_rate.apply(meta, target);
        }
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

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), RoccEgress(), WeirComputeChecksum(), WeirDeparser()) main;
