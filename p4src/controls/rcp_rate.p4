// RCP's fair rate: what is unused, less what has queued, in proportion to the rate (Dukkipati, RCP).
//
//   every T:  R = R * (1 + (T/d) * (alpha * (gamma*C - y) - beta * q/d) / (gamma*C))
//
// y is what arrived at the port per time, q its queue, d the round-trip time. With bytes in place of rates, over
// the E ticks since the last computation:
//
//   R = R * (1 + (alpha * (gamma*C*E - arrived) - beta * q * E/d) / (gamma*C*d))
//
// arrived is what left since then and how much the queue grew, so that only egress keeps state. E is T or more:
// v1model has no timer, so the first packet that leaves T after the last computation does the next, and an idle
// time counts in full, but as one step. d is the table's: the base round-trip time of the fabric. RCP's own
// average over packets needs a division by what was measured, which no switch has.
//
// Units: bytes, kbit/s, ticks; fractions times 2^16, or 2^32 where they are small. Unsigned: what raises the rate
// apart from what lowers it, each step far below 64 bits for q up to 64 MiB, E up to 2^24 ticks and gamma*C*d from 256 B.
//
// Contract: after Dequeue (meta.queue_bytes, meta.tx_bytes without this packet) and before Depart.
#ifndef WEIR_RCP_RATE_P4
#define WEIR_RCP_RATE_P4

const bit<32> MOST_TICKS = (1 << 24) - 1;
const bit<32> MOST_QUEUE = (1 << 26) - 1;
const bit<64> MOST_BYTES = (1 << 40) - 1;        // times 2^16: sixteen MiB of more or less
const bit<32> NEGATIVE   = 1 << 31;

PORT_STATE(32, rate_sent);                       // tx_bytes at the last computation

control RcpRate(in metadata_t meta, in target_t target) {
    bit<32> every;                   // the entry's numbers
    bit<32> least;
    bit<32> most;
    bit<32> bytes_per_tick;
    bit<32> alpha;
    bit<32> beta_per_rtt;
    bit<32> per_bdp;
    bit<32> now;
    bit<32> elapsed;
    bit<32> sent;
    bit<32> queue;
    bit<32> old;
    bit<32> arrived;
    bit<32> rate;
    bit<64> up;
    bit<64> down;
    bit<64> change;

    // period in ticks; the rate's limits; gamma*C in bytes per tick * 2^16; alpha * 2^16; beta/d * 2^32; 2^32/(gamma*C*d).
    action rcp(bit<32> period, bit<32> rmin, bit<32> rmax, bit<32> capacity, bit<32> alpha_gain, bit<32> beta_gain,
               bit<32> inverse_bdp) {
        every = period;
        least = rmin;
        most = rmax;
        bytes_per_tick = capacity;
        alpha = alpha_gain;
        beta_per_rtt = beta_gain;
        per_bdp = inverse_bdp;
    }

    // A period of 0: computes nothing.
    action no_law() {
        every = 0;
        least = 0;
        most = 0;
        bytes_per_tick = 0;
        alpha = 0;
        beta_per_rtt = 0;
        per_bdp = 0;
    }

    table rcp_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { rcp; @defaultonly no_law; }
        const default_action = no_law();
        size = PORTS;
    }

    apply {
        rcp_port.apply();
        now = TICKS(target);
        rate_time.read(elapsed, target.egress_port);
        elapsed = now - elapsed;
        if (every != 0 && elapsed >= every) {
            rate_time.write(target.egress_port, now);
            if (elapsed > MOST_TICKS) {
                elapsed = MOST_TICKS;
            }
            sent = meta.tx_bytes + meta.enqueued_bytes;
            rate_sent.read(old, target.egress_port);
            rate_sent.write(target.egress_port, sent);
            arrived = sent - old;
            rate_queue.read(old, target.egress_port);
            rate_queue.write(target.egress_port, meta.queue_bytes);
            arrived = arrived + meta.queue_bytes - old;
            // Fewer than none: the count of the queue was put right after a drop (queue_bytes.p4).
            if (arrived >= NEGATIVE) {
                arrived = 0;
            }
            fair_rate.read(rate, target.egress_port);
            if (rate == 0) {
                rate = most;
            }
            queue = meta.queue_bytes;
            if (queue > MOST_QUEUE) {
                queue = MOST_QUEUE;
            }
            up = (bit<64>)alpha * (((bit<64>)bytes_per_tick * (bit<64>)elapsed) >> 16);
            down = ((bit<64>)alpha * (bit<64>)arrived)
                 |+| ((((bit<64>)queue * (bit<64>)elapsed) >> 16) * (bit<64>)beta_per_rtt);
            if (up >= down) {
                change = up - down;
                if (change > MOST_BYTES) {
                    change = MOST_BYTES;
                }
                change = ((bit<64>)rate * ((change * (bit<64>)per_bdp) >> 32)) >> 16;
                if (change > (bit<64>)most) {
                    change = (bit<64>)most;
                }
                rate = rate |+| (bit<32>)change;
            } else {
                change = down - up;
                if (change > MOST_BYTES) {
                    change = MOST_BYTES;
                }
                change = ((bit<64>)rate * ((change * (bit<64>)per_bdp) >> 32)) >> 16;
                if (change > (bit<64>)most) {
                    change = (bit<64>)most;
                }
                rate = rate |-| (bit<32>)change;
            }
            if (rate > most) {
                rate = most;
            } else if (rate < least) {
                rate = least;
            }
            fair_rate.write(target.egress_port, rate);
        }
    }
}

#endif
