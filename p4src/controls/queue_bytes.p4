// Counts the bytes queued at each port. BMv2 reports only packets, so ingress and egress keep the count.
//
//   ingress  Enqueue   queue_bytes[egress_spec] += length
//   egress   Dequeue   queue_bytes[egress_port] -= the same length, or = 0 when the port is empty
//                      -> meta.queue_bytes: bytes left; meta.tx_bytes: bytes sent before
//            Depart    tx_bytes[egress_port] += length without records (RecordCount has taken them off)
//
// Contract: Enqueue runs last in ingress, for a packet that goes to one port (copies of a multicast
// packet are not counted). Dequeue runs before anything in egress that reads the queue, Depart after RecordCount.
//
// A tail drop happens between Enqueue and Dequeue: its bytes stay in the count until the port is
// next empty. After that correction more may be subtracted than was added, so the subtraction
// saturates at 0.
//
// On BMv2 ingress and egress are threads. p4c compiles consecutive statements into one action, and BMv2
// holds the locks of all registers that an action names while the action runs. So every update of
// queue_bytes is written here without a condition inside, and is atomic. tx_bytes of a port is
// accessed by one egress thread only (docs/p4-internals.md).
#ifndef WEIR_QUEUE_BYTES_P4
#define WEIR_QUEUE_BYTES_P4

// Whole units of 80 bytes, at most 65535: min(bytes, 65536 * 80 - 1) / 80.
// The minimum is a saturating addition that is then undone. x / 80 is (x / 16) / 5, and n / 5 is
// n * 214748365 >> 30: 5 * 214748365 = 2^30 + 1, so the error n / (5 * 2^30) stays below 1/5 for any
// n < 2^30. Exact for all 2^32 values (tests/test_arithmetic.py).
@noWarn("unused")
const bit<32> QUEUE_SATURATION_BIAS = 32w0xFFFF_FFFF - (65536 * 80 - 1);
#define QUEUE_UNITS(bytes) \
    ((bit<16>)(((bit<64>)((((bytes) |+| QUEUE_SATURATION_BIAS) - QUEUE_SATURATION_BIAS) >> 4) * 214748365) >> 30))

PORT_STATE(32, queue_bytes);
PORT_STATE(32, tx_bytes);

control Enqueue(in metadata_t meta, in target_t target) {
    bit<32> queued_bytes;

    apply {
        queue_bytes.read(queued_bytes, target.egress_spec);
        queue_bytes.write(target.egress_spec, queued_bytes + meta.enqueued_bytes);
    }
}

control Dequeue(inout metadata_t meta, in target_t target) {
    apply {
        if (PORT_IS_EMPTY(target)) {
            meta.queue_bytes = 0;
            queue_bytes.write(target.egress_port, 0);
        } else {
            queue_bytes.read(meta.queue_bytes, target.egress_port);
            meta.queue_bytes = meta.queue_bytes |-| meta.enqueued_bytes;
            queue_bytes.write(target.egress_port, meta.queue_bytes);
        }
        tx_bytes.read(meta.tx_bytes, target.egress_port);
    }
}

control Depart(inout metadata_t meta, in target_t target) {
    apply {
        meta.tx_bytes = meta.tx_bytes + meta.enqueued_bytes;
        tx_bytes.write(target.egress_port, meta.tx_bytes);
    }
}

#endif
