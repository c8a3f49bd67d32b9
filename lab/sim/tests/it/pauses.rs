//! PFC pauses expire, are refreshed, and are reported if they last too long.

use weir_experiment::Experiment;
use weir_experiment::results::SchemeSummary;
use weir_sim::run;

/// Runs incasts of four hosts to a fifth one with a low PFC threshold. Returns the summary and the digest.
fn incasts(pfc: &str, more: &str) -> (SchemeSummary, String) {
    let text = format!(
        "topology: {{kind: star, hosts: 5, rate: 10Gbps, delay: 1us}}\nschemes: [dcqcn]\n\
         pfc: {{threshold: 15KB{pfc}}}\nduration: 200ms\nuntil_idle: true\nobserve: {{interval: 100us, rates: false}}\n\
         workload: {{kind: incast, to: h5, senders: 4, from: h1-h4, size: 400KB, every: 2ms, stop: 10ms}}\n{more}\n"
    );
    let experiment = Experiment::parse(&text, "test", "test", &[], None).unwrap_or_else(|e| panic!("{e}"));
    let results = run(&experiment, &mut ()).unwrap();
    (results.summary.schemes["dcqcn"].clone(), results.summary.digest)
}

/// While no PFC frame is lost, the length of a pause changes nothing: it is refreshed in time, or resumed before.
#[test]
fn refreshed_pauses_leave_a_run_as_it_is() {
    let (longest, digest) = incasts("", "");
    assert!(longest.pauses > 20 && longest.fct.unfinished == 0, "{} pauses", longest.pauses);
    for quanta in [64, 500] {
        let (summary, with_quanta) = incasts(&format!(", quanta: {quanta}"), "");
        assert_eq!((summary.pauses, with_quanta), (longest.pauses, digest.clone()), "{quanta}");
    }
}

/// A lost resume frame delays its port by the length of a pause, not for ever, and the watchdog names the port.
#[test]
fn a_lost_resume_frame_stops_no_port_for_ever() {
    let loss = "faults: [{kind: loss, rate: 3%, from: 0us, to: 10ms}]";
    // 65,535 units of 512 bits at 10 Gbit/s are 3.4 ms.
    let (summary, digest) = incasts(", watchdog: 3300us", loss);
    assert_eq!((summary.fct.unfinished, summary.deadlock.as_ref()), (0, None));
    let long = summary.long_pauses.first().expect("a resume frame was lost");
    let host = long.port.strip_prefix('h').unwrap_or_else(|| panic!("{long}"));
    assert_eq!((long.by.clone(), long.class), (format!("s1:{host}"), 0));
    assert!((3_300.0..3_360.0).contains(&long.longest_us) && long.since_us < 10_000.0, "{long:?}");
    let text = long.to_string();
    assert!(
        text.starts_with(&format!("{} was paused by {} for 3.355ms from ", long.port, long.by)),
        "{text}"
    );
    assert_eq!(incasts(", watchdog: 3300us", loss).1, digest, "the same losses again");
    // Shorter pauses end sooner.
    let (summary, _) = incasts(", quanta: 500, watchdog: 1ms", loss);
    assert_eq!((summary.fct.unfinished, summary.long_pauses), (0, Vec::new()));
    // Without losses no pause is that long.
    assert_eq!(incasts(", watchdog: 3300us", "").0.long_pauses, []);
}
