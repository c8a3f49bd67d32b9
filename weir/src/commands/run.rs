//! `weir run`

use super::progress::{self, Watch};
use crate::console::{Console, Failure};
use crate::report::{self, PaperValue, Run, RunDir, Tables, format, metrics, table};
use std::io::Write;
use std::path::{Path, PathBuf};
use weir_sim::RunError;
use weir_sim::experiment::{CsvFile, Experiment};
use weir_sim::results::Results;

/// Everything about experiment files.
const FILES: &str = include_str!("run.txt");

/// Run an experiment and write a report
///
/// Runs every scheme of the experiment by itself on the same fabric, with the same flows and the
/// same seed, in virtual time. Prints a table and leaves a directory with the report.
#[derive(Debug, clap::Args)]
#[command(after_help = "`weir run --help` explains experiment files.", after_long_help = FILES)]
pub struct Args {
    /// Experiment files (YAML), run one after the other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Replace a key: dots go down, numbers count list entries from 0
    ///
    /// The value is read as YAML, so `--set schemes=[fncc]` and `--set flows.1.start=200us` work.
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,

    /// Seed of every random stream, instead of the file's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Run only these of the file's schemes, by label
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    schemes: Vec<String>,

    /// Where to write, instead of runs/<name>-<seed>; an earlier run there is replaced
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Read and check the files, run nothing
    #[arg(long)]
    check: bool,

    /// Print nothing but the path of the report
    #[arg(long, short)]
    quiet: bool,
}

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    // All files first: a mistake in the last one should not cost the runs before it.
    let experiments = args.files.iter().map(|file| load(file, args)).collect::<Result<Vec<_>, _>>()?;
    if args.out.is_some() && experiments.len() > 1 {
        return Err(Failure::input(
            "--out names one directory, and there are several experiments: run them one by one",
        ));
    }
    if args.check {
        for (file, experiment) in args.files.iter().zip(&experiments) {
            let (schemes, flows) = (experiment.schemes.len(), experiment.flows.len());
            writeln!(console.out, "{}: ok, {schemes} schemes, {flows} flows", file.display())?;
        }
        return Ok(());
    }
    progress::catch_ctrl_c()?;
    for experiment in &experiments {
        run_one(experiment, args, console)?;
    }
    Ok(())
}

fn load(file: &Path, args: &Args) -> Result<Experiment, Failure> {
    let mut experiment = Experiment::load(file, &args.set, args.seed).map_err(Failure::input)?;
    if !args.schemes.is_empty() {
        experiment.retain_schemes(&args.schemes).map_err(Failure::input)?;
    }
    Ok(experiment)
}

fn run_one(experiment: &Experiment, args: &Args, console: &mut Console) -> Result<(), Failure> {
    let place = match &args.out {
        Some(dir) => RunDir::at(dir).map_err(Failure::input)?,
        None => RunDir::numbered(&experiment.spec.name, experiment.spec.seed),
    };
    let mut watch = Watch::new(console.watched && !args.quiet);
    let results = weir_sim::run(experiment, &mut watch).map_err(blame)?;
    drop(watch);
    let described = describe(experiment);
    let dir = place.write(|dir| report::write(dir, &described, &results)).map_err(Failure::work)?;
    let page = dir.join("report.html");
    if args.quiet {
        writeln!(console.out, "{}", page.display())?;
    } else {
        print(&results, &described, &page, console)?;
    }
    match results.summary.partial {
        true => Err(Failure::Interrupted(format!("{} has what was simulated until then", dir.display()))),
        false => Ok(()),
    }
}

/// Routes, tables and hosts follow from the experiment; programs and switches are ours.
fn blame(error: RunError) -> Failure {
    match error {
        RunError::Routes(_) | RunError::Plan(_) | RunError::Host { .. } | RunError::TooLarge(_) => {
            Failure::input(error)
        }
        RunError::Artifact(_) | RunError::Switch { .. } => Failure::work(error),
    }
}

fn print(results: &Results, described: &Run, page: &Path, console: &mut Console) -> Result<(), Failure> {
    let summary = &results.summary;
    let out = &mut console.out;
    writeln!(out, "{}", described.about.as_ref().unwrap_or(&described.name))?;
    writeln!(out, "{}", table::table(results, console.styled))?;
    if let Some(port) = metrics::bottleneck(summary) {
        let port = metrics::port_name(results, port);
        writeln!(out, "Queue and utilisation at {port}, the port with the longest queue.")?;
    }
    writeln!(
        out,
        "{} ms simulated in {} s: {} packet-hops, {} a second.",
        format::significant_short(summary.virtual_s * 1e3),
        format::significant(summary.wall_s),
        format::count(summary.packet_hops),
        format::count((summary.packet_hops as f64 / summary.wall_s.max(1e-9)) as u64),
    )?;
    writeln!(out, "Digest {}", summary.digest)?;
    writeln!(out, "Report {}", page.display())?;
    Ok(())
}

/// What the report says about an experiment besides its results.
fn describe(experiment: &Experiment) -> Run {
    let spec = &experiment.spec;
    let asked = |file: CsvFile| spec.observe.csv.contains(&file);
    let flows = match experiment.flows.len() {
        1 => "1 flow".to_owned(),
        n => format!("{n} flows"),
    };
    let pfc = match spec.pfc.on() {
        None => "off".to_owned(),
        Some(pfc) => {
            pfc.threshold.map_or("dynamic threshold".to_owned(), |threshold| format!("at {threshold}"))
        }
    };
    let facts = [
        ("topology", topology(experiment)),
        ("traffic", flows),
        ("duration", spec.duration.to_string()),
        ("MTU", format!("{} B", spec.mtu.get())),
        ("PFC", pfc),
    ];
    Run {
        name: spec.name.clone(),
        about: (!spec.title.is_empty()).then(|| spec.title.clone()),
        facts: facts.map(|(what, value)| (what.to_owned(), value)).into(),
        yaml: experiment.resolved_yaml(),
        tables: Tables {
            flows: asked(CsvFile::Flows),
            queues: asked(CsvFile::Queues),
            rates: asked(CsvFile::Rates),
            pauses: asked(CsvFile::Pauses),
        },
        paper: spec
            .paper
            .iter()
            .map(|note| PaperValue {
                what: note.what.clone(),
                value: note.value.clone(),
                source: note.source.clone(),
                ours: note.ours.clone(),
            })
            .collect(),
    }
}

/// `3 switches, 3 hosts, links of 100Gbps and 1.5us`.
fn topology(experiment: &Experiment) -> String {
    let topology = &experiment.topology;
    let rate = range(topology.links.iter().map(|link| link.rate));
    let delay = range(topology.links.iter().map(|link| link.delay));
    let (switches, hosts) = (topology.switches.len(), topology.hosts.len());
    format!("{switches} switches, {hosts} hosts, links of {rate} and {delay}")
}

/// The value that all have, or the least and the most.
fn range<T: Copy + Ord + std::fmt::Display>(values: impl Iterator<Item = T> + Clone) -> String {
    match (values.clone().min(), values.max()) {
        (Some(least), Some(most)) if least == most => least.to_string(),
        (Some(least), Some(most)) => format!("{least} to {most}"),
        _ => "none".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Experiment, String> {
        Experiment::parse(text, "help.yaml", "help", &[], None).map_err(|error| error.to_string())
    }

    /// The experiment in the help, as a file.
    fn example() -> String {
        let (_, rest) = FILES.split_once("A complete experiment file:\n\n").unwrap();
        let (example, _) = rest.split_once("\n\n").unwrap();
        example.lines().map(|line| format!("{}\n", &line[2..])).collect()
    }

    #[test]
    fn the_example_in_the_help_is_an_experiment() {
        let experiment = parse(&example()).unwrap();
        assert_eq!((experiment.schemes.len(), experiment.flows.len()), (3, 2));
    }

    /// What serde would take where it found `bogus`, from its message.
    fn expected_keys(yaml: &str) -> Vec<String> {
        let message = parse(yaml).err().expect("bogus is no key");
        let (_, list) = message.split_once("expected ").unwrap_or_else(|| panic!("{message}"));
        list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn the_help_names_every_key() {
        let example = example();
        let topology = |kind: &str| format!("topology: {{kind: {kind}, bogus: 1}}\n");
        let mut keys = expected_keys(&format!("{example}\nbogus: 1\n"));
        assert!(keys.contains(&"duration".to_owned()), "{keys:?}");
        for block in ["pfc", "ecn", "transport"] {
            keys.extend(expected_keys(&format!("{example}\n{block}: {{bogus: 1}}\n")));
        }
        keys.extend(expected_keys(&example.replace("observe: {", "observe: {bogus: 1, ")));
        keys.extend(expected_keys(&example.replace("{from: h1,", "{bogus: 1, from: h1,")));
        for kind in ["dumbbell", "star", "leaf-spine", "fat-tree", "custom"] {
            keys.extend(expected_keys(&topology(kind)));
        }
        for key in keys {
            assert!(FILES.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == key), "{key}");
        }
    }

    #[test]
    fn the_help_fits_a_narrow_terminal() {
        assert_eq!(FILES.lines().find(|line| line.chars().count() > 79), None);
    }
}
