// The fair rate of each port, which senders learn from the ACKs on their return path.
//
//   data  ---> [ port p: egress computes fair_rate[p] ] --->
//   ACK   <--- [ grant = min(grant, fair_rate[p])     ] <---      an ACK arrives by the port its data left by
//
// The receiver writes "no limit", all ones, into the grant of an ACK, so the sender gets the lowest rate of its
// path, at most half a round trip old. A receiver that does not want this writes 0, since no rate is lower.
// Needs symmetric paths, as fncc.p4 does.
//
// Rates are kbit/s in 32 bits, up to 4.2 Tbit/s; 0: not computed yet, or a port that computes no rate.
//
// Contract: hdr.weir is valid. fair_rate of a port is written by that port's egress only.
#ifndef WEIR_FAIR_RATE_P4
#define WEIR_FAIR_RATE_P4

PORT_STATE(32, fair_rate);
PORT_STATE(32, rate_time);           // time of the last computation, in ticks
PORT_STATE(32, rate_queue);          // bytes queued at that time

control RateGrant(inout headers_t hdr, in target_t target) {
    bit<32> rate;

    apply {
        if (IS_ANSWER(hdr.weir)) {
            fair_rate.read(rate, target.ingress_port);
            if (rate != 0 && rate < hdr.weir.grant) {
                hdr.weir.grant = rate;
            }
        }
    }
}

#endif
