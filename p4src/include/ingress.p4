// Ingress of every program: admit, forward or flood, classify, count into the queue. Programs that define WEIR_DEFLECTS deflect
// between the last two.
#ifndef WEIR_INGRESS_P4
#define WEIR_INGRESS_P4

control WeirIngress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    Admission() admission;
    Forwarding() forwarding;
    PolicyFlood() policy_flood;
    Classes() classes;
#ifdef WEIR_DEFLECTS
    Deflect() deflect;
#endif
    PacketIo() packet_io;
    Enqueue() enqueue;
    Drops() drop;
#ifdef PROGRAM_INGRESS
    PROGRAM_INGRESS() program_ingress;       // what only one program does, with a packet that was admitted
#endif

    apply {
        meta.enqueued_bytes = target.packet_length;
        if (hdr.ipv4.isValid()) {
            admission.apply(hdr, meta, target);
            if (meta.drop_reason == DROP_NONE) {
                if (hdr.weir.isValid() && hdr.weir.kind == KIND_POLICY) {
                    policy_flood.apply(hdr, meta, target);
                } else {
                    forwarding.apply(hdr, meta, target);
                }
                if (hdr.weir.isValid()) {
                    classes.apply(hdr, target);
#ifdef WEIR_DEFLECTS
                    deflect.apply(hdr, meta, target);
#endif
                }
            }
        } else {
            packet_io.apply(hdr, meta, target);
        }
        if (meta.drop_reason == DROP_NONE) {
            enqueue.apply(meta, target);
#ifdef PROGRAM_INGRESS
            program_ingress.apply(hdr, meta, target);
#endif
        } else {
            drop.apply(meta, target);
        }
    }
}

#endif
