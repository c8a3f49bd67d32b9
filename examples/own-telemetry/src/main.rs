//! `weir` with a scheme that reads the telemetry records of `own_telemetry.p4`.

mod wait;

use std::process::ExitCode;
use wait::Wait;

fn main() -> ExitCode {
    weir::Cli::new().scheme::<Wait>().run()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use weir_host::schemes::Registry;
    use weir_experiment::Experiment;
    use weir_experiment::Catalogue;
    use weir_sim::run;

    fn experiment(overrides: &[&str]) -> Result<Experiment, String> {
        let catalogue = Catalogue { schemes: Registry::builtin().with::<Wait>(), ..Catalogue::builtin() };
        let overrides: Vec<String> = overrides.iter().map(|text| (*text).to_owned()).collect();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("waits.yaml");
        Experiment::load_with(&catalogue, &path, &overrides, None).map_err(|e| e.to_string())
    }

    #[test]
    fn two_flows_wait_for_the_target_and_share_the_link() {
        let results = run(&experiment(&[]).unwrap(), &mut ()).unwrap();
        let (of, port) = (&results.summary.schemes["wait"], "s3:1");
        assert!(of.utilisation[port] > 0.9 && of.jain.is_some_and(|jain| jain > 0.9), "{of:?}");
    }

    #[test]
    fn the_scheme_names_the_field_that_a_program_lacks() {
        let message = experiment(&["program=hpcc"]).err().unwrap();
        assert!(message.contains("wait requires the field \"wait\" in custom telemetry records"), "{message}");
    }

    #[test]
    fn schemes_that_read_the_papers_records_do_not_take_others() {
        let message = experiment(&["schemes=[hpcc]"]).err().unwrap();
        assert!(message.contains("hpcc requires Weir's telemetry records"), "{message}");
    }
}
