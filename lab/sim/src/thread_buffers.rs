//! Memory of a thread for the processes that it runs.

use crate::link::{Batch, PfcFrame};
use weir_host::wire::MAX_HEADER_LEN;
use weir_switch::engine::SwitchOutput;
use weir_switch::packet::{Packet, PacketPool};
use weir_switch::pipeline::{Digest, Scratch};

/// Tools of a thread for each process that it runs: memory, no state.
pub struct ThreadBuffers {
    /// Packets that are done.
    pub(crate) pool: PacketPool,
    /// Memory of frames that have arrived, for those that leave: the caches still have it.
    pub(crate) spare_batches: Vec<Batch<Box<Packet>>>,
    /// The head of the frame that a host writes.
    pub(crate) head: [u8; MAX_HEADER_LEN],
    /// Memory for the pipeline of the switch that runs.
    pub(crate) scratch: Box<Scratch>,
    /// Messages of the switch that runs.
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

/// Messages of a switch during one call.
#[derive(Default)]
pub(crate) struct SwitchEvents {
    /// Ports that can send.
    pub ready: Vec<u16>,
    /// Frames of PFC, with their ports.
    pub pfc: Vec<(u16, PfcFrame)>,
    /// Packets that the switch has dropped.
    #[expect(clippy::vec_box, reason = "the boxes go back to the pool as they are")]
    pub dropped: Vec<Box<Packet>>,
}

impl SwitchOutput for SwitchEvents {
    #[inline]
    fn ready(&mut self, port: u16) {
        self.ready.push(port);
    }
    fn pause(&mut self, port: u16, priority: u8, on: bool) {
        self.pfc.push((port, PfcFrame { priority, on }));
    }
    fn recycle(&mut self, packet: Box<Packet>) {
        self.dropped.push(packet);
    }
    /// No controller listens in virtual time.
    fn digest(&mut self, _: Digest) {}
}
