//! Many switches on one data-plane thread, connected by links in memory.

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
    /// Every port of [`Self::inner`] must have its rate and delay in
    /// [`port_links`](DataplaneConfig::port_links).
    pub config: DataplaneConfig,
    /// The switch; `None` if no program is installed yet.
    pub switch: Option<Box<Switch>>,
    /// Ports on interfaces: port number and interface name.
    pub ports: Vec<(u16, String)>,
    /// Ports that are connected to other switches of the fabric.
    pub inner: Vec<FabricPort>,
}

/// One end of a link between two switches of a fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FabricPort {
    pub port: u16,
    /// A name for reports, in place of an interface name.
    pub name: String,
    /// The other end: index of the switch in the fabric, and port number.
    pub to: (u16, u16),
}

/// A running data plane of many switches. Dropping it stops its thread and waits for it.
#[derive(Debug)]
pub struct FabricDataplane {
    handles: Vec<DataplaneHandle>,
    thread: Option<JoinHandle<Vec<DataplaneStats>>>,
}

impl FabricDataplane {
    /// Starts the thread in the caller's network namespace and attaches all ports, or none on an error. No
    /// frame moves before all ports are attached.
    ///
    /// # Panics
    ///
    /// If `members` is empty, or a link leads to a switch that does not exist.
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
            // The default timer slack lets timers fire 50 us late (prctl(2), PR_SET_TIMERSLACK), which would
            // show in shaped traffic.
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

    /// Returns a handle of each switch, in the order of the members. After the data plane has stopped, their
    /// calls return [`DataplaneError::Stopped`](super::DataplaneError::Stopped).
    pub fn handles(&self) -> &[DataplaneHandle] {
        &self.handles
    }

    /// Returns whether the thread runs. It ends after [`Self::stop`], or if it panics.
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
            // A panic of the thread was reported on stderr. This may run while another panic unwinds.
            let _ = thread.join();
        }
    }
}
