//! A scale model behaves like its original.

use weir_controller::topology::HostIx;
use weir_experiment::Experiment;
use weir_experiment::results::SchemeSummary;
use weir_units::{Bandwidth, Time};

const QUICKSTART: &str = include_str!("../../../../experiments/quickstart.yaml");

fn parse(overrides: &[&str]) -> Experiment {
    let overrides: Vec<String> = overrides.iter().map(|s| (*s).to_owned()).collect();
    Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &overrides, None).unwrap()
}

fn run(experiment: &Experiment, scheme: &str) -> SchemeSummary {
    weir_sim::run(experiment, &mut ()).unwrap().summary.schemes.remove(scheme).unwrap()
}

#[test]
fn a_model_scales_rates_and_times_but_not_sizes() {
    let file = parse(&["schemes=[{scheme: hpcc, set: {base_rtt: 13us, min_rate: 100Mbps, w_ai: 80B}}]"]);
    let model = file.at_rate(Bandwidth::from_mbps(10)).unwrap();
    assert_eq!(model.scale.to_string(), "100Gbps runs at 10Mbps, 10000 times slower");
    assert_eq!(model.spec.duration, Time::from_secs(10));
    assert_eq!((model.flows[1].start, model.spec.observe.interval), (Time::from_secs(3), Time::from_ms(10)));
    assert!(model.topology.links.iter().all(|l| l.rate == Bandwidth::from_mbps(10)));
    assert!(model.topology.links.iter().all(|l| l.delay == Time::from_ms(15)));
    let parameter = |name| model.schemes[0].config.get(name).unwrap();
    assert_eq!(
        (parameter("base_rtt"), parameter("min_rate"), parameter("w_ai")),
        ("130ms".into(), "10Kbps".into(), "80B".into())
    );
    assert_eq!((model.spec.mtu, &model.flows[0].name), (file.spec.mtu, &file.flows[0].name));
    // The resolved form is the original file plus the rate at which to run it.
    let again = Experiment::parse(&model.resolved_yaml(), "run.yaml", "x", &[], None).unwrap();
    assert_eq!(again.resolved_yaml(), model.resolved_yaml());
    assert_eq!((again.scale, &again.flows), (model.scale, &model.flows));
    assert!(again.at_rate(Bandwidth::from_gbps(100)).unwrap().scale.is_identity(), "and back");
}

/// The model has the same flows at later times, and timers of the scheme are longer by the same factor.
#[test]
fn a_workload_is_scaled_with_its_own_scheme() {
    let own = "{scheme: hpcc, set: {base_rtt: 13us}}";
    let poisson = format!("workloads=[{{kind: poisson, sizes: 10KB, every: 10us, scheme: {own}}}]");
    let file = parse(&["flows=[]", "schemes=[hpcc]", &poisson]);
    let model = file.at_rate(Bandwidth::from_gbps(10)).unwrap();
    let (flows, slowed) = (file.all_flows().unwrap(), model.all_flows().unwrap());
    assert!(flows.len() > 100 && flows.len() == slowed.len(), "{} {}", flows.len(), slowed.len());
    for (flow, slow) in flows.iter().zip(&slowed) {
        assert_eq!((flow.from, flow.to, flow.size), (slow.from, slow.to, slow.size));
        assert!((slow.start.as_secs_f64() / flow.start.as_secs_f64() - 10.0).abs() < 0.01);
    }
    let base_rtt = |experiment: &Experiment| {
        experiment.scheme_of(HostIx(0), &experiment.schemes[0]).get("base_rtt").unwrap()
    };
    assert_eq!((base_rtt(&file), base_rtt(&model)), ("13us".into(), "130us".into()));
}

#[test]
fn invalid_rates_are_rejected() {
    let rejected = |file: &Experiment, rate: Bandwidth| file.at_rate(rate).err().unwrap().to_string();
    let file = parse(&["topology.fabric_rate=400Gbps"]);
    assert!(rejected(&file, Bandwidth::from_mbps(10)).contains("40Mbps has no telemetry code"));
    assert!(rejected(&file, Bandwidth::from_gbps(200)).starts_with("--rate 200Gbps: must be above 0"));
    assert!(rejected(&file, Bandwidth::ZERO).contains("must be above 0"));
    assert!(file.at_rate(Bandwidth::from_mbps(5)).is_ok(), "20Mbps has a code");
}

#[test]
fn a_model_has_the_queues_of_the_original() {
    let file = parse(&[]);
    let model = file.at_rate(Bandwidth::from_mbps(10)).unwrap();
    for scheme in ["fncc", "hpcc"] {
        let (full, slow) = (run(&file, scheme), run(&model, scheme));
        let peak = |s: &SchemeSummary| s.queues["s1:3"].peak_bytes as f64;
        assert!((peak(&slow) / peak(&full) - 1.0).abs() < 0.15, "{scheme}: {} {}", peak(&slow), peak(&full));
        let used = |s: &SchemeSummary| s.utilisation["s1:3"];
        assert!((used(&slow) - used(&full)).abs() < 0.03, "{scheme}: {} {}", used(&slow), used(&full));
        let slowdown = |s: &SchemeSummary| s.first_slowdown_us.unwrap();
        assert!(
            (slowdown(&slow) / 1e4 - slowdown(&full)).abs() < 3.0,
            "{scheme}: {} {}",
            slowdown(&slow),
            slowdown(&full)
        );
    }
}

/// All timers of all schemes are scaled, whatever word a default is: no quantity of the model depends on the rate. Telemetry
/// is rounded differently, which changes the peak of hpcc++ by 6 % at 10 Mbit/s, and by up to 9 % the short mean queues of
/// PowerTCP, which multiplies two rounded quantities; ExpressPass draws the jitter of its credits
/// from the time.
#[test]
fn every_scheme_has_the_queues_of_the_original() {
    let packet = 1518.0;
    let mut differences = Vec::new();
    for scheme in weir_host::schemes::Registry::builtin().names() {
        let file = parse(&[&format!("schemes=['{scheme}']")]);
        let full = run(&file, scheme);
        for (rate, tolerance) in [(Bandwidth::from_gbps(10), 0.03), (Bandwidth::from_mbps(10), 0.07)] {
            let model = run(&file.at_rate(rate).unwrap(), scheme);
            let tolerance = if scheme.ends_with("powertcp") || scheme == "ibcc" { 0.09 } else { tolerance };
            let (a, b) = (&full.queues["s1:3"], &model.queues["s1:3"]);
            let rows = [
                ("peak", a.peak_bytes as f64, b.peak_bytes as f64, 4.0 * packet),
                ("mean", a.mean_bytes, b.mean_bytes, 0.2 * packet),
                ("marks", full.marks as f64, model.marks as f64, 5.0),
            ];
            for (what, full, model, rounding) in rows {
                if (model - full).abs() > (tolerance * full).max(rounding) {
                    differences.push(format!("{scheme} at {rate}: {what} {model:.0} instead of {full:.0}"));
                }
            }
        }
    }
    assert!(differences.is_empty(), "{differences:#?}");
}
