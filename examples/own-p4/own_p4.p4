// Marks by the time that a packet waited in the queue, not by the bytes that wait behind it.
//
//   sender --- data, ECT ---> [switch: CE if the packet waited longer than a limit] ---> receiver
//
// The limit is a default action of the table sojourn_mark, written by entries.json. Everything else is Weir's own:
// parser, routes, drop reasons, traffic classes and the counters that the report shows.
#include "include/weir.p4"

control SojournMark(inout headers_t hdr, in target_t target) {
    bit<32> limit;

    action mark_above(bit<32> ticks) { limit = ticks; }

    // Ticks of the switch's clock: microseconds on BMv2, nanoseconds in fast fabrics of virtual time. 0 never marks.
    @name("sojourn_mark")
    table sojourn_mark {
        actions = { mark_above; }
        default_action = mark_above(0);
    }

    apply {
        sojourn_mark.apply();
        if (limit != 0 && SOJOURN(target) > limit && hdr.ipv4.ecn != ECN_NOT_ECT && hdr.ipv4.ecn != ECN_CE) {
            hdr.ipv4.ecn = ECN_CE;
            events.count(EVENT_ECN_MARKED);
        }
    }
}

control OwnEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    Depart() depart;
    SojournMark() sojourn_mark;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            switch_identity.apply(hdr);
        }
        depart.apply(meta, target);
        if (hdr.ipv4.isValid()) {
            sojourn_mark.apply(hdr, target);
        }
    }
}

V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), OwnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
