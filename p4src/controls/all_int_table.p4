// FNCC's All_INT_Table: one INT entry for every port, read by the ACKs that come in by it.
//
//   data  ---> [ port p ] --->        egress writes all_int_table[p] = { 0, now, txBytes, qLen }
//   ACK   <--- [ port p ] <---        its egress reads all_int_table[p] into the ACK
//
// An ACK arrives by the port that its data left by, so entry p is the queue that the data passed, as it
// is now and not as it was when the data passed (FNCC, section 3.2.1, Algorithm 1).
//
// The paper refreshes the table "periodically". Here it is written at every dequeue or, if a period is set, at the first
// dequeue after each period. With a period, an ACK takes the whole entry, including qLen, however old it is.
//
//   int_refresh -> refresh_every(ticks) as default action      unset: at every dequeue
//
// Without a period, an ACK takes time and txBytes of the last dequeue, which belong together: with the present time instead,
// txBytes would lag by up to a packet, and the rate that a sender computes from two ACKs would be wrong by one packet in a
// few (docs/design-changes.md has the measurement). qLen is the present queue_bytes[p], which grows with every enqueue. A
// port that has sent nothing for FRESH_TICKS or, up to 1 Gbit/s, SLOW_FRESH_TICKS is idle or paused: txBytes has not changed since, so the present time is right.
//
// Only egress accesses the table. The stored rate code is 0; the reader inserts that of port p's profile. txBytes includes
// the packet that wrote the entry, while the record in a data packet excludes that packet.
//
// Contract: IntRefresh runs first; AllIntUpdate runs after Depart, AllIntRead before it, and after meta.rate_code is that of
// the port that it reads.
#ifndef WEIR_ALL_INT_TABLE_P4
#define WEIR_ALL_INT_TABLE_P4

PORT_STATE(64, all_int_table);

control IntRefresh(out bit<24> period) {
    action refresh_every(bit<24> ticks) {
        period = ticks;
    }

    table int_refresh {
        actions = { refresh_every; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        period = 0;
        int_refresh.apply();
    }
}

control AllIntUpdate(in metadata_t meta, in target_t target, in bit<24> period) {
    bit<64> entry;
    bool due;

    apply {
        due = true;
        if (period != 0) {
            all_int_table.read(entry, target.egress_port);
            due = TIMESTAMP(target) - entry[59:36] >= period;
        }
        if (due) {
            all_int_table.write(target.egress_port,
                (bit<64>)(TIMESTAMP(target) ++ TX_UNITS(meta.tx_bytes) ++ QUEUE_UNITS(meta.queue_bytes)));
        }
    }
}

// Longer than a frame of 9,216 bytes takes at 10 Gbit/s in ns (7 us). The difference wraps every 2^24 ticks: a port that was
// idle for exactly that long gives an old time, which the host detects by its own clock.
const bit<24> FRESH_TICKS = 16384;
// The same at 100 Mbit/s in ns (737 us), and at 100 kbit/s in BMv2's us.
const bit<24> SLOW_FRESH_TICKS = 1 << 20;
const bit<4> SLOW_RATE_CODE = 7;     // 1 Gbit/s; lower codes are lower rates, 0 is unknown (docs/wire.md)

control AllIntRead(in metadata_t meta, in target_t target, in bit<24> period, out bit<24> time, out bit<20> tx, out bit<32> queue) {
    bit<64> entry;
    bit<24> fresh;

    apply {
        fresh = FRESH_TICKS;
        if (meta.rate_code != 0 && meta.rate_code <= SLOW_RATE_CODE) {
            fresh = SLOW_FRESH_TICKS;
        }
        all_int_table.read(entry, target.ingress_port);
        queue_bytes.read(queue, target.ingress_port);
        tx = entry[35:16];
        time = entry[59:36];
        if (TIMESTAMP(target) - time > (fresh |+| period)) {
            time = TIMESTAMP(target);
        } else if (period != 0) {
            // qLen is in units of 80 bytes, 64 + 16.
            queue = ((bit<32>)entry[15:0] << 6) + ((bit<32>)entry[15:0] << 4);
        }
    }
}

#endif
