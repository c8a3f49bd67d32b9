//! The schemes and variants that the tests run with.

use std::sync::Arc;
use weir_host::port_algorithm::PortAlgorithm;
use weir_host::scheme::SchemeConfig;
use weir_host::schemes::Registry;
use weir_testkit::net::BASE_RTT;

/// Every scheme with its defaults.
pub(crate) fn all_schemes() -> Vec<Arc<dyn SchemeConfig>> {
    Registry::builtin().schemes().map(Arc::from).collect()
}

/// Every scheme with its defaults, and with every parameter value that selects another mechanism.
pub(crate) fn all_variants() -> Vec<(String, Arc<dyn SchemeConfig>)> {
    let tuned = [
        ("hpcc++", ("telemetry", "rtt")),
        ("hpcc++", ("telemetry", "congestion")),
        ("hpcc++", ("telemetry", "probe")),
        ("hpcc++", ("compute", "receiver")),
        ("hpcc++", ("queue", "sojourn")),
        ("hpcc++", ("queue", "weighted")),
        ("hpcc", ("window", "off")),
        ("fncc", ("window", "off")),
        ("dcqcn", ("variant", "simulator")),
        ("powertcp", ("variant", "simulator")),
        ("theta-powertcp", ("variant", "simulator")),
        ("rocc", ("feedback", "ack")),
        ("rcp", ("start", "request")),
        ("amp", ("subflows", "1")),
    ];
    let tuned = tuned.map(|(name, parameter)| {
        (format!("{name} {}={}", parameter.0, parameter.1), scheme(name, &[parameter]))
    });
    all_schemes().into_iter().map(|s| (s.name().to_owned(), s)).chain(tuned).collect()
}

/// Returns whether a sender waits for the receiver's credits.
pub(crate) fn is_credited(scheme: &Arc<dyn SchemeConfig>) -> bool {
    matches!(scheme.port_algorithm(BASE_RTT), Some(PortAlgorithm::Credits(_)))
}

/// Returns a scheme with these parameters.
pub(crate) fn scheme(name: &str, parameters: &[(&str, &str)]) -> Arc<dyn SchemeConfig> {
    Registry::builtin().make(name, parameters).expect("the scheme and its parameters exist")
}
