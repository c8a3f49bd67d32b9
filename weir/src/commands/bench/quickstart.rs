//! The quickstart experiment, and the speed at which it runs.

use crate::console::Failure;
use weir_experiment::Experiment;
use weir_host::schemes::Registry;

/// The experiment that is measured.
pub(super) const QUICKSTART: &str = include_str!("../../../assets/quickstart.yaml");

/// The speed of one scheme.
pub(super) struct Speed {
    pub scheme: String,
    pub packet_hops: u64,
    /// Packet-hops per second of each run, ascending.
    pub per_second: Vec<f64>,
}

impl Speed {
    pub(super) fn median(&self) -> f64 {
        self.per_second[self.per_second.len() / 2]
    }
    pub(super) fn best(&self) -> f64 {
        self.per_second[self.per_second.len() - 1]
    }
}

fn quickstart() -> Result<Experiment, Failure> {
    Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &[], None).map_err(Failure::work)
}

/// Returns the quickstart experiment with every registered scheme, so that every P4 program is measured in
/// the same fabric.
pub(super) fn every_scheme() -> Result<Experiment, Failure> {
    let names: Vec<_> = Registry::builtin().names().collect();
    let schemes = format!("schemes=[{}]", names.join(", "));
    Experiment::parse(QUICKSTART, "quickstart.yaml", "quickstart", &[schemes], None).map_err(Failure::work)
}

/// Returns the labels of the experiment's schemes.
pub(super) fn schemes() -> Result<Vec<String>, Failure> {
    Ok(quickstart()?.schemes.iter().map(|scheme| scheme.label.clone()).collect())
}

/// Runs one scheme several times.
pub(super) fn measure(scheme: &str, runs: u32) -> Result<Speed, Failure> {
    let mut experiment = quickstart()?;
    experiment.retain_schemes(&[scheme.to_owned()]).map_err(Failure::work)?;
    let mut speed = Speed { scheme: scheme.to_owned(), packet_hops: 0, per_second: Vec::new() };
    for _ in 0..runs {
        let summary = weir_sim::run(&experiment, &mut ()).map_err(Failure::work)?.summary;
        speed.packet_hops = summary.packet_hops;
        speed.per_second.push(summary.packet_hops as f64 / summary.wall_s.max(1e-9));
    }
    speed.per_second.sort_by(f64::total_cmp);
    Ok(speed)
}
