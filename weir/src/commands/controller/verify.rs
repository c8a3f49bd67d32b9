//! `weir controller verify`: proves properties of the routes.

use super::fabric::{Fabric, FabricArgs, ProgramArgs};
use super::switches::{Protocol, SwitchArgs, block_on, check_outcomes};
use crate::console::{Console, Failure};
use crate::output::ActionOutput;
use serde_json::{Map, Value, json};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use weir_client::fleet::{self, SwitchTask};
use weir_controller::plan::decode;
use weir_controller::reconcile::DesiredState;
use weir_controller::routes::{Routes, RoutingMethod};
use weir_controller::{verify, verify_channels, verify_flood};

/// Prove that data and ACKs take the same path, without loops or loss
///
/// Covers every pair of hosts and all 2^32 values of the path hash, without sampling. Also proves that
/// packets held back by PFC, including deflected ones, cannot wait for each other in a cycle, and that POLICY
/// packets are flooded to every host exactly once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 proved; 1 verification failed (violations are listed), or an experiment's PFC can deadlock; 2 invalid input."
)]
pub(super) struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Verify the routes that the switches hold; requires --program
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,
    #[command(flatten)]
    output: ActionOutput,
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    console.style(args.output);
    let start = Instant::now();
    let mut fabric = args.fabric.load(&console.extensions.catalogue.topologies)?;
    if args.live {
        fabric.routes = read_routes(args, &fabric)?;
    }
    let mut proofs = Map::new();
    let mut outcome = Ok(());
    // Stops at the first proof that fails.
    for prove in [prove_paths, prove_no_deadlock, prove_flooding] {
        let proof = prove(&fabric, start);
        proofs.insert(proof.name.to_owned(), proof.result);
        let is_shown = !console.style.json && (!console.style.quiet || proof.failure.is_some());
        if is_shown {
            for line in proof.lines {
                writeln!(console.out, "{line}")?;
            }
        }
        outcome = proof.failure.map_or(Ok(()), |reason| Err(Failure::Work(reason)));
        if outcome.is_err() {
            break;
        }
    }
    if console.style.json {
        proofs.insert("proved".to_owned(), outcome.is_ok().into());
        console.print_json(&proofs)?;
    }
    outcome
}

/// The result of a verification.
struct Proof {
    /// Key in the JSON output.
    name: &'static str,
    /// Value in the JSON output.
    result: Value,
    /// Lines of the text output.
    lines: Vec<String>,
    /// `None` if the property was proved.
    failure: Option<String>,
}

fn to_strings<T: std::fmt::Display>(values: &[T]) -> Vec<String> {
    values.iter().map(T::to_string).collect()
}

/// Proves that data and ACKs take the same path, and that no packet loops or is lost. `start` is the start of the
/// command.
fn prove_paths(fabric: &Fabric, start: Instant) -> Proof {
    let name = "paths";
    let (hosts, switches) = (fabric.topology.hosts.len(), fabric.topology.switches.len());
    let method = match fabric.routes.method {
        RoutingMethod::Trees => "spanning trees",
        RoutingMethod::UpDown => "up*/down* paths",
        _ => "symmetric ECMP",
    };
    match verify(&fabric.topology, &fabric.routes) {
        Ok(proof) => {
            let seconds = start.elapsed().as_secs_f64();
            let result = json!({
                "hosts": hosts, "switches": switches, "method": method, "pairs": proof.pairs, "widest": proof.max_paths_per_pair,
                "longest": proof.max_path_len, "paths": proof.paths, "seconds": seconds, "violations": [],
            });
            let lines = vec![
                format!("{hosts} hosts, {switches} switches, {method}"),
                format!(
                    "proved: {} ordered pairs of hosts, every path hash: data and ACK take the same path, no loop, no loss",
                    proof.pairs
                ),
                format!(
                    "at most {} paths between a pair, at most {} switches on a path; {} paths walked in {seconds:.2} s",
                    proof.max_paths_per_pair, proof.max_path_len, proof.paths
                ),
            ];
            Proof { name, result, lines, failure: None }
        }
        Err(violations) => {
            let lines = to_strings(&violations);
            let failure = Some(format!("verification failed: {} violations", violations.len()));
            Proof { name, result: json!({"violations": lines}), lines, failure }
        }
    }
}

/// Proves that PFC cannot deadlock. A cycle is a failure only if the file configures PFC.
fn prove_no_deadlock(fabric: &Fabric, _: Instant) -> Proof {
    let name = "deadlock";
    let deflection = fabric.options.deflection.as_ref();
    match verify_channels(&fabric.topology, &fabric.routes, deflection) {
        Ok(proof) => {
            let deflected = match deflection.map_or(0, |deflection| deflection.tokens) {
                0 => String::new(),
                1 => ", with one deflection of a packet".to_owned(),
                tokens => format!(", with up to {tokens} deflections of a packet"),
            };
            let line = format!(
                "proved: no deadlock by PFC{deflected}: {} channels, {} dependencies, no cycle",
                proof.channels, proof.dependencies
            );
            let result =
                json!({"channels": proof.channels, "dependencies": proof.dependencies, "cycle": null});
            Proof { name, result, lines: vec![line], failure: None }
        }
        Err(cycle) => {
            let result = json!({"lossless": fabric.has_pfc, "cycle": cycle.to_string()});
            let failure = "PFC can deadlock: the ports above wait for each other".to_owned();
            let (line, failure) = match fabric.has_pfc {
                true => (cycle.to_string(), Some(failure)),
                false => (format!("do not enable PFC, which could deadlock: {cycle}"), None),
            };
            Proof { name, result, lines: vec![line], failure }
        }
    }
}

/// Proves that POLICY packets reach every host exactly once.
fn prove_flooding(fabric: &Fabric, _: Instant) -> Proof {
    let name = "flooding";
    match verify_flood(&fabric.topology, &fabric.routes) {
        Ok(proof) => {
            let line = format!(
                "proved: POLICY packets of each host reach all others once, by a tree of {} links between switches",
                proof.links
            );
            Proof {
                name,
                result: json!({"links": proof.links, "faults": []}),
                lines: vec![line],
                failure: None,
            }
        }
        Err(faults) => {
            let lines = to_strings(&faults);
            let failure = Some(format!("flooding of POLICY packets: {} faults", faults.len()));
            Proof { name, result: json!({"faults": lines}), lines, failure }
        }
    }
}

/// Reads the routes from the switches.
fn read_routes(args: &Args, fabric: &Fabric) -> Result<Routes, Failure> {
    let program = args.program.load()?;
    let options = args.program.options(fabric, &program)?;
    let targets =
        args.switches.targets(&fabric.topology, fabric.imported(), Protocol::for_program(&program))?;
    let task =
        |target| SwitchTask { target, program: Arc::clone(&program), desired: DesiredState::default() };
    let outcomes = block_on(fleet::read(targets.into_iter().map(task).collect(), args.switches.options()?))?;
    check_outcomes(&outcomes)?;
    let entries = outcomes.into_iter().filter_map(|(name, result)| Some((name, result.ok()?))).collect();
    let live = decode(&fabric.topology, &entries, &program.index, options.target.target());
    let live = live.map_err(Failure::work)?;
    // Tables do not tell how routes were computed, but the plan does if they have its routes.
    let is_as_planned = live.switches == fabric.routes.switches;
    Ok(Routes { method: if is_as_planned { fabric.routes.method } else { live.method }, ..live })
}
