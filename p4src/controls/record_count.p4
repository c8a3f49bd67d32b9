// Counts a record that was pushed into the packet: one more hop, and its bytes in the packet's lengths, but not in the port's
// count of bytes.
//
//   | ipv4: total_len + bytes | ports | udp: length + bytes | weir: int_hops + 1 | NEW RECORD | older records | ...
//   meta.enqueued_bytes - int_hops * bytes       what Depart adds to tx_bytes
//
// tx_bytes counts no records, so that every port on the path counts the same bytes for a packet. Records have counts in
// units, and a packet that grew on its way would be rounded differently at each hop: the largest of several rates would be
// too high. A sender knows how many records a packet had at a hop, and adds them (docs/algorithms/hpcc.md).
//
// For records of any header type: hdr.record is Weir's record_t, or the type that the program defines as PROGRAM_RECORD.
//
// Contract: hdr.weir is valid and int_hops is below MAX_HOPS; runs between Dequeue, which needs the length that was
// enqueued, and Depart. A packet without the records that int_hops claims counts less than it is, and never less than 0.
#ifndef WEIR_RECORD_COUNT_P4
#define WEIR_RECORD_COUNT_P4

control RecordCount(inout headers_t hdr, inout metadata_t meta, in bit<16> bytes) {
    apply {
        meta.enqueued_bytes = meta.enqueued_bytes |-| (bit<32>)hdr.weir.int_hops * (bit<32>)bytes;
        hdr.weir.int_hops = hdr.weir.int_hops + 1;
        hdr.ipv4.total_len = hdr.ipv4.total_len + bytes;
        hdr.udp.length = hdr.udp.length + bytes;
    }
}

#endif
