//! The ranges of parameters: at both ends a scheme is still a congestion control.

use crate::variants::all_schemes;
use weir_host::schemes::Registry;
use weir_testkit::net::{RATE, TestNetwork};
use weir_units::Time;

/// Senders into one port.
const SENDERS: usize = 3;
const DURATION: Time = Time::from_ms(1);

/// Returns what the senders send at the end, relative to the rate of all their links.
fn load_after_congestion(scheme: &str, parameter: &str, value: &str) -> f64 {
    let config = Registry::builtin().make(scheme, &[(parameter, value)]).expect("the value is in range");
    let mut net = TestNetwork::star(SENDERS + 1, &config);
    let flows: Vec<_> = (0..SENDERS).map(|sender| net.open(sender, SENDERS, None)).collect();
    net.run_until(DURATION);
    let rate = |(sender, flow)| net.flow(sender, flow).sending_rate.as_bps() as f64;
    let sum: f64 = flows.into_iter().enumerate().map(rate).sum();
    sum / (RATE.as_bps() as f64 * SENDERS as f64)
}

/// A weight of 0 for what is measured, for example, would keep the rate for ever.
#[test]
fn schemes_react_to_congestion_at_both_ends_of_each_range() {
    /// Fair shares are a third.
    const MAX_LOAD: f64 = 0.9;
    let mut failures = Vec::new();
    for scheme in all_schemes() {
        for parameter in scheme.parameters() {
            let Some((low, high)) = parameter.syntax.limits else { continue };
            for end in [low, high].into_iter().filter(|end| end.is_finite()) {
                let load = load_after_congestion(scheme.name(), parameter.info.name, &end.to_string());
                if load > MAX_LOAD {
                    failures.push(format!("{} {}={end}: {load:.2}", scheme.name(), parameter.info.name));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
