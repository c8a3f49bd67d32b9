//! One tokio task per switch: connects, arbitrates, pushes the program, forwards packet-ins, and reconnects with
//! backoff until the event receiver is dropped.

use super::super::{
    Backoff, ClientError, ClientOptions, Mastership, PacketSender, Program, Session, StreamEvent, Target,
};
use p4runtime::p4::v1::{Entity, PacketIn};
use p4runtime::value;
use rand::Rng;
use rand_pcg::Pcg64Mcg;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;
use weir_controller::topology::SwitchIx;
use weir_controller::watch::LinkProbe;

/// An event for the driver task: the state of a switch has changed.
pub(super) enum SessionEvent {
    /// This controller is primary, and the switch runs the program. `pushed`: the program had to be pushed. `actual`:
    /// the entities of the switch.
    Ready { switch: SwitchIx, handle: SwitchHandle, pushed: bool, actual: Vec<Entity> },
    /// Another controller is primary.
    Standby { switch: SwitchIx },
    /// The connection broke or could not be made.
    Lost { switch: SwitchIx, error: ClientError },
    /// The port states that the driver requested, as `(port, is_up)`; `None` if they could not be read.
    Ports { switch: SwitchIx, ports: Option<Vec<(u16, bool)>> },
}

/// The driver's handle to a connected switch.
pub(super) struct SwitchHandle {
    pub session: Session,
    pub packets: PacketSender,
    /// Sending a round number requests an echo, which is returned as [`SwitchMessage::Echo`].
    pub echoes: mpsc::Sender<u64>,
}

/// A message from a switch for link failure detection. The order of arrival is kept.
pub(super) enum SwitchMessage {
    /// A probe of this run that arrived as a packet-in. `port`: its ingress port.
    Probe { switch: SwitchIx, port: u16, frame: Vec<u8> },
    /// The reply to an echo request.
    Echo { switch: SwitchIx, round: u64 },
    /// A packet-out was rejected.
    PacketOutRejected { switch: SwitchIx },
}

/// The parameters and channels of a session task.
pub(super) struct SessionTask {
    pub switch: SwitchIx,
    pub target: Target,
    pub program: Arc<Program>,
    pub options: ClientOptions,
    /// Id in the probes of this run. Probes with another id are not forwarded.
    pub run_id: u64,
    /// P4Runtime id of the packet-in metadata field with the ingress port; `None` if the program has no such field.
    pub ingress_port_id: Option<u32>,
    pub events: mpsc::Sender<SessionEvent>,
    pub messages: mpsc::Sender<SwitchMessage>,
    /// Number of packet-ins that were not forwarded.
    pub unknown_packet_ins: Arc<AtomicU64>,
    /// Random numbers for the jitter of reconnect delays.
    pub random: Pcg64Mcg,
}

impl SessionTask {
    /// Maintains the session until the event receiver is dropped.
    pub(super) async fn run(mut self) {
        let mut backoff = Backoff::default();
        loop {
            let error = match self.serve(&mut backoff).await {
                Ok(()) => return,
                Err(error) => error,
            };
            if self.events.send(SessionEvent::Lost { switch: self.switch, error }).await.is_err() {
                return;
            }
            let random = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
            tokio::time::sleep(backoff.next_delay(random)).await;
        }
    }

    /// Runs one session until it fails. Returns `Ok` when the event receiver was dropped (shutdown).
    async fn serve(&self, backoff: &mut Backoff) -> Result<(), ClientError> {
        let session = Session::connect(&self.target, self.options.clone()).await?;
        let (mut mastership, mut stream) = session.arbitrate().await?;
        loop {
            // One slot: at most one echo is in flight per switch.
            let (echoes, mut echo_requests) = mpsc::channel(1);
            let event = match mastership {
                Mastership::Primary => {
                    let pushed = session.push(&self.program).await?;
                    let actual = session.read_all(&self.program.index).await?;
                    let handle =
                        SwitchHandle { session: session.clone(), packets: stream.packet_sender(), echoes };
                    SessionEvent::Ready { switch: self.switch, handle, pushed, actual }
                }
                Mastership::Backup { .. } => SessionEvent::Standby { switch: self.switch },
            };
            backoff.reset();
            if self.events.send(event).await.is_err() {
                return Ok(());
            }
            let mut echo = None;
            mastership = loop {
                tokio::select! {
                    // Poll in source order: packet-ins that arrived before the reply to an echo must be forwarded
                    // before it, or the monitor would count their probes as lost.
                    biased;
                    event = stream.next() => match event? {
                        StreamEvent::Mastership(new) if new != mastership => break new,
                        StreamEvent::Mastership(_) | StreamEvent::Other => {}
                        StreamEvent::Packet(packet) => self.handle_packet_in(packet),
                        StreamEvent::PacketOutRejected => {
                            // Rejections come in large numbers. If the queue is full, it already contains others.
                            let _ = self.messages.try_send(SwitchMessage::PacketOutRejected { switch: self.switch });
                        }
                    },
                    round = echo_reply(&mut echo) => {
                        let reply = SwitchMessage::Echo { switch: self.switch, round: round? };
                        if self.messages.send(reply).await.is_err() {
                            return Ok(());
                        }
                    }
                    Some(round) = echo_requests.recv(), if echo.is_none() => {
                        let session = session.clone();
                        echo = Some(Box::pin(async move { session.echo().await.map(|()| round) }));
                    }
                }
            };
        }
    }

    /// Forwards a probe of this run to the driver, and counts all other packets.
    fn handle_packet_in(&self, packet: PacketIn) {
        let is_port = |id: u32| Some(id) == self.ingress_port_id;
        let port = packet
            .metadata
            .iter()
            .find(|field| is_port(field.metadata_id))
            .and_then(|field| value::to_u64(&field.value));
        let is_own_probe = LinkProbe::parse(&packet.payload).is_some_and(|probe| probe.run_id == self.run_id);
        let port = port.filter(|_| is_own_probe).and_then(|port| u16::try_from(port).ok());
        let message =
            port.map(|port| SwitchMessage::Probe { switch: self.switch, port, frame: packet.payload });
        // The queue is full if probes are replayed faster than the driver handles them.
        if message.is_none_or(|message| self.messages.try_send(message).is_err()) {
            self.unknown_packet_ins.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// An echo in flight, with its round.
type Echo = Pin<Box<dyn Future<Output = Result<u64, ClientError>> + Send>>;

/// Returns the round of the echo when it completes; pends forever if none is in flight.
async fn echo_reply(echo: &mut Option<Echo>) -> Result<u64, ClientError> {
    let Some(request) = echo else { return std::future::pending().await };
    let round = request.await;
    *echo = None;
    round
}
