// Reports the depth of a port's queue to ingress, which has no other source for it.
//
//   egress of port p --- depth >> DEPTH_STEP_BITS has changed: mirror ---> [recirculation port] ---> ingress:
//                                                                            waiting[p] = depth (deflect.p4)
//
//   report -> report_to(session) as default action     unset: no reports, so nothing is deflected
//
// The controller binds the session to the recirculation port of the pipe and truncates its packets. The value that ingress
// reads is as old as a pass through the traffic manager and ingress, and off by less than 2^DEPTH_STEP_BITS units of 80 bytes.
//
// Contract: after Dequeue.
#ifndef WEIR_REPORT_P4
#define WEIR_REPORT_P4

#define DEPTH_STEP_BITS 6                        // 64 units, 5 KB

Register<bit<16>, port_t>(PORTS, 0) reported;

control Report(inout metadata_t meta, in target_t target, inout egress_intrinsic_metadata_for_deparser_t for_deparser) {
    bit<16> steps;
    bit<1> differs;

    RegisterAction<bit<16>, port_t, bit<1>>(reported) change = {
        void apply(inout bit<16> last, out bit<1> is_other) {
            is_other = 0;
            if (last != steps) {
                is_other = 1;
                last = steps;
            }
        }
    };

    action report_to(MirrorId_t session) {
        meta.report_session = session;
        meta.report = { CARRIES_REPORT, (bit<16>)target.egress_port, meta.queue_bytes[15:0] };
        for_deparser.mirror_type = REPORT_MIRROR;
    }

    table report {
        actions = { report_to; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        steps = meta.queue_bytes[15:0] >> DEPTH_STEP_BITS;
        differs = change.execute(target.egress_port);
        if (differs == 1) {
            report.apply();
        }
    }
}

#endif
