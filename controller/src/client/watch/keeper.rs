//! The session with one switch, for ever.

use super::super::{
    Backoff, ClientError, ClientOptions, PacketSender, Program, Session, Standing, StreamEvent, Target,
};
use crate::topology::SwitchIx;
use crate::watch::Probe;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use weir_proto::p4::v1::{Entity, PacketIn};
use weir_proto::value;

/// What a keeper tells.
pub enum Event {
    /// The switch is ours, runs the program and holds this.
    Ready { at: SwitchIx, session: Session, packets: PacketSender, pushed: bool, actual: Vec<Entity> },
    /// Another controller has it.
    Standby { at: SwitchIx },
    /// It cannot be reached, or no more.
    Lost { at: SwitchIx, error: ClientError },
}

/// A packet-in that may be a probe.
pub struct Heard {
    pub at: SwitchIx,
    pub port: u16,
    pub frame: Vec<u8>,
}

/// What a keeper needs.
pub struct Keeper {
    pub at: SwitchIx,
    pub target: Target,
    pub program: Arc<Program>,
    pub options: ClientOptions,
    /// Of this run: packet-ins with another number are not passed on.
    pub run: u64,
    /// The P4Runtime id of the packet-in's ingress port.
    pub ingress_port: Option<u32>,
    pub events: mpsc::Sender<Event>,
    pub heard: mpsc::Sender<Heard>,
    /// Packet-ins that were not passed on.
    pub strange: Arc<AtomicU64>,
    pub random: Pcg64Mcg,
}

impl Keeper {
    /// Until nobody listens any more.
    pub async fn keep(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.serve(&mut backoff).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if self.events.send(Event::Lost { at: self.at, error }).await.is_err() {
                return;
            }
            let random = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
            tokio::time::sleep(backoff.wait(random)).await;
        }
    }

    /// One session. `Ok` if nobody listens any more.
    async fn serve(&self, backoff: &mut Backoff) -> Result<(), ClientError> {
        let session = Session::connect(&self.target, self.options).await?;
        let (mut standing, mut stream) = session.arbitrate().await?;
        loop {
            let event = match standing {
                Standing::Primary => {
                    let pushed = session.push(&self.program).await?;
                    let actual = session.read_all(&self.program.index).await?;
                    let (session, packets) = (session.clone(), stream.packets());
                    Event::Ready { at: self.at, session, packets, pushed, actual }
                }
                Standing::Backup { .. } => Event::Standby { at: self.at },
            };
            backoff.reset();
            if self.events.send(event).await.is_err() {
                return Ok(());
            }
            standing = loop {
                match stream.next().await? {
                    StreamEvent::Standing(now) if now != standing => break now,
                    StreamEvent::Standing(_) | StreamEvent::Other => {}
                    StreamEvent::Packet(packet) => self.hear(packet),
                }
            };
        }
    }

    fn hear(&self, packet: PacketIn) {
        let is_port = |id: u32| Some(id) == self.ingress_port;
        let port =
            packet.metadata.iter().find(|it| is_port(it.metadata_id)).and_then(|it| value::to_u64(&it.value));
        let ours = Probe::parse(&packet.payload).is_some_and(|probe| probe.run == self.run);
        let heard = port.filter(|_| ours).and_then(|port| u16::try_from(port).ok());
        let passed = heard.map(|port| Heard { at: self.at, port, frame: packet.payload });
        // A full queue: somebody plays probes back faster than they are looked at.
        if passed.is_none_or(|heard| self.heard.try_send(heard).is_err()) {
            self.strange.fetch_add(1, Ordering::Relaxed);
        }
    }
}
