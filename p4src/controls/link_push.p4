// Adds to a record what HPCC++ has beyond HPCC: ids of switch and port, and the time that the packet was queued.
//
//   | weir: int_hops + 1 | switch 16, port 16 | NEW RECORD | older records ... |
//
//   int_format 01   ids of switch and port in front of the record          (HPCC++ draft, section 6.1)
//   int_format 02   the record's queue field is the time in the queue, in units of 4 ticks, saturating:
//                   for ports with several queues                          (HPCC++ draft, section 9.4)
//
// The sender sets the bits and parses the records accordingly, so every switch on the path must run this program.
// The switch id is the value by which SwitchIdentity changed path_id; it has 12 of the 16 bits.
//
// Contract: runs after IntPush, whose RecordCount has added 1 to int_hops and left these bytes in meta.enqueued_bytes.
// path_before is path_id on arrival.
#ifndef WEIR_LINK_PUSH_P4
#define WEIR_LINK_PUSH_P4

// min(ticks, 2^18 - 1) / 4: the minimum is a saturating addition that is then undone.
const bit<32> SOJOURN_SATURATION_BIAS = 32w0xFFFF_FFFF - ((1 << 18) - 1);
#define SOJOURN_UNITS(ticks) ((((ticks) |+| SOJOURN_SATURATION_BIAS) - SOJOURN_SATURATION_BIAS)[17:2])

control LinkPush(inout headers_t hdr, inout metadata_t meta, in target_t target, in bit<12> path_before) {
    apply {
        if (hdr.record.isValid()) {
            if ((hdr.weir.int_format & INT_FORMAT_LINK) != 0) {
                hdr.link.setValid();
                hdr.link.switch_id = (bit<16>)(hdr.weir.path_id ^ path_before);
                hdr.link.port_id = (bit<16>)target.egress_port;
                hdr.ipv4.total_len = hdr.ipv4.total_len + LINK_BYTES;
                hdr.udp.length = hdr.udp.length + LINK_BYTES;
                meta.enqueued_bytes = meta.enqueued_bytes |-| (bit<32>)(hdr.weir.int_hops - 1) * (bit<32>)LINK_BYTES;
            }
            if ((hdr.weir.int_format & INT_FORMAT_SOJOURN) != 0) {
                hdr.record.queue = SOJOURN_UNITS(SOJOURN(target));
            }
        }
    }
}

#endif
