// The depth of a queue, and the bytes that a port has sent. The traffic manager knows the depth, so ingress counts nothing:
//
//   Enqueue   nothing
//   Dequeue   meta.queue_bytes[15:0] = units of 80 bytes left behind this packet, at most 65535
//   Depart    meta.tx_before = tx_bytes[egress_port];  tx_bytes[egress_port] += meta.frame_bytes, including a pushed record
//
// The traffic manager counts cells: 80 bytes on Tofino 1, which is the record's unit, and 176 on Tofino 2. There, 2.2 units a
// cell are computed as 2 + 1/4 - 1/16, which is 0.6% less.
//
// One RegisterAction returns the old value and adds, since a packet accesses a register once. So a record gets its txBytes
// after Depart.
#ifndef WEIR_PORT_COUNTS_P4
#define WEIR_PORT_COUNTS_P4

Register<bit<32>, port_t>(PORTS, 0) tx_bytes;

// The record's unit, of meta.queue_bytes.
#define QUEUE_UNITS(units) ((units)[15:0])

control Enqueue(in metadata_t meta, in target_t target) {
    apply {}
}

control Dequeue(inout metadata_t meta, in target_t target) {
    bit<16> depth;

#if __TARGET_TOFINO__ != 1
    bit<16> same;
    bit<16> more;
    bit<16> sixteenth;

    // An action each, as each needs the result of the one before. Nothing is taken off a sum that is at its limit: a
    // longer queue would seem shorter.
    action divide() {
        more = depth >> 2;
        sixteenth = depth >> 4;
    }
    action double() {
        more = more - sixteenth;
        depth = depth |+| same;
    }
    action add() {
        depth = depth |+| more;
    }
#endif

    apply {
        if (target.deq_qdepth[18:16] == 0) {
            depth = target.deq_qdepth[15:0];
        } else {
            depth = 0xFFFF;
        }
#if __TARGET_TOFINO__ != 1
        same = depth;
        divide();
        double();
        add();
#endif
        meta.queue_bytes[31:16] = 0;
        meta.queue_bytes[15:0] = depth;
    }
}

control Depart(inout metadata_t meta, in target_t target) {
    RegisterAction<bit<32>, port_t, bit<32>>(tx_bytes) send = {
        void apply(inout bit<32> sent, out bit<32> before) {
            before = sent;
            sent = sent + (bit<32>)meta.frame_bytes;
        }
    };

    apply {
        meta.tx_before = send.execute(target.egress_port);
    }
}

#endif
