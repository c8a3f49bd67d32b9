//! Bounds of convergence time and queue length for each built-in scheme.

use weir_host::scheme::SchemeConfig;
use weir_testkit::conformance::Expectations;
use weir_units::{Bytes, Time};

/// Returns the bounds for a built-in scheme.
///
/// # Panics
///
/// The scheme has no bounds. Add them here for a new scheme.
pub(crate) fn expectations(scheme: &dyn SchemeConfig) -> Expectations {
    let is = |parameter: &str, value: &str| scheme.get(parameter).as_deref() == Some(value);
    let (fair_within, recovers_within, peak, steady) = match scheme.name() {
        // Two flows converge within 1.5 ms (W_AI is 80 B a round trip). They start at line rate, so the first
        // round trip queues about one BDP of 75 KB.
        "hpcc" | "hpcc++" | "fncc" | "weir" => (Time::from_us(1_700), Time::from_us(500), 225, 40),
        // The paper's variant raises rates by 100 Mbit/s every 55 us, the simulator's by 200 Mbit/s every 300 us.
        "dcqcn" | "iofd" if is("variant", "simulator") => {
            (Time::from_ms(20), Time::from_ms(80), 1_000, 1_000)
        }
        "dcqcn" | "iofd" => (Time::from_ms(20), Time::from_ms(20), 1_000, 500),
        // T_low alone corresponds to a queue of 550 KB, and the second flow sends at line rate until the gradient
        // rises.
        "timely" => (Time::from_ms(20), Time::from_ms(20), 4_500, 1_400),
        "powertcp" => (Time::from_us(1_700), Time::from_us(500), 225, 40),
        "theta-powertcp" => (Time::from_us(1_700), Time::from_us(500), 225, 40),
        // The target of 25 us corresponds to a queue of 260 KB, to which the second flow adds a BDP. One packet per round trip
        // of 27 us evens windows out slowly.
        "swift" => (Time::from_ms(20), Time::from_ms(1), 450, 350),
        // The queue oscillates around K, 300 KB at 100 Gbit/s.
        "dctcp" if is("form", "window") => (Time::from_ms(30), Time::from_ms(1), 700, 400),
        "dctcp" => (Time::from_ms(4), Time::from_ms(1), 450, 400),
        // Nothing happens before the 19th notification; a step back takes 154 us, and halves of the link are 53 steps down.
        "ibcc" => (Time::from_ms(20), Time::from_ms(10), 1_200, 200),
        // Converges in one round trip. The queue does not drain, because the shares add up to the capacity of the link.
        "dasr" | "dart" => (Time::from_us(100), Time::from_us(100), 120, 120),
        // The queue settles at Qref, 300 KB; both flows send at line rate for a period before the first computation.
        "rocc" => (Time::from_ms(8), Time::from_ms(8), 1_200, 400),
        "rcp" => (Time::from_ms(1), Time::from_ms(1), 300, 50),
        "expresspass" => (Time::from_ms(2), Time::from_ms(1), 100, 50),
        // The queue oscillates around K, 150 KB at 100 Gbit/s; slow start overshoots it.
        "uncoupled" | "amp" | "xmp" | "mptcp" => (Time::from_ms(10), Time::from_ms(1), 400, 300),
        // Like DCTCP it cuts by the share of marks, less than by half, so two windows converge more slowly.
        "dcm" => (Time::from_ms(20), Time::from_ms(1), 400, 300),
        other => panic!("{other} has no expectations, see {}", file!()),
    };
    let [peak, steady] = [peak, steady].map(Bytes::from_kb);
    Expectations { fair_within, recovers_within, peak, steady }
}
