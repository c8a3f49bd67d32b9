// This switch's INT record, in front of those of the switches before it.
//
//   | ipv4 +8 | ports | udp +8 | weir: int_hops + 1 | NEW RECORD | older records | ...
//
// Writes the record, unless eight are there (int_full). Nothing of what is there is parsed.
//
// Contract: hdr.weir is valid; meta.rate_code is of the port that the record describes. tx and queue
// are that port's bytes sent, as of time, and bytes waiting. The record's 8 bytes are added to meta.tx_bytes, the
// count of the port that this packet leaves by.
#ifndef WEIR_INT_PUSH_P4
#define WEIR_INT_PUSH_P4

#include "record_count.p4"

// Units of 128 bytes modulo 2^20. The 32-bit count wraps at a multiple of 2^27 bytes, where the
// units wrap too: the record's count passes both wraps evenly.
#define TX_UNITS(bytes) ((bytes)[26:7])

control IntPush(inout headers_t hdr, inout metadata_t meta, in bit<24> time, in bit<20> tx, in bit<32> queue) {
    RecordCount() record_count;
    LOCAL_EVENT_COUNTER

    apply {
        if (hdr.weir.int_hops < MAX_HOPS) {
            hdr.record.setValid();
            hdr.record.rate_code = meta.rate_code;
            hdr.record.timestamp = time;
            hdr.record.tx_bytes = tx;
            hdr.record.queue = QUEUE_UNITS(queue);
            record_count.apply(hdr, meta, RECORD_BYTES);
        } else {
            events.count(EVENT_INT_FULL);
        }
    }
}

#endif
