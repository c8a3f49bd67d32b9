// RCP's fair rate: changes in proportion to the unused capacity, less what is queued (Dukkipati, RCP).
//
//   every T:  R = R * (1 + (T/d) * (alpha * (gamma*C - y) - beta * q/d) / (gamma*C))
//
// y is the arrival rate at the port, q its queue, d the round-trip time. With bytes in place of rates, over the E ticks
// since the last computation:
//
//   R = R * (1 + (alpha * (gamma*C*E - arrived) - beta * q * E/d) / (gamma*C*d))
//
// arrived is the bytes that left since then plus the growth of the queue, so that only egress keeps state. E is T or
// more: v1model has no timer, so the first packet that leaves T after the last computation triggers the next, and an
// idle time counts in full, but as one step. d is a constant of the table entry: the base round-trip time of the fabric.
// RCP's average over packets needs a division by a measured value, which switches do not have.
//
// Units: bytes, kbit/s, ticks; fractions times 2^16, or 2^32 where they are small. Unsigned: positive and negative terms are
// summed separately, and no term comes near 64 bits for q up to 64 MiB, E up to 2^24 ticks and gamma*C*d from 256 B.
//
// Contract: after Dequeue (meta.queue_bytes, meta.tx_bytes without this packet) and before Depart.
#ifndef WEIR_RCP_RATE_P4
#define WEIR_RCP_RATE_P4

const bit<32> MAX_TICKS       = (1 << 24) - 1;
const bit<32> MAX_QUEUE       = (1 << 26) - 1;
const bit<64> MAX_DELTA_BYTES = (1 << 40) - 1;   // times 2^16: 16 MiB
const bit<32> SIGN_BIT        = 1 << 31;

PORT_STATE(32, rate_sent);                       // tx_bytes at the last computation

control RcpRate(in metadata_t meta, in target_t target) {
    bit<32> period_ticks;            // 0: the port computes no rate
    bit<32> rate_min;
    bit<32> rate_max;
    bit<32> bytes_per_tick;
    bit<32> alpha;
    bit<32> beta_per_rtt;
    bit<32> inv_bdp;
    bit<32> now;
    bit<32> elapsed;
    bit<32> sent;
    bit<32> queue;
    bit<32> previous;
    bit<32> arrived;
    bit<32> rate;
    bit<64> increase;                // bytes times 2^16
    bit<64> decrease;
    bit<64> delta;

    // period in ticks; the rate's limits; gamma*C in bytes per tick * 2^16; alpha * 2^16; beta/d * 2^32; 2^32/(gamma*C*d).
    action rcp(bit<32> period, bit<32> rmin, bit<32> rmax, bit<32> capacity, bit<32> alpha_gain, bit<32> beta_gain,
               bit<32> inverse_bdp) {
        period_ticks = period;
        rate_min = rmin;
        rate_max = rmax;
        bytes_per_tick = capacity;
        alpha = alpha_gain;
        beta_per_rtt = beta_gain;
        inv_bdp = inverse_bdp;
    }

    // Default action: the port computes no rate.
    action disabled() {
        period_ticks = 0;
        rate_min = 0;
        rate_max = 0;
        bytes_per_tick = 0;
        alpha = 0;
        beta_per_rtt = 0;
        inv_bdp = 0;
    }

    table rcp_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { rcp; @defaultonly disabled; }
        const default_action = disabled();
        size = PORTS;
    }

    apply {
        rcp_port.apply();
        now = EGRESS_TIME_32(target);
        rate_time.read(elapsed, target.egress_port);
        elapsed = now - elapsed;
        if (period_ticks != 0 && elapsed >= period_ticks) {
            rate_time.write(target.egress_port, now);
            if (elapsed > MAX_TICKS) {
                elapsed = MAX_TICKS;
            }
            sent = meta.tx_bytes + meta.enqueued_bytes;
            rate_sent.read(previous, target.egress_port);
            rate_sent.write(target.egress_port, sent);
            arrived = sent - previous;
            rate_queue.read(previous, target.egress_port);
            rate_queue.write(target.egress_port, meta.queue_bytes);
            arrived = arrived + meta.queue_bytes - previous;
            // Negative: queue_bytes was reset after a tail drop (queue_bytes.p4), so the queue seems to have shrunk by more
            // than was sent.
            if (arrived >= SIGN_BIT) {
                arrived = 0;
            }
            fair_rate.read(rate, target.egress_port);
            if (rate == 0) {
                rate = rate_max;
            }
            queue = meta.queue_bytes;
            if (queue > MAX_QUEUE) {
                queue = MAX_QUEUE;
            }
            increase = (bit<64>)alpha * (((bit<64>)bytes_per_tick * (bit<64>)elapsed) >> 16);
            decrease = ((bit<64>)alpha * (bit<64>)arrived)
                     |+| ((((bit<64>)queue * (bit<64>)elapsed) >> 16) * (bit<64>)beta_per_rtt);
            if (increase >= decrease) {
                delta = increase - decrease;
                if (delta > MAX_DELTA_BYTES) {
                    delta = MAX_DELTA_BYTES;
                }
                delta = ((bit<64>)rate * ((delta * (bit<64>)inv_bdp) >> 32)) >> 16;
                if (delta > (bit<64>)rate_max) {
                    delta = (bit<64>)rate_max;
                }
                rate = rate |+| (bit<32>)delta;
            } else {
                delta = decrease - increase;
                if (delta > MAX_DELTA_BYTES) {
                    delta = MAX_DELTA_BYTES;
                }
                delta = ((bit<64>)rate * ((delta * (bit<64>)inv_bdp) >> 32)) >> 16;
                if (delta > (bit<64>)rate_max) {
                    delta = (bit<64>)rate_max;
                }
                rate = rate |-| (bit<32>)delta;
            }
            if (rate > rate_max) {
                rate = rate_max;
            } else if (rate < rate_min) {
                rate = rate_min;
            }
            fair_rate.write(target.egress_port, rate);
        }
    }
}

#endif
