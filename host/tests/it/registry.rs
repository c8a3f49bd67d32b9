//! Runs the conformance tests with every scheme of the registry, and tests how schemes are made by name.

use crate::expectations::expectations;
use crate::variants::{all_schemes, all_variants};
use weir_host::parameter::ParameterError;
use weir_host::schemes::{Registry, SchemeError};
use weir_host::{Host, HostConfig};
use weir_testkit::conformance::{self, Expectations, SchemeRef};
use weir_testkit::net::{BASE_RTT, RATE, addr};
use weir_units::Time;

/// Defines a test for each conformance function, which runs it with all schemes.
macro_rules! for_all_schemes {
    ($($test:ident),+ $(,)?) => {
        $(
            #[test]
            fn $test() {
                all_schemes().iter().for_each(conformance::$test);
            }
        )+
    };
}

for_all_schemes!(
    starts_at_line_rate,
    survives_any_feedback,
    ignores_implausible_telemetry,
    skips_equal_timestamps,
    remembers_a_quiet_hop,
    counts_across_wraps,
    restarts_after_long_gaps,
    restarts_on_another_path,
    continues_after_a_long_pause,
);

#[test]
fn parameters_are_read_and_written() {
    all_schemes().into_iter().for_each(conformance::reads_and_writes_its_parameters);
}

/// Runs a test with every scheme and variant.
fn for_all_variants(test: fn(&SchemeRef, &Expectations)) {
    all_variants().iter().for_each(|(_, scheme)| test(scheme, &expectations(&**scheme)));
}

#[test]
fn two_flows_share_a_port() {
    for_all_variants(conformance::shares_a_port);
}

#[test]
fn repeated_feedback_is_survived() {
    for_all_variants(conformance::survives_repeated_feedback);
}

#[test]
fn few_acks_are_enough() {
    for_all_variants(conformance::needs_few_acks);
}

#[test]
fn an_incast_gets_through() {
    all_variants().iter().for_each(|(_, scheme)| conformance::completes_an_incast(scheme));
}

#[test]
fn schemes_are_made_by_name() {
    let tuned = Registry::builtin().make("fncc", &[("lhcs", "off"), ("eta", "90%")]).unwrap();
    assert_eq!(tuned.get("lhcs").as_deref(), Some("off"));
    assert_eq!(tuned.get("eta").as_deref(), Some("0.9"));
    let error = Registry::builtin().get("bbr").unwrap_err();
    let known: Vec<_> = Registry::builtin().names().collect();
    assert_eq!(error.to_string(), format!("unknown scheme \"bbr\"; known schemes: {}", known.join(", ")));
    let error = Registry::builtin().make("hpcc", &[("lhcs", "off")]).unwrap_err();
    assert!(matches!(error, SchemeError::Parameter(ParameterError::Unknown { scheme: "hpcc", .. })));
    assert!(
        error.to_string().starts_with("unknown parameter \"lhcs\" of hpcc; known parameters: eta, "),
        "{error}"
    );
    let error = Registry::builtin().make("fncc", &[("beta", "2")]).unwrap_err();
    assert_eq!(error.to_string(), "beta: 2 is out of range; expected 0.01 to 1");
}

/// If the END of a message is lost, its switch entry must not stay in use for ever.
#[test]
fn entries_of_deflected_messages_expire_by_default() {
    let schemes = Registry::builtin();
    let deflections: Vec<_> = schemes.schemes().filter_map(|scheme| scheme.needs().deflection).collect();
    assert_eq!(deflections.len(), 3, "iofd, dart and weir");
    let has_default_lifetime =
        deflections.iter().all(|deflection| deflection.lifetime == Some(Time::from_ms(100)));
    assert!(has_default_lifetime, "{deflections:?}");
    let dart = schemes.make("dart", &[("entry_lifetime", "off")]).unwrap();
    assert_eq!(dart.needs().deflection.and_then(|deflection| deflection.lifetime), None);
    // A switch that forgets a message earlier than its host would reorder it.
    let dart = schemes.make("dart", &[("entry_lifetime", "1us")]).unwrap();
    let config = HostConfig::new(addr(0), RATE, BASE_RTT, dart);
    let error = Host::new(config).unwrap_err().to_string();
    assert!(error.starts_with("dart: entry_lifetime 1us is below "), "{error}");
}
