// Pushes this hop's INT record, as ../../controls/int_push.p4 does. Its fields do not lie as their sources do: 20 bits of txBytes
// come from bits 26 to 7 of a sum. @in_hash moves bits in a hash unit, which can place them anywhere.
//
// Contract: as there; tx is not used. The program sets hdr.record.tx_bytes after Depart, which returns it: RecordTxBytes.
#ifndef WEIR_INT_PUSH_P4
#define WEIR_INT_PUSH_P4

#include "record_count.p4"

// Units of 128 bytes modulo 2^20.
#define TX_UNITS(bytes) ((bytes)[26:7])

control IntPush(inout headers_t hdr, inout metadata_t meta, in bit<24> time, in bit<20> tx, in bit<32> queue) {
    RecordCount() record_count;
    LOCAL_EVENT_COUNTER

    apply {
        if (hdr.weir.int_hops < MAX_HOPS) {
            hdr.record.setValid();
            hdr.record.rate_code = meta.rate_code;
            @in_hash { hdr.record.timestamp = time; }
            @in_hash { hdr.record.queue = QUEUE_UNITS(queue); }
            record_count.apply(hdr, meta, RECORD_BYTES);
        } else {
            events.count(EVENT_INT_FULL);
        }
    }
}

control RecordTxBytes(inout headers_t hdr, in bit<32> bytes) {
    apply {
        @in_hash { hdr.record.tx_bytes = TX_UNITS(bytes); }
    }
}

#endif
