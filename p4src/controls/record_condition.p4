// Does a packet that asks for a record get one?
//
//   int_threshold[port] -> above(bytes)
//   miss                -> above(0)
//
//   int_format without 04   yes
//   int_format with 04      if at least `bytes` are queued behind the packet   (HPCC++ draft, section 6: telemetry
//                           "upon congestion")
//
// Contract: hdr.weir is valid; meta.queue_bytes is of the port that the record would describe.
#ifndef WEIR_RECORD_CONDITION_P4
#define WEIR_RECORD_CONDITION_P4

const bit<8> INT_FORMAT_CONGESTED = 0x04;    // the sender wants records of congested ports only

control RecordCondition(in headers_t hdr, in metadata_t meta, in target_t target, out bit<1> holds) {
    bit<32> least = 0;

    action above(bit<32> bytes) {
        least = bytes;
    }

    table int_threshold {
        key = { target.egress_port : exact @name("port"); }
        actions = { above; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        holds = 1;
        if ((hdr.weir.int_format & INT_FORMAT_CONGESTED) != 0) {
            int_threshold.apply();
            if (meta.queue_bytes < least) {
                holds = 0;
            }
        }
    }
}

#endif
