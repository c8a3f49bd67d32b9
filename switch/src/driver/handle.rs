//! Handles, by which other threads control the data plane.

use super::event::{DataplaneEvent, Delivery};
use super::fabric::FabricPort;
use super::oneshot::{self, Reply};
use super::port_link::SwitchLinks;
use super::stats::DataplaneStats;
use super::switch_runtime::Runtime;
use crate::engine::{Switch, SwitchConfig};
use crate::link::LinkChange;
use crate::tm::{QueueLimits, Rate};
use rustix::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use thiserror::Error;
use weir_units::Time;

/// Something to do on the data-plane thread, between two batches of frames.
pub(super) type Command = Box<dyn FnOnce(&mut Runtime) + Send>;

/// Capacity of the command queue. While it is full, calls block and packet-outs are refused.
pub(super) const MAX_COMMANDS: usize = 1024;

/// The reason why the data plane did not run a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DataplaneError {
    /// It is shut down.
    #[error("the data plane has stopped")]
    Stopped,
    /// No pipeline was set yet.
    #[error("the switch has no program yet; set a forwarding pipeline first")]
    NoProgram,
    /// The closure panicked. The switch continues, with the changes that the closure had made before.
    #[error("a control operation failed by a bug in this program; the log has more")]
    Panicked,
    /// There is no CPU port to put the packet in by.
    #[error("the switch has no CPU port; start it with --cpu-port")]
    NoCpuPort,
    /// Too many packets wait already.
    #[error("too many packets wait for the data plane; send slower")]
    Busy,
    /// The port cannot be added or removed.
    #[error("port {port}: {reason}")]
    Port {
        /// Its number.
        port: u16,
        /// The reason.
        reason: String,
    },
}

/// A handle on a running data plane: cheap to clone, usable from any thread.
///
/// Every call becomes a command that the data-plane thread runs between two batches of frames, in the order
/// of the calls. The data plane never waits for the caller. The caller waits for the answer with
/// [`Reply::wait`] on a thread, or by awaiting the [`Reply`] in any executor; a call itself blocks only while
/// 1,024 commands wait.
///
/// Commands run while no frame moves: build what takes long before the call (a whole [`Switch`] with its
/// entries, say, to be [installed](Self::install) at once).
#[derive(Clone, Debug)]
pub struct DataplaneHandle {
    pub(super) commands: SyncSender<Command>,
    /// Counts the commands of all switches of the data plane.
    pub(super) posted: Arc<AtomicU64>,
    pub(super) wake: Arc<OwnedFd>,
    pub(super) cpu_port: Option<u16>,
}

impl DataplaneHandle {
    /// Runs `operation` on the switch with the present time, and blocks until it returns. For threads; see
    /// [`Self::call`].
    ///
    /// # Errors
    ///
    /// There is no program yet, `operation` panicked, or the data plane has stopped.
    pub fn with<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Switch, Time) -> R + Send + 'static,
    ) -> Result<R, DataplaneError> {
        self.call(operation).wait()
    }

    /// Runs `operation` on the switch with the present time. For executors: await the reply.
    pub fn call<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Switch, Time) -> R + Send + 'static,
    ) -> Reply<R> {
        self.submit(|runtime| {
            let now = runtime.now();
            runtime.switch().map(|switch| operation(switch, now))
        })
    }

    /// Returns the clock, ports, CPU port and queue limits of a switch of this data plane.
    pub fn switch_config(&self) -> Reply<SwitchConfig> {
        self.submit(|runtime| Ok(runtime.switch_config()))
    }

    /// Replaces the present switch by another one, and returns the old one with its queued frames, which are
    /// not sent. Make the new one with [`Self::switch_config`] and fill its tables before, so that no frame
    /// is processed with incomplete tables. Rates and limits set by [`Self::set_rate`],
    /// [`Self::set_queue_rates`] and [`Self::set_queue_limits`] carry over.
    pub fn install(&self, switch: Box<Switch>) -> Reply<Option<Box<Switch>>> {
        self.submit(|runtime| Ok(runtime.install(switch)))
    }

    /// Sets the rate of a port, or of one of its queues; it holds for later programs too. `false`: no such
    /// port or queue.
    pub fn set_rate(&self, port: u16, priority: Option<u8>, rate: Rate) -> Reply<bool> {
        self.submit(move |runtime| Ok(runtime.set_rate(port, priority, rate)))
    }

    /// Sets the rate of each queue of a port, or of all ports, or of those of one priority, as BMv2 does; it
    /// holds for later programs too. `false`: no such port or priority.
    pub fn set_queue_rates(&self, port: Option<u16>, priority: Option<u8>, rate: Rate) -> Reply<bool> {
        self.submit(move |runtime| {
            Ok(runtime.for_queues(port, priority, |runtime, port, priority| {
                runtime.set_rate(port, Some(priority), rate);
            }))
        })
    }

    /// Sets the limits of each queue of a port, or of all ports, or of those of one priority; they hold for later
    /// programs too. `false`: no such port or priority.
    pub fn set_queue_limits(
        &self,
        port: Option<u16>,
        priority: Option<u8>,
        limits: QueueLimits,
    ) -> Reply<bool> {
        self.submit(move |runtime| {
            Ok(runtime.for_queues(port, priority, |runtime, port, priority| {
                runtime.set_limits(port, priority, limits);
            }))
        })
    }

    /// Attaches an interface, which must be there, as a port.
    pub fn add_port(&self, port: u16, interface: impl Into<String>) -> Reply<()> {
        let interface = interface.into();
        self.submit(move |runtime| runtime.add_port(port, &interface))
    }

    /// Detaches a port's interface. Packets that wait for the port, and later ones for it, are dropped and counted.
    pub fn remove_port(&self, port: u16) -> Reply<()> {
        self.submit(move |runtime| runtime.remove_port(port))
    }

    /// Returns all counts, and the state of each port.
    pub fn stats(&self) -> Reply<DataplaneStats> {
        self.submit(|runtime| Ok(runtime.stats()))
    }

    /// Returns the state of the links at the ports that have one ([`DataplaneConfig::wires`](super::DataplaneConfig::wires)).
    pub fn links(&self) -> Reply<SwitchLinks> {
        self.submit(|runtime| Ok(runtime.links()))
    }

    /// Changes the links at these ports: frames that the switch sends, and those that come from an interface. Frames
    /// that come from another switch are changed there.
    pub fn change_links(&self, ports: Vec<u16>, change: LinkChange) -> Reply<()> {
        self.submit(move |runtime| {
            runtime.change_links(&ports, change);
            Ok(())
        })
    }

    /// Calls `subscriber` with every [`DataplaneEvent`] from now on, on the data-plane thread: it must not block, nor
    /// wait for a reply of this handle. It copies what it wants into a bounded channel, says
    /// [`Delivery::Full`] if there is no room, and [`Delivery::Gone`] when it wants no more.
    pub fn subscribe(
        &self,
        subscriber: impl FnMut(DataplaneEvent<'_>) -> Delivery + Send + 'static,
    ) -> Reply<()> {
        self.submit(move |runtime| {
            runtime.subscribe(Box::new(subscriber));
            Ok(())
        })
    }

    /// Injects a packet of the controller by the CPU port, controller header first. Never blocks.
    ///
    /// # Errors
    ///
    /// There is no CPU port, too many commands wait, or the data plane has stopped.
    pub fn packet_out(&self, frame: Vec<u8>) -> Result<(), DataplaneError> {
        let cpu_port = self.cpu_port.ok_or(DataplaneError::NoCpuPort)?;
        let command: Command = Box::new(move |runtime| runtime.packet_out(cpu_port, &frame));
        self.commands.try_send(command).map_err(|error| match error {
            TrySendError::Full(_) => DataplaneError::Busy,
            TrySendError::Disconnected(_) => DataplaneError::Stopped,
        })?;
        self.wake();
        Ok(())
    }

    /// Puts in a switch and attaches ports, in one command.
    pub(super) fn attach_all(
        &self,
        switch: Option<Box<Switch>>,
        ports: Vec<(u16, String)>,
        inner: Vec<FabricPort>,
    ) -> Reply<()> {
        self.submit(move |runtime| {
            switch.and_then(|switch| runtime.install(switch));
            ports.iter().try_for_each(|(port, interface)| runtime.add_port(*port, interface))?;
            inner.iter().try_for_each(|port| runtime.add_inner_port(port))
        })
    }

    /// Asks the data plane to end: its thread finishes its batch and returns.
    pub(super) fn stop(&self) {
        // If it has stopped already, all is well.
        let _ = self.commands.send(Box::new(Runtime::stop));
        self.wake();
    }

    fn submit<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Runtime) -> Result<R, DataplaneError> + Send + 'static,
    ) -> Reply<R> {
        let (promise, reply) = oneshot::channel();
        let command: Command = Box::new(move |runtime| {
            // A bug in control code must not end forwarding.
            let answer = catch_unwind(AssertUnwindSafe(|| operation(runtime)));
            promise.answer(answer.unwrap_or(Err(DataplaneError::Panicked)));
        });
        // If there is nobody, the promise is dropped with the command, and the reply says so.
        if self.commands.send(command).is_ok() {
            self.wake();
        }
        reply
    }

    /// An eventfd's counter is far from full, and a failed write finds the thread awake anyway.
    fn wake(&self) {
        self.posted.fetch_add(1, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}
