//! `weir controller verify`

use super::block_on;
use super::fabric::{Fabric, FabricArgs, ProgramArgs};
use super::switches::{SwitchArgs, failure};
use crate::console::{Console, Failure};
use std::io::Write;
use std::sync::Arc;
use std::time::Instant;
use weir_client::fleet::{self, Task};
use weir_controller::plan::decode;
use weir_controller::reconcile::Goal;
use weir_controller::routes::{Method, Routes};
use weir_controller::{verify, verify_channels, verify_flood};

/// Prove that data and ACK take the same path, that nothing loops and nothing is lost
///
/// For every pair of hosts and all 2^32 values of the path hash; nothing is sampled. That packets which PFC holds back, deflected
/// ones too, never wait for each other in a cycle. And that POLICY packets are flooded to every host once.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status: 0 proved; 1 the routes are wrong or an experiment's PFC can deadlock, with the cases; 2 the input is wrong."
)]
pub struct Args {
    #[command(flatten)]
    fabric: FabricArgs,
    /// Read the routes from the switches; needs --program
    #[arg(long)]
    live: bool,
    #[command(flatten)]
    program: ProgramArgs,
    #[command(flatten)]
    switches: SwitchArgs,
}

/// Does it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let start = Instant::now();
    let mut fabric = args.fabric.load(&console.kit.catalogue.topologies)?;
    if args.live {
        fabric.routes = held(args, &fabric)?;
    }
    match verify(&fabric.topology, &fabric.routes) {
        Ok(proof) => {
            let (hosts, switches) = (fabric.topology.hosts.len(), fabric.topology.switches.len());
            let method = match fabric.routes.method {
                Method::Trees => "spanning trees",
                _ => "symmetric ECMP",
            };
            writeln!(console.out, "{hosts} hosts, {switches} switches, {method}")?;
            writeln!(
                console.out,
                "proved: {} ordered pairs of hosts, every path hash: data and ACK take the same path, no loop, no loss",
                proof.pairs
            )?;
            writeln!(
                console.out,
                "at most {} paths between a pair, at most {} switches on a path; {} paths walked in {:.2} s",
                proof.widest,
                proof.longest,
                proof.paths,
                start.elapsed().as_secs_f64()
            )?;
        }
        Err(violations) => {
            for violation in &violations {
                writeln!(console.out, "{violation}")?;
            }
            return Err(Failure::Work(format!(
                "the routes are wrong, {} cases are listed",
                violations.len()
            )));
        }
    }
    channels(&fabric, console)?;
    match verify_flood(&fabric.topology, &fabric.routes) {
        Ok(proof) => {
            writeln!(
                console.out,
                "proved: POLICY packets of each host reach all others once, by a tree of {} links between switches",
                proof.links
            )?;
            Ok(())
        }
        Err(faults) => {
            for fault in &faults {
                writeln!(console.out, "{fault}")?;
            }
            Err(Failure::Work(format!(
                "POLICY packets are flooded wrongly, {} cases are listed",
                faults.len()
            )))
        }
    }
}

/// Whether packets can wait for each other in a cycle. Where the file says nothing of PFC that is no failure.
fn channels(fabric: &Fabric, console: &mut Console) -> Result<(), Failure> {
    let deflection = fabric.options.deflection.as_ref();
    match verify_channels(&fabric.topology, &fabric.routes, deflection) {
        Ok(proof) => {
            let deflected = match deflection.map_or(0, |it| it.tokens) {
                0 => String::new(),
                1 => ", with one deflection of a packet".to_owned(),
                tokens => format!(", with up to {tokens} deflections of a packet"),
            };
            writeln!(
                console.out,
                "proved: no deadlock by PFC{deflected}: {} channels, {} dependencies, no cycle",
                proof.channels, proof.dependencies
            )?;
            Ok(())
        }
        Err(cycle) if fabric.lossless => {
            writeln!(console.out, "{cycle}")?;
            Err(Failure::Work("PFC can deadlock: the ports above wait for each other".to_owned()))
        }
        Err(cycle) => {
            writeln!(console.out, "not for PFC, which could deadlock: {cycle}")?;
            Ok(())
        }
    }
}

/// The routes that the switches hold.
fn held(args: &Args, fabric: &Fabric) -> Result<Routes, Failure> {
    let program = args.program.load()?;
    let targets = args.switches.targets(fabric)?;
    let task = |target| Task { target, program: Arc::clone(&program), goal: Goal::default() };
    let outcomes = block_on(fleet::read(targets.into_iter().map(task).collect(), args.switches.options()))?;
    failure(&outcomes)?;
    let held = outcomes.into_iter().filter_map(|(name, held)| Some((name, held.ok()?))).collect();
    decode(&fabric.topology, &held, &program.index).map_err(Failure::work)
}
