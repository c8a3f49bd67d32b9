// Marks packets by the bytes left in the queue when they leave it.
//
//   mark 1 -              .-------------       queue <= kmin: never
//        p |            . |                    queue >  kmax: always
//          |          .                        between: (queue - kmin) * slope / 2^32
//        0 +--------'-----+----> queue
//                  kmin  kmax
//
// slope is the probability per byte above kmin in units of 2^-32; for DCQCN's ramp up to pmax it is
// floor(pmax * (2^32 - 1) / (kmax - kmin)). kmin = kmax = K is DCTCP's step (slope then has no
// effect). kmax = 0: this port never marks.
//
// Contract: hdr.ipv4 is valid; meta has the port's profile and meta.queue_bytes. Only ECT packets
// are marked, CE is never cleared; WeirComputeChecksum updates the checksum.
#ifndef WEIR_ECN_P4
#define WEIR_ECN_P4

control Ecn(inout headers_t hdr, in metadata_t meta) {
    bit<32> dice;

    action mark() {
        hdr.ipv4.ecn = ECN_CE;
        events.count(EVENT_ECN_MARKED);
    }

    apply {
        if (meta.queue_bytes > meta.ecn_kmin && meta.ecn_kmax != 0
            && hdr.ipv4.ecn != ECN_NOT_ECT && hdr.ipv4.ecn != ECN_CE) {
            if (meta.queue_bytes > meta.ecn_kmax) {
                mark();
            } else {
                RANDOM_WORD(dice);
                if ((bit<64>)dice < (bit<64>)(meta.queue_bytes - meta.ecn_kmin) * (bit<64>)meta.ecn_slope) {
                    mark();
                }
            }
        }
    }
}

#endif
