// Counts a record that the packet has got, as ../../controls/record_count.p4 does. int_hops shares a byte with path_id, and
// Tofino's addition writes whole containers: a table sets the next number.
#ifndef WEIR_RECORD_COUNT_P4
#define WEIR_RECORD_COUNT_P4

control RecordCount(inout headers_t hdr, inout metadata_t meta, in bit<16> bytes) {
    action set_hops(bit<4> hops) {
        hdr.weir.int_hops = hops;
    }

    table next_hops {
        key = { hdr.weir.int_hops : exact; }
        actions = { set_hops; }
        const entries = {
            0: set_hops(1); 1: set_hops(2); 2: set_hops(3); 3: set_hops(4);
            4: set_hops(5); 5: set_hops(6); 6: set_hops(7); 7: set_hops(8);
        }
        size = 8;
    }

    apply {
        next_hops.apply();
        hdr.ipv4.total_len = hdr.ipv4.total_len + bytes;
        hdr.udp.length = hdr.udp.length + bytes;
        meta.frame_bytes = meta.frame_bytes + bytes;
    }
}

#endif
