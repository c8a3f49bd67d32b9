// Congestion marks, by what is left in the queue when a packet leaves it. A product of two fields does not exist, so the ramp
// is a staircase in a table:
//
//   mark 1 -              .-------     ecn_ramp[ramp, kmin .. kmax in pieces] -> mark_with(65536 * p)
//        p |           .-'             ecn_ramp[ramp, above kmax]             -> mark_always()
//          |        .-'                miss                                   -> never
//        0 +------'--------> depth
//
// DCTCP's step is one entry, mark_always above K. Ports that mark alike share a ramp.
//
// Contract: as ../../controls/ecn.p4. Depths are in units of 80 bytes, at most 65535.
#ifndef WEIR_ECN_P4
#define WEIR_ECN_P4

#define RAMP_ENTRIES 512

control Ecn(inout headers_t hdr, in metadata_t meta) {
    LOCAL_EVENT_COUNTER
    Random<bit<16>>() dice;
    bit<16> threshold;               // above the random number: mark
    bit<16> thrown;

    action mark_with(bit<16> probability) {
        threshold = probability;
        thrown = dice.get();
    }
    action mark_always() {
        threshold = 1;
        thrown = 0;
    }
    action never() {
        threshold = 0;
        thrown = 0;
    }

    table ecn_ramp {
        key = {
            meta.ecn_ramp          : exact @name("ramp");
            meta.queue_bytes[15:0] : range @name("depth");
        }
        actions = { mark_with; mark_always; @defaultonly never; }
        const default_action = never();
        size = RAMP_ENTRIES;
    }

    apply {
        if (hdr.ipv4.ecn != ECN_NOT_ECT && hdr.ipv4.ecn != ECN_CE) {
            ecn_ramp.apply();
            threshold = threshold |-| thrown;
            if (threshold != 0) {
                hdr.ipv4.ecn = ECN_CE;
                events.count(EVENT_ECN_MARKED);
            }
        }
    }
}

#endif
