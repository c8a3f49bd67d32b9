//! Agents on real interfaces: two network namespaces and a veth pair. Needs root.

// Tests print their measurements.
#![allow(clippy::print_stderr)]

mod hostile;
mod netns;
mod probe;
mod transfers;

use netns::{ADDRS, IFACE, Net};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;
use weir_agent::results::AgentResults;
use weir_agent::{
    Agent, AgentConfig, AgentError, DEFAULT_MAX_SPIN, FlowPlan, Interface, StartAt, StopCondition,
};
use weir_host::HostConfig;
use weir_host::schemes::Registry;
use weir_testkit::harness;
use weir_units::{Bandwidth, Bytes, Time};

fn main() -> ExitCode {
    let missing = (!rustix::process::geteuid().is_root()).then(|| "needs root".to_owned());
    let tests = [transfers::TESTS, hostile::TESTS].concat();
    harness::run(&tests, missing)
}

/// Returns an agent's configuration on one side: 100 Mbit/s, 2 ms, HPCC, and an end after ten seconds.
///
/// # Errors
///
/// The interface is missing.
///
/// # Panics
///
/// If the registry has no `hpcc`.
pub fn config(side: usize, flows: Vec<FlowPlan>) -> Result<AgentConfig, AgentError> {
    let interface = Interface::find(IFACE, None)?;
    let scheme = Registry::builtin().get("hpcc").expect("hpcc is built in");
    let mut host = HostConfig::new(ADDRS[side], Bandwidth::from_mbps(100), Time::from_ms(2), scheme);
    host.mtu = interface.max_frame;
    Ok(AgentConfig {
        interface,
        host,
        flows,
        start: StartAt::Now,
        until: StopCondition { flows_finished: false, deadline: Some(Time::from_secs(10)) },
        sample_interval: Some(Time::from_ms(10)),
        max_spin: DEFAULT_MAX_SPIN,
        first_message: 1_000 * (side as u32 + 1),
    })
}

/// Returns a flow from side `from` to the other side.
pub fn flow(from: usize, size: Option<Bytes>, port: u16) -> FlowPlan {
    FlowPlan {
        peer: ADDRS[1 - from],
        peer_mac: None,
        entropy_port: port,
        start: Time::ZERO,
        stop: None,
        size,
        announcement: None,
    }
}

/// An agent that runs on its own thread.
pub struct RunningAgent {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<(AgentResults, Duration)>,
}

/// Starts an agent on one side and waits until it is ready. `change` modifies its configuration.
///
/// # Panics
///
/// If the agent does not start.
pub fn start(
    net: &Net,
    side: usize,
    flows: Vec<FlowPlan>,
    change: impl FnOnce(&mut AgentConfig) + Send + 'static,
) -> RunningAgent {
    let stop = Arc::new(AtomicBool::new(false));
    let (ready_tx, ready_rx) = mpsc::channel();
    let stop_flag = Arc::clone(&stop);
    let thread = net.spawn(side, move || {
        let mut config = config(side, flows).expect("the interface exists");
        change(&mut config);
        let agent = Agent::new(config).unwrap_or_else(|error| panic!("{error}"));
        ready_tx.send(()).expect("the test is still waiting");
        let cpu_wait_before = cpu_wait();
        let results = agent.run(&stop_flag);
        (results, cpu_wait().saturating_sub(cpu_wait_before))
    });
    ready_rx.recv().expect("the agent has failed to start");
    RunningAgent { stop, thread }
}

/// Returns the time for which this thread was runnable but waited for a CPU: the second field of schedstat (Linux,
/// sched-stats.rst).
fn cpu_wait() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().nth(1).and_then(|word| word.parse().ok());
    Duration::from_nanos(nanos.unwrap_or(0))
}

impl RunningAgent {
    /// Interrupts the run, as Ctrl-C does.
    pub fn interrupt(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }
    /// Waits until the run ends. Also returns the time for which the agent waited for a CPU.
    pub fn finish(self) -> (AgentResults, Duration) {
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
    /// Interrupts the run and waits until it ends.
    pub fn stop(self) -> AgentResults {
        self.interrupt();
        self.wait()
    }
    /// Waits until the run ends.
    pub fn wait(self) -> AgentResults {
        self.finish().0
    }
}

/// Makes an agent end when its flows have finished, or after ten seconds.
pub fn end_with_flows(config: &mut AgentConfig) {
    config.until.flows_finished = true;
}
