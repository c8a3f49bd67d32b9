// Pushes this switch's INT record, in front of those of the switches before it.
//
//   | ipv4 +8 | ports | udp +8 | weir: int_hops + 1 | NEW RECORD | older records | ...
//
// Pushes nothing if there are eight records already (event int_full). Older records are not parsed.
//
// Contract: hdr.weir is valid; meta.rate_code is of the port that the record describes. tx is what that port has sent
// until time, without records, in TX_UNITS; queue is the bytes queued at it.
#ifndef WEIR_INT_PUSH_P4
#define WEIR_INT_PUSH_P4

#include "record_count.p4"

// Units of 128 bytes modulo 2^20. The units wrap every 2^27 bytes, which divides 2^32, so that a wrap
// of the 32-bit count is no jump in the record.
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
