//! The ranges of parameters: at both ends a scheme is still a congestion control.

use crate::variants::{all_schemes, is_credited};
use weir_host::schemes::Registry;
use weir_testkit::net::{RATE, TestNetwork};
use weir_units::Time;

/// Senders into one port.
const SENDERS: usize = 8;
const DURATION: Time = Time::from_ms(5);
const INTERVAL: Time = Time::from_us(50);

/// Returns whether senders that start at line rate into one port ever send less.
fn reacts(scheme: &str, parameter: &str, value: &str) -> bool {
    /// All links of the senders in use, but for rounding.
    const FULL: f64 = 0.99;
    let config = Registry::builtin().make(scheme, &[(parameter, value)]).expect("the value is in range");
    let mut net = TestNetwork::star(SENDERS + 1, &config);
    let flows: Vec<_> = (0..SENDERS).map(|sender| net.open(sender, SENDERS, None)).collect();
    let is_full = |net: &TestNetwork| {
        let rates =
            flows.iter().enumerate().map(|(sender, flow)| net.flow(sender, *flow).sending_rate.as_bps());
        rates.sum::<u64>() as f64 > FULL * RATE.as_bps() as f64 * SENDERS as f64
    };
    while net.now < DURATION && is_full(&net) {
        net.run_until(net.now + INTERVAL);
    }
    !is_full(&net)
}

/// A weight of 0 for what is measured, for example, would keep the rate for ever. Credits limit a flow whatever its rate is;
/// the ranges of InfiniBand's parameters are the specification's, where a threshold of 0 turns marks off.
#[test]
fn schemes_react_to_congestion_at_both_ends_of_each_range() {
    let mut failures = Vec::new();
    for scheme in all_schemes().iter().filter(|scheme| !is_credited(scheme) && scheme.name() != "ibcc") {
        for parameter in scheme.parameters() {
            let Some((low, high)) = parameter.syntax.limits else { continue };
            for end in [low, high].into_iter().filter(|end| end.is_finite()) {
                if !reacts(scheme.name(), parameter.info.name, &end.to_string()) {
                    failures.push(format!("{} {}={end}", scheme.name(), parameter.info.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
