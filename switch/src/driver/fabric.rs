//! Many switches on one data-plane thread, connected by links in memory.

use super::clock::MonotonicClock;
use super::config::FabricMember;
use super::error::StartError;
use super::event_loop::EventLoop;
use super::handle::DataplaneHandle;
use super::poll::Poll;
use super::stats::DataplaneStats;
use super::switch_runtime::{MAX_COMMANDS, Runtime};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

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
        let peers =
            members.iter().flat_map(|member| &member.internal_ports).map(|port| usize::from(port.peer.0));
        assert!(!members.is_empty() && peers.max() < Some(members.len()), "every link must lead to a member");
        let (poll, clock, posted) = (Poll::new()?, MonotonicClock::start(), Arc::new(AtomicU64::new(0)));
        let (mut handles, mut commands, mut started) = (Vec::new(), Vec::new(), Vec::new());
        let mut configs = Vec::new();
        for FabricMember { config, switch, ports, internal_ports } in members {
            let (sender, receiver) = sync_channel(MAX_COMMANDS);
            let cpu_port = config.cpu_port;
            let handle =
                DataplaneHandle { commands: sender, posted: posted.clone(), wake: poll.wake(), cpu_port };
            started.push(handle.attach_all(switch, ports, internal_ports));
            handles.push(handle);
            commands.push(receiver);
            configs.push(config);
        }
        let thread = std::thread::Builder::new().name("dataplane".into()).spawn(move || {
            // The default timer slack lets timers fire 50 us late (prctl(2), PR_SET_TIMERSLACK), which would
            // show in shaped traffic.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let runtime = |(index, config)| Runtime::new(index, config, clock, poll.epoll_set());
            let switches = (0..).zip(configs).map(runtime).collect();
            let mut switches = EventLoop::new(clock, poll, switches, commands, posted).run();
            switches.iter_mut().map(Runtime::stats).collect()
        })?;
        let fabric = FabricDataplane { handles, thread: Some(thread) };
        for started in started {
            started.wait()?;
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
        let thread = self.thread.take().expect("only `stop` and `drop` take the thread");
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
