// ExpressPass: limits the credits that leave a port to the rate at which their data can return (Cho et al., SIGCOMM 2017).
//
//   receiver --- credit ---> [ port p: one per interval on average, at most `burst` early; the rest is dropped ] --->
//            <-- one data packet for each credit that arrives ---------------------------------------------------
//
// A credit is a PROBE_REPLY; a PROBE requests credits. The limit is a virtual clock (GCRA): credit_time[p] is the time at
// which the credits that passed would all have left at one per interval. A credit is dropped if that is more than burst after
// the present. The paper has a queue of eight credits with a rate of its own; v1model can configure neither.
//
// Units: 1/256 tick, since an interval can be as short as 31.7 ns, a frame at 400 Gbit/s.
//
// Contract: hdr.weir is valid. Sets meta.drop_reason. A port without an entry drops no credit.
#ifndef WEIR_CREDIT_SHAPER_P4
#define WEIR_CREDIT_SHAPER_P4

PORT_STATE(64, credit_time);

control CreditShaper(inout metadata_t meta, in target_t target) {
    bit<32> credit_interval;         // 0: no limit
    bit<32> max_backlog;
    bit<64> now;
    bit<64> backlog;                 // time until the credits that passed have left at one per interval

    action shape(bit<32> interval, bit<32> burst) {
        credit_interval = interval;
        max_backlog = burst;
    }
    action no_limit() {
        credit_interval = 0;
        max_backlog = 0;
    }

    table credit_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { shape; @defaultonly no_limit; }
        const default_action = no_limit();
        size = PORTS;
    }

    apply {
        credit_port.apply();
        if (credit_interval != 0) {
            now = (bit<64>)target.egress_global_timestamp << 8;
            credit_time.read(backlog, target.egress_port);
            backlog = backlog |-| now;
            if (backlog > (bit<64>)max_backlog) {
                meta.drop_reason = DROP_CREDIT_LIMIT;
            } else {
                credit_time.write(target.egress_port, now + backlog + (bit<64>)credit_interval);
            }
        }
    }
}

#endif
