// Counts a record that was pushed into the packet: one more hop, and its bytes in every length.
//
//   | ipv4: total_len + bytes | ports | udp: length + bytes | weir: int_hops + 1 | NEW RECORD | older records | ...
//
// For records of any header type: hdr.record is Weir's record_t, or the type that the program defines as PROGRAM_RECORD.
//
// Contract: hdr.weir is valid and int_hops is below MAX_HOPS. The bytes are added to meta.tx_bytes, the count of the
// port that this packet leaves by.
#ifndef WEIR_RECORD_COUNT_P4
#define WEIR_RECORD_COUNT_P4

control RecordCount(inout headers_t hdr, inout metadata_t meta, in bit<16> bytes) {
    apply {
        hdr.weir.int_hops = hdr.weir.int_hops + 1;
        hdr.ipv4.total_len = hdr.ipv4.total_len + bytes;
        hdr.udp.length = hdr.udp.length + bytes;
        meta.tx_bytes = meta.tx_bytes + (bit<32>)bytes;
    }
}

#endif
