// What a record says of the packet's own queue, where a port serves several by weight.
//
//   | weir: int_hops + 1 | switch 16, port 16 | share 12, tx 20 | NEW RECORD | older ones ... |
//
//   int_format 08            these 4 bytes in front of the record (behind the ids)   (HPCC++ draft, section 9.4)
//   queue_share[port, priority] -> guarantees(share)     the part of the port's rate, in 4096ths, that the queue has at least
//   miss                        -> 0: the whole port
//
// tx is what the queue has sent, in the units of the record's tx_bytes.
//
// Contract: QueueTx runs after Dequeue; QueuePush after IntPush; QueueDepart after Depart, with meta.tx_bytes as it was
// before the packet.
#ifndef WEIR_QUEUE_PUSH_P4
#define WEIR_QUEUE_PUSH_P4

const bit<16> QUEUE_INFO_BYTES  = 4;
const bit<8>  INT_FORMAT_QUEUE = 0x08;   // the sender wants what its own queue may send and has sent

// Eight priorities of each port.
#define QUEUES (8 * PORTS)
#define QUEUE_INDEX(target) ((bit<32>)((target).egress_port ++ (target).priority))
CELLS(32, QUEUES, queue_tx_bytes);

control QueuePush(inout headers_t hdr, inout metadata_t meta, in target_t target, in bit<32> sent) {
    bit<12> queue_share_of = 0;

    action guarantees(bit<12> share) {
        queue_share_of = share;
    }

    table queue_share {
        key = {
            target.egress_port : exact @name("port");
            target.priority    : exact @name("priority");
        }
        actions = { guarantees; @defaultonly NoAction; }
        const default_action = NoAction();
        size = QUEUES;
    }

    apply {
        if (hdr.record.isValid() && (hdr.weir.int_format & INT_FORMAT_QUEUE) != 0) {
            queue_share.apply();
            hdr.queue.setValid();
            hdr.queue.share = queue_share_of;
            hdr.queue.tx_bytes = TX_UNITS(sent);
            hdr.ipv4.total_len = hdr.ipv4.total_len + QUEUE_INFO_BYTES;
            hdr.udp.length = hdr.udp.length + QUEUE_INFO_BYTES;
            meta.tx_bytes = meta.tx_bytes + (bit<32>)QUEUE_INFO_BYTES;
        }
    }
}

#endif
