// RoCC's fair rate: a PI controller on the queue (Taheri et al., RoCC, CoNEXT 2020).
//
//   every period:  Q >= Qmax and F > Fmax/8           F = Fmin
//                  Q - Qold >= Qmid and F > Fmax/8    F = F / 2
//                  else                               F = F - alpha * (Q - Qref) - beta * (Q - Qold)
//                  Fmin <= F <= Fmax;  Qold = Q
//
// alpha and beta shrink with F ("auto-tuning"): halved below Fmax/2, again below Fmax/4, to 1/32 below Fmax/32.
//
// v1model has no timer. The first packet that leaves the port a period or more after the last computation triggers
// the next one. If it leaves an empty queue, the port was idle for the whole periods in between, each of which would
// have added alpha * Qref: their sum is added, with the gain of the previous rate. If a queue is left, the port was
// paused; that counts as one period.
//
// Units: bytes, kbit/s; gains are kbit/s per byte times 2^16. Numbers are unsigned: positive and negative terms are
// summed separately.
//
// Contract: after Dequeue (meta.queue_bytes). A port without an entry computes no rate.
#ifndef WEIR_ROCC_RATE_P4
#define WEIR_ROCC_RATE_P4

const bit<64> MAX_PERIODS = 0xFFFF;

control RoccRate(in metadata_t meta, in target_t target) {
    bit<32> period_ticks;            // 0: the port computes no rate
    bit<32> periods_per_tick;        // times 2^32
    bit<32> queue_mid;
    bit<32> queue_max;
    bit<32> rate_min;
    bit<32> rate_max;
    bit<48> increase_per_period;     // of an idle port: alpha * Qref
    bit<32> alpha;
    bit<32> beta;
    bit<32> now;
    bit<32> elapsed;
    bit<32> old_queue;
    bit<32> rate;
    bit<32> queue_growth;
    bit<64> periods;
    bit<64> increase;
    bit<64> decrease;
    bit<64> delta;
    bit<8>  gain_shift;              // 16 from the units of the gains, and 0 to 5 of the auto-tuning

    // period in ticks; its inverse times 2^32; Qmid and Qmax; the rate's limits; alpha * Qref; alpha and beta.
    action pi(bit<32> period, bit<32> inverse, bit<32> qmid, bit<32> qmax, bit<32> fmin, bit<32> fmax,
              bit<48> alpha_qref, bit<32> alpha_gain, bit<32> beta_gain) {
        period_ticks = period;
        periods_per_tick = inverse;
        queue_mid = qmid;
        queue_max = qmax;
        rate_min = fmin;
        rate_max = fmax;
        increase_per_period = alpha_qref;
        alpha = alpha_gain;
        beta = beta_gain;
    }

    // Default action: the port computes no rate.
    action disabled() {
        period_ticks = 0;
        periods_per_tick = 0;
        queue_mid = 0;
        queue_max = 0;
        rate_min = 0;
        rate_max = 0;
        increase_per_period = 0;
        alpha = 0;
        beta = 0;
    }

    table rocc_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { pi; @defaultonly disabled; }
        const default_action = disabled();
        size = PORTS;
    }

    apply {
        rocc_port.apply();
        now = EGRESS_TIME_32(target);
        rate_time.read(elapsed, target.egress_port);
        elapsed = now - elapsed;
        if (period_ticks != 0 && elapsed >= period_ticks) {
            rate_time.write(target.egress_port, now);
            rate_queue.read(old_queue, target.egress_port);
            rate_queue.write(target.egress_port, meta.queue_bytes);
            fair_rate.read(rate, target.egress_port);
            if (rate == 0) {
                rate = rate_max;
            }
            queue_growth = meta.queue_bytes |-| old_queue;
            if (meta.queue_bytes >= queue_max && rate > (rate_max >> 3)) {
                rate = rate_min;
            } else if (queue_growth >= queue_mid && rate > (rate_max >> 3)) {
                rate = rate >> 1;
            } else {
                if (rate >= (rate_max >> 1)) {
                    gain_shift = 16;
                } else if (rate >= (rate_max >> 2)) {
                    gain_shift = 17;
                } else if (rate >= (rate_max >> 3)) {
                    gain_shift = 18;
                } else if (rate >= (rate_max >> 4)) {
                    gain_shift = 19;
                } else if (rate >= (rate_max >> 5)) {
                    gain_shift = 20;
                } else {
                    gain_shift = 21;
                }
                periods = 1;
                if (meta.queue_bytes == 0) {
                    periods = ((bit<64>)elapsed * (bit<64>)periods_per_tick) >> 32;
                    if (periods > MAX_PERIODS) {
                        periods = MAX_PERIODS;
                    } else if (periods == 0) {
                        periods = 1;
                    }
                }
                increase = ((bit<64>)increase_per_period * periods) |+| ((bit<64>)beta * (bit<64>)old_queue);
                decrease = ((bit<64>)alpha * (bit<64>)meta.queue_bytes) |+| ((bit<64>)beta * (bit<64>)meta.queue_bytes);
                if (increase >= decrease) {
                    delta = (increase - decrease) >> gain_shift;
                    if (delta > (bit<64>)rate_max) {
                        delta = (bit<64>)rate_max;
                    }
                    rate = rate |+| (bit<32>)delta;
                } else {
                    delta = (decrease - increase) >> gain_shift;
                    if (delta > (bit<64>)rate_max) {
                        delta = (bit<64>)rate_max;
                    }
                    rate = rate |-| (bit<32>)delta;
                }
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
