// ExpressPass: how many credits may leave a port? As many as data can come back for (Cho et al., SIGCOMM 2017).
//
//   receiver --- credit ---> [ port p: one per interval on average, at most `burst` early; the rest is dropped ] --->
//            <-- one data packet for each credit that arrives ---------------------------------------------------
//
// A credit is a PROBE_REPLY; a PROBE asks for them. The bucket is a virtual clock (GCRA): credit_time[p] is when the
// credits that passed would all have left at one per interval. A credit that finds it more than burst ahead of the
// present is dropped. The paper has a queue of eight credits with a rate of its own; v1model can set neither.
//
// Units: 1/256 tick, so that 31.7 ns, a frame at 400 Gbit/s, is exact enough.
//
// Contract: hdr.weir is valid. Sets meta.drop_reason. A port without an entry drops none.
#ifndef WEIR_CREDIT_SHAPER_P4
#define WEIR_CREDIT_SHAPER_P4

PORT_STATE(64, credit_time);

control CreditShaper(inout metadata_t meta, in target_t target) {
    bit<32> each;
    bit<32> early;
    bit<64> now;
    bit<64> ahead;

    action shape(bit<32> interval, bit<32> burst) {
        each = interval;
        early = burst;
    }
    // An interval of 0: no limit.
    action no_limit() {
        each = 0;
        early = 0;
    }

    table credit_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { shape; @defaultonly no_limit; }
        const default_action = no_limit();
        size = PORTS;
    }

    apply {
        credit_port.apply();
        if (each != 0) {
            now = (bit<64>)target.egress_global_timestamp << 8;
            credit_time.read(ahead, target.egress_port);
            ahead = ahead |-| now;
            if (ahead > (bit<64>)early) {
                meta.drop_reason = DROP_CREDIT_LIMIT;
            } else {
                credit_time.write(target.egress_port, now + ahead + (bit<64>)each);
            }
        }
    }
}

#endif
