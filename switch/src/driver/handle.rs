//! Handles with which other threads control the data plane.

use super::config::FabricPort;
use super::error::DataplaneError;
use super::event::{DataplaneEvent, Delivery};
use super::oneshot::{self, Reply};
use super::port_link::SwitchLinks;
use super::stats::DataplaneStats;
use super::switch_runtime::{Command, Runtime};
use crate::engine::{Switch, SwitchConfig};
use crate::link::LinkChange;
use crate::tm::{QueueLimits, Rate};
use rustix::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError};
use weir_units::Time;

/// A handle of a running data plane: cheap to clone, usable from any thread.
///
/// Every call becomes a command that the data-plane thread runs between two batches of frames, in the order
/// of the calls. The data plane never waits for the caller. The caller gets the result with [`Reply::wait`]
/// on a thread, or by awaiting the [`Reply`] in any executor. A call itself blocks only while 1,024 commands
/// are queued.
///
/// No frame moves while a command runs. Prepare lengthy work before the call: for example, build a whole
/// [`Switch`] with its entries and then [install](Self::install) it.
#[derive(Clone, Debug)]
pub struct DataplaneHandle {
    pub(super) commands: SyncSender<Command>,
    /// Number of commands queued so far for all switches of the data plane.
    pub(super) posted: Arc<AtomicU64>,
    /// The eventfd that wakes the thread.
    pub(super) wake: Arc<OwnedFd>,
    pub(super) cpu_port: Option<u16>,
}

impl DataplaneHandle {
    /// Runs `operation` on the switch with the current time, and blocks until it returns. See [`Self::call`]
    /// for executors.
    ///
    /// # Errors
    ///
    /// No program is installed, `operation` panicked, or the data plane has stopped.
    pub fn with<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Switch, Time) -> R + Send + 'static,
    ) -> Result<R, DataplaneError> {
        self.call(operation).wait()
    }

    /// Runs `operation` on the switch with the current time.
    pub fn call<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Switch, Time) -> R + Send + 'static,
    ) -> Reply<R> {
        self.submit(|runtime| {
            let now = runtime.now();
            runtime.switch().map(|switch| operation(switch, now))
        })
    }

    /// Returns the configuration for a switch of this data plane: clock, ports, CPU port, queue limits.
    pub fn switch_config(&self) -> Reply<SwitchConfig> {
        self.submit(|runtime| Ok(runtime.switch_config()))
    }

    /// Replaces the switch. Returns the old one with its queued frames, which are not sent. Create the new
    /// one with [`Self::switch_config`] and fill its tables first, so that no frame is processed with
    /// incomplete tables. Rates and limits set by [`Self::set_rate`], [`Self::set_queue_rates`] and
    /// [`Self::set_queue_limits`] are applied to the new switch.
    pub fn install(&self, switch: Box<Switch>) -> Reply<Option<Box<Switch>>> {
        self.submit(|runtime| Ok(runtime.install(switch)))
    }

    /// Sets the rate of a port, or of one of its queues, also for programs installed later. Returns `false`
    /// if the port or queue does not exist.
    pub fn set_rate(&self, port: u16, priority: Option<u8>, rate: Rate) -> Reply<bool> {
        self.submit(move |runtime| Ok(runtime.set_rate(port, priority, rate)))
    }

    /// Sets the rate of each selected queue, also for programs installed later. `None` selects all ports or
    /// all priorities, as in BMv2. Returns `false` if the port or priority does not exist.
    pub fn set_queue_rates(&self, port: Option<u16>, priority: Option<u8>, rate: Rate) -> Reply<bool> {
        self.submit(move |runtime| {
            Ok(runtime.for_queues(port, priority, |runtime, port, priority| {
                runtime.set_rate(port, Some(priority), rate);
            }))
        })
    }

    /// Sets the limits of each selected queue, also for programs installed later. `None` selects all ports or
    /// all priorities. Returns `false` if the port or priority does not exist.
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

    /// Attaches an interface, which must exist, as a port.
    pub fn add_port(&self, port: u16, interface: impl Into<String>) -> Reply<()> {
        let interface = interface.into();
        self.submit(move |runtime| runtime.add_port(port, &interface))
    }

    /// Detaches the interface of a port. Queued and later packets for the port are dropped and counted.
    pub fn remove_port(&self, port: u16) -> Reply<()> {
        self.submit(move |runtime| runtime.remove_port(port))
    }

    /// Returns all counters and the state of each port.
    pub fn stats(&self) -> Reply<DataplaneStats> {
        self.submit(|runtime| Ok(runtime.stats()))
    }

    /// Returns the state of the links at the ports that have one
    /// ([`DataplaneConfig::port_links`](super::DataplaneConfig::port_links)).
    pub fn links(&self) -> Reply<SwitchLinks> {
        self.submit(|runtime| Ok(runtime.links()))
    }

    /// Changes the links at these ports, for frames that the switch sends and frames that an interface
    /// receives. For frames from another switch of the fabric, change the link there.
    pub fn change_links(&self, ports: Vec<u16>, change: LinkChange) -> Reply<()> {
        self.submit(move |runtime| {
            runtime.change_links(&ports, change);
            Ok(())
        })
    }

    /// Calls `subscriber` with every later [`DataplaneEvent`], on the data-plane thread: it must not block,
    /// nor wait for a reply of this handle. It copies what it needs into a bounded channel. It returns
    /// [`Delivery::Full`] if the channel is full, and [`Delivery::Closed`] to be removed.
    pub fn subscribe(
        &self,
        subscriber: impl FnMut(DataplaneEvent<'_>) -> Delivery + Send + 'static,
    ) -> Reply<()> {
        self.submit(move |runtime| {
            runtime.subscribe(Box::new(subscriber));
            Ok(())
        })
    }

    /// Injects a packet from the controller, controller header first: the switch receives it at the CPU port. Never
    /// blocks.
    ///
    /// # Errors
    ///
    /// The switch has no CPU port, the command queue is full, or the data plane has stopped.
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

    /// Installs a switch and attaches ports, in one command.
    pub(super) fn attach_all(
        &self,
        switch: Option<Box<Switch>>,
        ports: Vec<(u16, String)>,
        internal_ports: Vec<FabricPort>,
    ) -> Reply<()> {
        self.submit(move |runtime| {
            switch.and_then(|switch| runtime.install(switch));
            ports.iter().try_for_each(|(port, interface)| runtime.add_port(*port, interface))?;
            internal_ports.iter().try_for_each(|port| runtime.add_internal_port(port))
        })
    }

    /// Makes the data-plane thread end after its current batch.
    pub(super) fn stop(&self) {
        // Sending fails only if the thread has ended already.
        let _ = self.commands.send(Box::new(Runtime::stop));
        self.wake();
    }

    fn submit<R: Send + 'static>(
        &self,
        operation: impl FnOnce(&mut Runtime) -> Result<R, DataplaneError> + Send + 'static,
    ) -> Reply<R> {
        let (promise, reply) = oneshot::channel();
        let command: Command = Box::new(move |runtime| {
            // A panic in a control operation must not end forwarding.
            let result = catch_unwind(AssertUnwindSafe(|| operation(runtime)));
            promise.send(result.unwrap_or(Err(DataplaneError::Panicked)));
        });
        // If the thread has ended, the promise is dropped with the command, and the reply is `Stopped`.
        if self.commands.send(command).is_ok() {
            self.wake();
        }
        reply
    }

    /// Wakes the data-plane thread. The write fails only if the eventfd's counter would overflow, in which
    /// case the thread is awake.
    fn wake(&self) {
        // Release: the command was queued before it is counted, see `EventLoop::run_commands`.
        self.posted.fetch_add(1, Ordering::Release);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
    }
}
