//! `weir` with one more kind of workload, one more kind of topology, and one more section in every report.

mod finished;
mod ring;
mod shift;

use ring::Ring;
use shift::Shift;
use std::process::ExitCode;
use weir::Cli;

fn cli() -> Cli {
    Cli::new().workload::<Shift>().topology::<Ring>().chart(finished::section)
}

fn main() -> ExitCode {
    cli().run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_experiment::Experiment;
    use weir_experiment::topologies::Topologies;
    use weir_experiment::workload::Workloads;
    use weir_experiment::Catalogue;
    use weir_sim::run;

    fn experiment(overrides: &[&str]) -> Result<Experiment, String> {
        let catalogue = Catalogue {
            workloads: Workloads::builtin().with::<Shift>(),
            topologies: Topologies::default().with::<Ring>(),
            ..Catalogue::builtin()
        };
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let text = include_str!("../ring.yaml");
        Experiment::parse_with(&catalogue, text, "ring.yaml", "ring", &overrides, None)
            .map_err(|e| e.to_string())
    }

    #[test]
    fn every_host_sends_two_places_further_on() {
        let experiment = experiment(&["duration=100us"]).unwrap();
        assert_eq!((experiment.topology.switches.len(), experiment.topology.hosts.len()), (4, 8));
        let results = run(&experiment, &mut ()).unwrap();
        let flows = &results.traces["dctcp"].flows;
        assert!(flows.len() > 8 && flows.iter().any(|flow| flow.fct.is_some()), "{} flows", flows.len());
        assert!(flows.iter().any(|flow| flow.name() == "h8->h2"));
        assert_eq!(finished::section(&results).unwrap().figures.len(), 1);
    }

    #[test]
    fn wrong_keys_are_reported_with_their_place() {
        let message = |overrides: &[&str]| experiment(overrides).err().unwrap();
        assert!(message(&["workload.by=8"]).contains("workload.by: "), "{}", message(&["workload.by=8"]));
        assert!(message(&["workload.sise=8KB"]).contains("sise"));
        assert!(message(&["topology.switches=2"]).contains("topology.switches: a ring has three or more"));
    }
}
