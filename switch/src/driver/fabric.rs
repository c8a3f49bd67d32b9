//! Many switches on one data-plane thread, with the links between them in memory.

use super::StartError;
use super::clock::MonotonicClock;
use super::config::DataplaneConfig;
use super::event_loop::EventLoop;
use super::handle::{DataplaneHandle, MAX_COMMANDS};
use super::poll::Poll;
use super::stats::DataplaneStats;
use super::switch_runtime::Runtime;
use crate::engine::Switch;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

/// A switch of a fabric.
pub struct FabricMember {
    /// Its configuration. Every port in [`Self::inner`] has its rate and delay in
    /// [`wires`](DataplaneConfig::wires).
    pub config: DataplaneConfig,
    /// The switch, if there is a program already.
    pub switch: Option<Box<Switch>>,
    /// Ports on interfaces.
    pub ports: Vec<(u16, String)>,
    /// Ports on links to other switches of the fabric.
    pub inner: Vec<FabricPort>,
}

/// One end of a link between two switches of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPort {
    /// Its number.
    pub port: u16,
    /// Its name, where an interface would have one.
    pub name: String,
    /// The other end: index of the switch, and its port.
    pub to: (u16, u16),
}

/// A running data plane of many switches. Dropping it stops its thread and waits for it.
#[derive(Debug)]
pub struct FabricDataplane {
    handles: Vec<DataplaneHandle>,
    thread: Option<JoinHandle<Vec<DataplaneStats>>>,
}

impl FabricDataplane {
    /// Starts the thread in the network namespace of the caller, and attaches all ports or none. No frame moves
    /// before all ports are attached.
    ///
    /// # Panics
    ///
    /// If there is no switch, or a link leads to one that is not there.
    ///
    /// # Errors
    ///
    /// A port cannot be attached, or the thread or its sockets cannot be created.
    pub fn start(members: Vec<FabricMember>) -> Result<FabricDataplane, StartError> {
        let ends = members.iter().flat_map(|member| &member.inner).map(|inner| usize::from(inner.to.0));
        assert!(!members.is_empty() && ends.max() < Some(members.len()), "links lead to switches");
        let (poll, clock, posted) = (Poll::new()?, MonotonicClock::start(), Arc::new(AtomicU64::new(0)));
        let (mut handles, mut commands, mut begun) = (Vec::new(), Vec::new(), Vec::new());
        let mut configs = Vec::new();
        for FabricMember { config, switch, ports, inner } in members {
            let (sender, receiver) = sync_channel(MAX_COMMANDS);
            let cpu_port = config.cpu_port;
            let handle =
                DataplaneHandle { commands: sender, posted: posted.clone(), wake: poll.wake(), cpu_port };
            begun.push(handle.attach_all(switch, ports, inner));
            handles.push(handle);
            commands.push(receiver);
            configs.push(config);
        }
        let thread = std::thread::Builder::new().name("dataplane".into()).spawn(move || {
            // Without it, timers may be 50 us late (prctl(2), PR_SET_TIMERSLACK), which shaping would show.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let runtime = |(number, config)| Runtime::new(number, config, clock, poll.watched());
            let switches = (0..).zip(configs).map(runtime).collect();
            let mut switches = EventLoop::new(clock, poll, switches, commands, posted).run();
            switches.iter_mut().map(Runtime::stats).collect()
        })?;
        let fabric = FabricDataplane { handles, thread: Some(thread) };
        for begun in begun {
            begun.wait()?;
        }
        Ok(fabric)
    }

    /// Handles on the switches, in the order of the members, for any thread. They outlive the data plane, and then say
    /// so.
    pub fn handles(&self) -> &[DataplaneHandle] {
        &self.handles
    }

    /// Returns whether its thread runs. It ends after [`Self::stop`], or if it panics.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// Stops the thread and returns the final counters of each switch.
    ///
    /// # Panics
    ///
    /// If the thread panicked.
    pub fn stop(mut self) -> Vec<DataplaneStats> {
        let thread = self.thread.take().expect("taken here and in drop only");
        self.handles[0].stop();
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for FabricDataplane {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.handles[0].stop();
            // A panic of the thread was reported on stderr; this may run while another one unwinds.
            let _ = thread.join();
        }
    }
}
