// What HPCC++ wants in a record beyond HPCC's: whose it is, and how long the packet waited.
//
//   | weir: int_hops + 1 | switch 16, port 16 | NEW RECORD | older ones ... |
//
//   int_format 01   ids of switch and port in front of the record          (HPCC++ draft, section 6.1)
//   int_format 02   the record's queue field is the time in the queue, 4 ticks a unit, saturating: what
//                   a packet waits where a port has several queues         (HPCC++ draft, section 9.4)
//
// The sender sets the bits and reads by them; every switch on the path must run this program.
// The switch id is what SwitchIdentity has put into path_id; it fits 12 of the 16 bits.
//
// Contract: runs after IntPush. path_before is path_id as the packet came.
#ifndef WEIR_LINK_PUSH_P4
#define WEIR_LINK_PUSH_P4

// min(ticks, 2^18 - 1) / 4: the minimum is a saturating addition, undone.
const bit<32> ABOVE_SOJOURN_RANGE = 32w0xFFFF_FFFF - ((1 << 18) - 1);
#define SOJOURN_UNITS(ticks) ((((ticks) |+| ABOVE_SOJOURN_RANGE) - ABOVE_SOJOURN_RANGE)[17:2])

control LinkPush(inout headers_t hdr, inout metadata_t meta, in target_t target, in bit<12> path_before) {
    apply {
        if (hdr.record.isValid()) {
            if ((hdr.weir.int_format & INT_FORMAT_LINK) != 0) {
                hdr.link.setValid();
                hdr.link.switch_id = (bit<16>)(hdr.weir.path_id ^ path_before);
                hdr.link.port_id = (bit<16>)target.egress_port;
                hdr.ipv4.total_len = hdr.ipv4.total_len + LINK_BYTES;
                hdr.udp.length = hdr.udp.length + LINK_BYTES;
                meta.tx_bytes = meta.tx_bytes + (bit<32>)LINK_BYTES;
            }
            if ((hdr.weir.int_format & INT_FORMAT_SOJOURN) != 0) {
                hdr.record.queue = SOJOURN_UNITS(SOJOURN(target));
            }
        }
    }
}

#endif
