// Decides whether a packet that requests a record gets one.
//
//   int_threshold[port] -> set_threshold(bytes)
//   miss                -> threshold 0
//
//   int_format without 04   yes
//   int_format with 04      if at least `bytes` are queued behind the packet   (HPCC++ draft, section 6: telemetry
//                           "upon congestion")
//
// Contract: hdr.weir is valid; meta.queue_bytes is of the port that the record would describe.
#ifndef WEIR_RECORD_CONDITION_P4
#define WEIR_RECORD_CONDITION_P4

const bit<8> INT_FORMAT_CONGESTED = 0x04;    // the sender requests records of congested ports only

control RecordCondition(in headers_t hdr, in metadata_t meta, in target_t target, out bit<1> wants_record) {
    bit<32> threshold = 0;

    action set_threshold(bit<32> bytes) {
        threshold = bytes;
    }

    table int_threshold {
        key = { target.egress_port : exact @name("port"); }
        actions = { set_threshold; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        wants_record = 1;
        if ((hdr.weir.int_format & INT_FORMAT_CONGESTED) != 0) {
            int_threshold.apply();
            if (meta.queue_bytes < threshold) {
                wants_record = 0;
            }
        }
    }
}

#endif
