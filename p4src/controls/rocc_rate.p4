// RoCC's fair rate: a PI controller on the queue (Taheri et al., RoCC, CoNEXT 2020).
//
//   every period:  Q >= Qmax and F > Fmax/8           F = Fmin
//                  Q - Qold >= Qmid and F > Fmax/8    F = F / 2
//                  else                               F = F - alpha * (Q - Qref) - beta * (Q - Qold)
//                  Fmin <= F <= Fmax;  Qold = Q
//
// alpha and beta shrink with F ("auto-tuning"): halved below Fmax/2, again below Fmax/4, to 1/32 below Fmax/32.
//
// v1model has no timer. The first packet that leaves the port a period or more after the last computation does
// the next one. If the queue behind it is empty, the port was idle for the whole periods between them, in which
// the law would have added alpha * Qref each: the sum of these is added, with the gain of the rate before. If a
// queue is behind it the port was paused; that counts as one period.
//
// Units: bytes, kbit/s; gains are kbit/s per byte times 2^16. Numbers are unsigned: what raises the rate is
// summed apart from what lowers it.
//
// Contract: after Dequeue (meta.queue_bytes). A port without an entry computes nothing.
#ifndef WEIR_ROCC_RATE_P4
#define WEIR_ROCC_RATE_P4

const bit<64> MOST_PERIODS = 0xFFFF;

control RoccRate(in metadata_t meta, in target_t target) {
    bit<32> every;                   // the entry's numbers
    bit<32> periods_per_tick;
    bit<32> steep;
    bit<32> full;
    bit<32> least;
    bit<32> most;
    bit<48> up_per_period;
    bit<32> alpha;
    bit<32> beta;
    bit<32> now;
    bit<32> elapsed;
    bit<32> old;
    bit<32> rate;
    bit<32> grown;
    bit<64> periods;
    bit<64> up;
    bit<64> down;
    bit<64> change;
    bit<8>  level;

    // period in ticks; its inverse times 2^32; the queue's marks; the rate's limits; alpha * Qref; gains.
    action pi(bit<32> period, bit<32> inverse, bit<32> qmid, bit<32> qmax, bit<32> fmin, bit<32> fmax,
              bit<48> alpha_qref, bit<32> alpha_gain, bit<32> beta_gain) {
        every = period;
        periods_per_tick = inverse;
        steep = qmid;
        full = qmax;
        least = fmin;
        most = fmax;
        up_per_period = alpha_qref;
        alpha = alpha_gain;
        beta = beta_gain;
    }

    // A period of 0: computes nothing.
    action no_law() {
        every = 0;
        periods_per_tick = 0;
        steep = 0;
        full = 0;
        least = 0;
        most = 0;
        up_per_period = 0;
        alpha = 0;
        beta = 0;
    }

    table rocc_port {
        key = { target.egress_port : exact @name("port"); }
        actions = { pi; @defaultonly no_law; }
        const default_action = no_law();
        size = PORTS;
    }

    apply {
        rocc_port.apply();
        now = TICKS(target);
        rate_time.read(elapsed, target.egress_port);
        elapsed = now - elapsed;
        if (every != 0 && elapsed >= every) {
            rate_time.write(target.egress_port, now);
            rate_queue.read(old, target.egress_port);
            rate_queue.write(target.egress_port, meta.queue_bytes);
            fair_rate.read(rate, target.egress_port);
            if (rate == 0) {
                rate = most;
            }
            grown = meta.queue_bytes |-| old;
            if (meta.queue_bytes >= full && rate > (most >> 3)) {
                rate = least;
            } else if (grown >= steep && rate > (most >> 3)) {
                rate = rate >> 1;
            } else {
                if (rate >= (most >> 1)) {
                    level = 16;
                } else if (rate >= (most >> 2)) {
                    level = 17;
                } else if (rate >= (most >> 3)) {
                    level = 18;
                } else if (rate >= (most >> 4)) {
                    level = 19;
                } else if (rate >= (most >> 5)) {
                    level = 20;
                } else {
                    level = 21;
                }
                periods = 1;
                if (meta.queue_bytes == 0) {
                    periods = ((bit<64>)elapsed * (bit<64>)periods_per_tick) >> 32;
                    if (periods > MOST_PERIODS) {
                        periods = MOST_PERIODS;
                    } else if (periods == 0) {
                        periods = 1;
                    }
                }
                up = ((bit<64>)up_per_period * periods) |+| ((bit<64>)beta * (bit<64>)old);
                down = ((bit<64>)alpha * (bit<64>)meta.queue_bytes) |+| ((bit<64>)beta * (bit<64>)meta.queue_bytes);
                if (up >= down) {
                    change = (up - down) >> level;
                    if (change > (bit<64>)most) {
                        change = (bit<64>)most;
                    }
                    rate = rate |+| (bit<32>)change;
                } else {
                    change = (down - up) >> level;
                    if (change > (bit<64>)most) {
                        change = (bit<64>)most;
                    }
                    rate = rate |-| (bit<32>)change;
                }
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
