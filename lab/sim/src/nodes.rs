//! The nodes of a logical process: hosts with their NICs, and switches.

use weir_controller::topology::{HostIx, SwitchIx};
use weir_host::Host;
use weir_host::ring::Ring;
use weir_switch::engine::Switch;
use weir_units::Time;

/// Stands for a direction or transmitter index at a port without a link.
pub const UNCONNECTED: u32 = u32::MAX;

/// Number of priority classes that PFC distinguishes.
pub(crate) const PFC_CLASSES: u8 = 8;

/// A host and the state of its NIC.
pub struct HostNode {
    pub ix: HostIx,
    /// Transport and congestion control.
    pub host: Host,
    /// Index into [`Process::transmitters`](crate::process::Process::transmitters).
    pub(crate) transmitter: u32,
    /// Priority classes that the switch has paused, one bit each.
    pub(crate) paused: u8,
    /// End of the pause of each class in `paused`.
    paused_until: [Time; PFC_CLASSES as usize],
    /// Time of the pending [`Event::HostTimer`](crate::events::Event::HostTimer). Events at other times are stale and
    /// ignored.
    timer_at: Option<Time>,
    /// Frames of an attacker at this host. They are sent before the host's own frames.
    pub(crate) injected: Ring<Vec<u8>>,
}

/// Who made a frame that a node sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameSource {
    /// The node itself.
    Node,
    /// An attacker at the node, which is a host.
    Attacker,
}

impl HostNode {
    /// `transmitter` is the host's index into [`Process::transmitters`](crate::process::Process::transmitters).
    pub fn new(ix: HostIx, host: Host, transmitter: u32) -> HostNode {
        HostNode {
            ix,
            host,
            transmitter,
            paused: 0,
            paused_until: [Time::ZERO; PFC_CLASSES as usize],
            timer_at: None,
            injected: Ring::new(),
        }
    }

    /// Pauses a priority class until a time, or resumes it (`None`).
    pub(crate) fn set_paused(&mut self, class: u8, until: Option<Time>) {
        let Some(slot) = self.paused_until.get_mut(usize::from(class)) else { return };
        *slot = until.unwrap_or_default();
        self.paused = self.paused & !(1 << class) | u8::from(until.is_some()) << class;
    }

    /// Returns the end of the pause that expires first; `None` if no class is paused.
    pub(crate) fn next_pause_deadline(&self) -> Option<Time> {
        let classes = (0..PFC_CLASSES).filter(|class| self.paused & 1 << class != 0);
        classes.map(|class| self.paused_until[usize::from(class)]).min()
    }

    /// Ends the pauses that have expired. Returns whether there were any.
    pub(crate) fn expire_pauses(&mut self, now: Time) -> bool {
        let before = self.paused;
        for (class, &until) in self.paused_until.iter().enumerate() {
            self.paused &= !(u8::from(until <= now) << class);
        }
        self.paused != before
    }

    /// Returns the host's next deadline if a timer event must be scheduled for it, and records the timer. `None` if
    /// one is pending at that time or earlier.
    #[inline]
    pub(crate) fn arm_timer(&mut self, now: Time) -> Option<Time> {
        let due = self.host.next_wakeup()?;
        // A deadline that has passed is waiting for the transmitter or for a PFC resume, and either one polls the
        // host again.
        if due <= now || self.timer_at.is_some_and(|pending| pending <= due) {
            return None;
        }
        self.timer_at = Some(due);
        Some(due)
    }

    /// Wakes the host up for a timer event. Returns false if the event is stale, because another deadline has replaced
    /// it.
    pub(crate) fn on_timer(&mut self, now: Time) -> bool {
        if self.timer_at != Some(now) {
            return false;
        }
        self.timer_at = None;
        self.host.wakeup(now);
        true
    }
}

/// A switch and the wiring of its ports.
pub struct SwitchNode {
    pub ix: SwitchIx,
    /// Pipeline and traffic manager.
    pub switch: Switch,
    /// By port number, the number of the outgoing link direction, or [`UNCONNECTED`].
    pub directions: Vec<u32>,
    /// By port number, the index into [`Process::transmitters`](crate::process::Process::transmitters), or
    /// [`UNCONNECTED`].
    pub(crate) transmitters: Vec<u32>,
}

impl SwitchNode {
    /// Returns the index of a port's transmitter; `None` if the port has no link.
    #[inline]
    pub(crate) fn transmitter(&self, port: u16) -> Option<u32> {
        self.transmitters.get(usize::from(port)).copied().filter(|&transmitter| transmitter != UNCONNECTED)
    }
}
