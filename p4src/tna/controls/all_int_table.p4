// FNCC's All_INT_Table where a packet accesses one entry of a register (docs/tofino-fncc.md). As ../../controls/all_int_table.p4,
// but a packet either reads an entry or writes one:
//
//   ACK with a record to fill  ---> reads all_int_*[ingress port]
//   every other packet         ---> writes all_int_*[egress port] = now, txBytes including this packet, qLen
//
// Each register is in one stage, and packets pass the stages in order, so a reader gets all three values of one departure. An
// entry that is older than FRESH_TICKS belongs to an idle port: the read sets its time to the present.
//
// Contract: after Depart. reads: hdr.record is valid and of an ACK or NACK.
#ifndef WEIR_ALL_INT_TABLE_P4
#define WEIR_ALL_INT_TABLE_P4

Register<bit<32>, port_t>(PORTS, 0) all_int_time;
Register<bit<32>, port_t>(PORTS, 0) all_int_tx;
Register<bit<32>, port_t>(PORTS, 0) all_int_queue;

const bit<32> FRESH_TICKS = 16384;

control AllIntTable(inout headers_t hdr, in metadata_t meta, in target_t target, in bool reads) {
    bit<32> sent;
    bit<32> time;
    bit<32> tx;
    bit<32> queue;

    RegisterAction<bit<32>, port_t, bit<32>>(all_int_time) read_time = {
        void apply(inout bit<32> entry, out bit<32> result) {
            if (target.time - entry > FRESH_TICKS) {
                entry = target.time;
            }
            result = entry;
        }
    };
    RegisterAction<bit<32>, port_t, bit<32>>(all_int_time) write_time = {
        void apply(inout bit<32> entry) { entry = target.time; }
    };
    RegisterAction<bit<32>, port_t, bit<32>>(all_int_tx) read_tx = {
        void apply(inout bit<32> entry, out bit<32> result) { result = entry; }
    };
    RegisterAction<bit<32>, port_t, bit<32>>(all_int_tx) write_tx = {
        void apply(inout bit<32> entry) { entry = sent; }
    };
    RegisterAction<bit<32>, port_t, bit<32>>(all_int_queue) read_queue = {
        void apply(inout bit<32> entry, out bit<32> result) { result = entry; }
    };
    RegisterAction<bit<32>, port_t, bit<32>>(all_int_queue) write_queue = {
        void apply(inout bit<32> entry) { entry = meta.queue_bytes; }
    };

    apply {
        @in_hash { sent = (bit<32>)meta.frame_bytes; }
        sent = sent + meta.tx_before;
        if (reads) {
            time = read_time.execute(target.ingress_port);
            tx = read_tx.execute(target.ingress_port);
            queue = read_queue.execute(target.ingress_port);
            @in_hash { hdr.record.timestamp = time[23:0]; }
            @in_hash { hdr.record.tx_bytes = TX_UNITS(tx); }
            @in_hash { hdr.record.queue = QUEUE_UNITS(queue); }
        } else {
            write_time.execute(target.egress_port);
            write_tx.execute(target.egress_port);
            write_queue.execute(target.egress_port);
        }
    }
}

#endif
