//! The session with one switch, for ever.

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

/// A message of a keeper.
pub enum Event {
    /// The switch is ours, runs the program and holds this.
    Ready { at: SwitchIx, link: SwitchHandle, pushed: bool, actual: Vec<Entity> },
    /// Another controller has it.
    Standby { at: SwitchIx },
    /// It cannot be reached, or no more.
    Lost { at: SwitchIx, error: ClientError },
    /// Its ports and whether each is up; `None` if it does not tell.
    Ports { at: SwitchIx, ports: Option<Vec<(u16, bool)>> },
}

/// A switch that is under control.
pub struct SwitchHandle {
    pub session: Session,
    pub packets: PacketSender,
    /// Takes the number of a round, to be returned as [`SwitchMessage::Echo`] when the switch has answered.
    pub echoes: mpsc::Sender<u64>,
}

/// A message of a switch, in the order of arrival.
pub enum SwitchMessage {
    /// A packet-in that may be a probe.
    Probe { at: SwitchIx, port: u16, frame: Vec<u8> },
    /// The answer to a request.
    Echo { at: SwitchIx, round: u64 },
    /// A packet-out was not taken.
    Refused { at: SwitchIx },
}

/// Configuration of a keeper.
pub struct SessionTask {
    pub at: SwitchIx,
    pub target: Target,
    pub program: Arc<Program>,
    pub options: ClientOptions,
    /// Of this run: packet-ins with another number are not passed on.
    pub run: u64,
    /// The P4Runtime id of the packet-in's ingress port.
    pub ingress_port: Option<u32>,
    pub events: mpsc::Sender<Event>,
    pub heard: mpsc::Sender<SwitchMessage>,
    /// Packet-ins that were not passed on.
    pub strange: Arc<AtomicU64>,
    pub random: Pcg64Mcg,
}

impl SessionTask {
    /// Keeps the session with the switch, until the receiver of events is dropped.
    pub async fn run(mut self) {
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
            tokio::time::sleep(backoff.next_delay(random)).await;
        }
    }

    /// One session. `Ok` if nobody listens any more.
    async fn serve(&self, backoff: &mut Backoff) -> Result<(), ClientError> {
        let session = Session::connect(&self.target, self.options.clone()).await?;
        let (mut standing, mut stream) = session.arbitrate().await?;
        loop {
            let (echoes, mut asked) = mpsc::channel(1);
            let event = match standing {
                Mastership::Primary => {
                    let pushed = session.push(&self.program).await?;
                    let actual = session.read_all(&self.program.index).await?;
                    let link = SwitchHandle { session: session.clone(), packets: stream.packets(), echoes };
                    Event::Ready { at: self.at, link, pushed, actual }
                }
                Mastership::Backup { .. } => Event::Standby { at: self.at },
            };
            backoff.reset();
            if self.events.send(event).await.is_err() {
                return Ok(());
            }
            let mut echo = None;
            standing = loop {
                tokio::select! {
                    // What came before an answer is passed on before it.
                    biased;
                    event = stream.next() => match event? {
                        StreamEvent::Standing(now) if now != standing => break now,
                        StreamEvent::Standing(_) | StreamEvent::Other => {}
                        StreamEvent::Packet(packet) => self.handle_packet_in(packet),
                        StreamEvent::PacketRefused => {
                            // Packet-outs are refused by the dozen: what finds the queue full adds nothing.
                            let _ = self.heard.try_send(SwitchMessage::Refused { at: self.at });
                        }
                    },
                    answer = answered(&mut echo) => {
                        let answer = SwitchMessage::Echo { at: self.at, round: answer? };
                        if self.heard.send(answer).await.is_err() {
                            return Ok(());
                        }
                    }
                    Some(round) = asked.recv(), if echo.is_none() => {
                        let session = session.clone();
                        echo = Some(Box::pin(async move { session.echo().await.map(|()| round) }));
                    }
                }
            };
        }
    }

    fn handle_packet_in(&self, packet: PacketIn) {
        let is_port = |id: u32| Some(id) == self.ingress_port;
        let port =
            packet.metadata.iter().find(|it| is_port(it.metadata_id)).and_then(|it| value::to_u64(&it.value));
        let ours = LinkProbe::parse(&packet.payload).is_some_and(|probe| probe.run == self.run);
        let heard = port.filter(|_| ours).and_then(|port| u16::try_from(port).ok());
        let passed = heard.map(|port| SwitchMessage::Probe { at: self.at, port, frame: packet.payload });
        // A full queue: somebody plays probes back faster than they are looked at.
        if passed.is_none_or(|heard| self.heard.try_send(heard).is_err()) {
            self.strange.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// A request of a round in progress.
type Echo = Pin<Box<dyn Future<Output = Result<u64, ClientError>> + Send>>;

/// Returns the round whose request was answered; never if none is in progress.
async fn answered(echo: &mut Option<Echo>) -> Result<u64, ClientError> {
    let Some(asked) = echo else { return std::future::pending().await };
    let answer = asked.await;
    *echo = None;
    answer
}
