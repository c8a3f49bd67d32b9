// Telemetry records of one's own: how long the packet waited in this port, and the bytes behind it, exactly.
//
//   sender --- data, TELEMETRY ---> [switch: + record] ---> [switch: + record] ---> receiver
//          <-- ACK with the records, copied by the receiver ----------------------
//
// A record is the header that P4Info lists as weir_record: 4, 8, ... 64 bytes, of fields with at most 64 bits. The
// scheme in src/wait.rs names the fields that it reads. Everything else is Weir's own.
@controller_header("weir_record")
header wait_record_t {
    bit<32> wait;                    // ticks of the switch's clock in the queue
    bit<32> queue;                   // bytes left in the queue
    bit<16> switch_id;
    bit<16> port;
}

#define PROGRAM_RECORD wait_record_t
#include "include/weir.p4"
#include "controls/record_count.p4"

const bit<16> WAIT_RECORD_BYTES = 12;

control WaitRecord(inout headers_t hdr, inout metadata_t meta, in target_t target, in bit<12> path_before) {
    RecordCount() record_count;

    apply {
        if (hdr.weir.int_hops < MAX_HOPS) {
            hdr.record.setValid();
            hdr.record.wait = SOJOURN(target);
            hdr.record.queue = meta.queue_bytes;
            hdr.record.switch_id = (bit<16>)(hdr.weir.path_id ^ path_before);
            hdr.record.port = (bit<16>)target.egress_port;
            record_count.apply(hdr, meta, WAIT_RECORD_BYTES);
        } else {
            events.count(EVENT_INT_FULL);
        }
    }
}

control OwnEgress(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PortProfile() port_profile;
    Dequeue() dequeue;
    SwitchIdentity() switch_identity;
    WaitRecord() wait_record;
    Depart() depart;
    bit<12> path_before;

    apply {
        port_profile.apply(meta, target.egress_port);
        dequeue.apply(meta, target);
        if (hdr.weir.isValid()) {
            path_before = hdr.weir.path_id;
            switch_identity.apply(hdr);
            if ((hdr.weir.flags & FLAG_TELEMETRY) != 0 && hdr.weir.kind == KIND_DATA) {
                wait_record.apply(hdr, meta, target, path_before);
            }
        }
        depart.apply(meta, target);
    }
}

@weir_telemetry("data")
V1Switch(WeirParser(), WeirVerifyChecksum(), WeirIngress(), OwnEgress(), WeirComputeChecksum(), WeirDeparser()) main;
