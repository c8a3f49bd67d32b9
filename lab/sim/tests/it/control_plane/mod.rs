//! Controllers and the control planes of switches in virtual time, under faults of the channels between them.
//!
//! All decisions are made by production code: the watcher of `weir controller watch` with its link monitor, the routes,
//! the differences and their order, and the P4Runtime entities of switches. Connections are simulated: they deliver in
//! order with random delays, and break. So are controller processes: they die between any two messages, sleep, and
//! compete. Unlike in production, tables are not read periodically, so that nothing is repaired by chance.
//! `WEIR_SEEDS` sets the number of seeds; `make soak` runs 10,000.

mod controller;
mod world;

use world::{Fault, World};

/// Number of seeds if `WEIR_SEEDS` is not set.
const SEEDS: u64 = 200;

fn seeds() -> u64 {
    std::env::var("WEIR_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SEEDS)
}

/// Faults of the control plane alone: connections that break or stall, a controller that is killed and started again,
/// sleeps, or loses its role to another one for a while. No packet is lost at any moment.
#[test]
fn faults_of_the_control_plane_never_touch_the_data_plane() {
    let faults = [Fault::Reset, Fault::Stall, Fault::Kill, Fault::Sleep, Fault::Rival];
    for seed in 0..seeds() / 2 {
        let mut world = World::started(seed);
        world.may_lose = false;
        for _ in 0..6 {
            let fault = faults[world.draw(faults.len() as u64) as usize];
            world.inject(fault);
            let calm = 50 + world.draw(800);
            world.run_for(calm);
        }
        world.run_for(4_000);
        world.assert_connected();
    }
}

/// Links are cut and repaired and switches restart while the control plane has faults too. After every update no packet
/// loops, except where the only path leads through a switch that holds old routes and cannot be written, which is rare.
/// Five seconds after the last fault has ended (a sleep or a rival itself lasts up to five seconds) every pair that has
/// a path is connected again, by symmetric paths.
#[test]
fn links_and_switches_that_fail_with_the_control_plane_are_routed_around() {
    let faults = [
        Fault::Cut,
        Fault::Cut,
        Fault::Mend,
        Fault::Mend,
        Fault::Restart,
        Fault::Reset,
        Fault::Stall,
        Fault::Kill,
        Fault::Sleep,
        Fault::Rival,
    ];
    let (mut checks, mut loops) = (0, 0);
    for seed in 0..seeds() / 2 {
        let mut world = World::started(1_000_000 + seed);
        for _ in 0..6 {
            let fault = faults[world.draw(faults.len() as u64) as usize];
            world.inject(fault);
            let calm = world.draw(700);
            world.run_for(calm);
        }
        world.run_for(10_000);
        world.assert_connected();
        checks += world.checks;
        loops += world.loops;
    }
    assert!(checks > seeds() * 10, "{checks} updates");
    assert!(loops * 50 <= seeds(), "{loops} loops through switches without control");
}

/// Without other faults a cut is repaired within the stated window: three lost probes, an interval for the answers of
/// both ends and the delays of messages.
#[test]
fn a_cut_is_routed_around_within_700_ms() {
    for seed in 0..seeds() / 10 {
        let mut world = World::started(2_000_000 + seed);
        world.inject(Fault::Cut);
        world.run_for(700);
        world.assert_connected();
        world.inject(Fault::Mend);
        world.may_lose = false;
        world.run_for(700);
        world.assert_connected();
    }
}
