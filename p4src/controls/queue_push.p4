// Adds to a record the state of the packet's own queue, for ports that serve several queues by weight.
//
//   | weir: int_hops + 1 | switch 16, port 16 | share 12, tx 20 | NEW RECORD | older records ... |
//
//   int_format 08            these 4 bytes between the ids and the record            (HPCC++ draft, section 9.4)
//   queue_share[port, priority] -> set_share(share)      the part of the port's rate, in 4096ths, that the queue has at least
//   miss                        -> 0: the whole rate
//
// tx is what the queue has sent, in the units of the record's tx_bytes.
//
// Contract: runs after IntPush, as LinkPush; sent is queue_tx_bytes of the packet's queue, read after Dequeue. The program adds the packet
// to queue_tx_bytes after Depart.
#ifndef WEIR_QUEUE_PUSH_P4
#define WEIR_QUEUE_PUSH_P4

const bit<16> QUEUE_INFO_BYTES  = 4;
const bit<8>  INT_FORMAT_QUEUE = 0x08;   // the sender requests the share of its own queue and what it has sent

// Eight priorities of each port.
#define QUEUES (8 * PORTS)
#define QUEUE_INDEX(target) ((bit<32>)((target).egress_port ++ (target).priority))
CELLS(32, QUEUES, queue_tx_bytes);

control QueuePush(inout headers_t hdr, inout metadata_t meta, in target_t target, in bit<32> sent) {
    bit<12> min_share = 0;

    action set_share(bit<12> share) {
        min_share = share;
    }

    table queue_share {
        key = {
            target.egress_port : exact @name("port");
            target.priority    : exact @name("priority");
        }
        actions = { set_share; @defaultonly NoAction; }
        const default_action = NoAction();
        size = QUEUES;
    }

    apply {
        if (hdr.record.isValid() && (hdr.weir.int_format & INT_FORMAT_QUEUE) != 0) {
            queue_share.apply();
            hdr.queue.setValid();
            hdr.queue.share = min_share;
            hdr.queue.tx_bytes = TX_UNITS(sent);
            hdr.ipv4.total_len = hdr.ipv4.total_len + QUEUE_INFO_BYTES;
            hdr.udp.length = hdr.udp.length + QUEUE_INFO_BYTES;
            meta.enqueued_bytes = meta.enqueued_bytes |-| (bit<32>)(hdr.weir.int_hops - 1) * (bit<32>)QUEUE_INFO_BYTES;
        }
    }
}

#endif
