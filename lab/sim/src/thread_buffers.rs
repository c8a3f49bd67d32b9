//! Reusable buffers of a thread, shared by all processes that it runs.

use crate::link::{Batch, PfcFrame};
use weir_host::wire::MAX_HEADER_LEN;
use weir_switch::engine::SwitchOutput;
use weir_switch::packet::{Packet, PacketPool};
use weir_switch::pipeline::{Digest, Scratch};
use weir_switch::tm::PauseQuanta;

/// Reusable buffers of a thread. They carry no state from one process to the next, so results do not depend on them.
pub(crate) struct ThreadBuffers {
    /// Packets that were delivered or dropped.
    pub(crate) pool: PacketPool,
    /// Memory of batches whose frames have all arrived, reused for outgoing frames while it is still in the cache.
    pub(crate) spare_batches: Vec<Batch<Box<Packet>>>,
    /// Headers of the frame that a host transmits.
    pub(crate) head: [u8; MAX_HEADER_LEN],
    /// Scratch memory of the pipeline, lent to the switch of the current process.
    pub(crate) scratch: Box<Scratch>,
    /// Output of the last call into a switch.
    pub(crate) outbox: SwitchEvents,
}

impl Default for ThreadBuffers {
    fn default() -> ThreadBuffers {
        ThreadBuffers {
            pool: PacketPool::new(),
            spare_batches: Vec::new(),
            head: [0; MAX_HEADER_LEN],
            scratch: Box::default(),
            outbox: SwitchEvents::default(),
        }
    }
}

/// Output of a switch during one call; emptied by `Process::flush_outbox`.
#[derive(Default)]
pub(crate) struct SwitchEvents {
    /// Ports that have become able to send.
    pub ready: Vec<u16>,
    /// PFC frames to send, each with its port.
    pub pfc: Vec<(u16, PfcFrame)>,
    /// Packets that the switch dropped.
    #[expect(clippy::vec_box, reason = "the boxes go back to the pool as they are")]
    pub dropped: Vec<Box<Packet>>,
}

impl SwitchOutput for SwitchEvents {
    #[inline]
    fn ready(&mut self, port: u16) {
        self.ready.push(port);
    }
    fn pause(&mut self, port: u16, priority: u8, quanta: PauseQuanta) {
        self.pfc.push((port, PfcFrame { priority, quanta, is_refresh: false }));
    }
    fn recycle(&mut self, packet: Box<Packet>) {
        self.dropped.push(packet);
    }
    /// Discarded: the simulation has no controller.
    fn digest(&mut self, _: Digest) {}
    fn warn(&mut self, message: String) {
        tracing::warn!("{message}");
    }
}
