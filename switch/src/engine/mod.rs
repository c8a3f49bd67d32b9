//! A whole switch: the pipeline, the traffic manager behind it, and the replication engine between
//! them. Sans-IO: a driver says what arrived and when a port can send, with the time; everything that
//! follows happens in that call.
//!
//! What happens after ingress and after egress, and in which order, is BMv2's simple_switch
//! (`ingress_thread` and `egress_thread` of simple_switch.cpp):
//!
//! - after ingress: clone, digest, then one of resubmit, multicast, drop, unicast;
//! - after egress: clone, then one of drop, recirculate, send.
//!
//! Unlike there, resubmission and recirculation end at a limit, and a packet for a port that does not
//! exist is dropped: both are counted.

mod config;
mod output;
mod queues;
mod replication;

pub use config::{Clock, SwitchConfig, SwitchConfigError};
pub use output::SwitchOutput;
pub use queues::Queued;
pub use replication::{CloneSession, Replica, ReplicationError};

use crate::drops::{DropReason, Drops};
use crate::packet::Packet;
use crate::pipeline::{
    ClonedPacket, Effects, EgressMeta, EgressVerdict, IngressMeta, NoTrace, Pipeline, Verdict,
};
use crate::program::Program;
use crate::tm::{QueueLimits, Rate, TrafficManager};
use crate::trace::{Step, SwitchTracer};
use queues::{Call, Origin, Queues};
use replication::Replication;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_units::Time;

/// How often a packet may be resubmitted. Ours: in BMv2 nothing ends it.
const MAX_RESUBMITS: u8 = 64;
/// How often a packet, or what it was cloned from, may go through egress and come back. Ours too.
const MAX_PASSES: u8 = 64;

/// A switch. See the [module](self) for what it does.
pub struct Switch {
    pipeline: Pipeline,
    queues: Queues,
    replication: Replication,
    effects: Effects,
    clock: Clock,
    received: u64,
    sent: u64,
}

/// What came to the switch, what it made, and what became of all that, in packets. (Bytes change under
/// way; the traffic manager's counters have them.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchBooks {
    /// Frames that arrived.
    pub received: u64,
    /// Packets the switch made: clones, and replicas beyond the first.
    pub copied: u64,
    /// Frames that left.
    pub sent: u64,
    /// Packets that went nowhere, by reason.
    pub dropped: Drops,
    /// Packets that wait in queues.
    pub queued: u64,
}

impl SwitchBooks {
    /// Whether every packet is accounted for.
    pub fn balance(&self) -> bool {
        self.received + self.copied == self.sent + self.dropped.total().packets + self.queued
    }
}

impl Switch {
    /// A switch as it is when it starts: const entries in place, all else empty. `seed` is what its
    /// `random` draws from.
    pub fn new(program: Arc<Program>, config: SwitchConfig, seed: u64) -> Result<Switch, SwitchConfigError> {
        let queues = Queues::new(&config.queues()?)?;
        let mut pipeline = Pipeline::new(program, seed);
        pipeline.set_drop_port(config.drop_port);
        pipeline.set_ticks_per_second(config.clock.per_second());
        Ok(Switch {
            pipeline,
            queues,
            replication: Replication::default(),
            effects: Effects::default(),
            clock: config.clock,
            received: 0,
            sent: 0,
        })
    }

    /// A frame arrived. Everything that follows up to the queues happens now.
    pub fn receive(&mut self, now: Time, port: u16, packet: Box<Packet>, out: &mut impl SwitchOutput) {
        self.receive_traced(now, port, packet, out, &mut NoTrace);
    }

    /// As [`Switch::receive`], watched.
    pub fn receive_traced<T: SwitchTracer>(
        &mut self,
        now: Time,
        port: u16,
        packet: Box<Packet>,
        out: &mut impl SwitchOutput,
        tracer: &mut T,
    ) {
        self.received += 1;
        tracer.step(Step::Arrived { port, packet: &packet });
        let origin = Origin { port, class: packet.class, passes: 0 };
        self.ingress(&mut Call { now, out, tracer }, packet, origin);
    }

    /// The port's transmitter is free: takes the next packet of its highest priority that is not
    /// paused, runs egress on it, and gives the frame to send. A packet that egress drops or
    /// recirculates makes room for the next.
    ///
    /// `None`: nothing may be sent now. [`Switch::next_ready`] knows whether a rate is the reason;
    /// otherwise [`SwitchOutput::ready`] will be called.
    pub fn transmit(&mut self, now: Time, port: u16, out: &mut impl SwitchOutput) -> Option<Box<Packet>> {
        self.transmit_traced(now, port, out, &mut NoTrace)
    }

    /// As [`Switch::transmit`], watched.
    pub fn transmit_traced<T: SwitchTracer>(
        &mut self,
        now: Time,
        port: u16,
        out: &mut impl SwitchOutput,
        tracer: &mut T,
    ) -> Option<Box<Packet>> {
        let call = &mut Call { now, out, tracer };
        loop {
            let departure = self.queues.dequeue(call, port)?;
            let Queued { mut packet, origin, instance } = departure.item;
            let (enqueued, dequeued) = (self.clock.ticks(departure.enqueued), self.clock.ticks(now));
            let meta = EgressMeta {
                port,
                now: dequeued,
                enq_timestamp: enqueued,
                enq_qdepth: departure.enqueue_depth,
                deq_timedelta: dequeued.saturating_sub(enqueued),
                deq_qdepth: departure.dequeue_depth,
                qid: departure.priority,
                rid: instance,
            };
            call.tracer.step(Step::Dequeued { meta, waited: now.saturating_sub(departure.enqueued) });
            let verdict = self.pipeline.egress_traced(&mut packet, meta, &mut self.effects, call.tracer);
            call.tracer.step(Step::Egress(verdict));
            let again = Origin { passes: origin.passes + 1, ..origin };
            self.side_effects(call, again);
            match verdict {
                EgressVerdict::Send => {
                    self.sent += 1;
                    packet.class = Some(departure.priority);
                    call.tracer.step(Step::Sent { port, packet: &packet });
                    return Some(packet);
                }
                EgressVerdict::Drop => self.drop(call, packet, DropReason::EgressDrop),
                EgressVerdict::Recirculate if again.passes > MAX_PASSES => {
                    self.drop(call, packet, DropReason::RecirculateLimit);
                }
                EgressVerdict::Recirculate => {
                    call.tracer.step(Step::Again { packet: &packet });
                    self.ingress(call, packet, again);
                }
            }
        }
    }

    /// From the parser to the queues.
    fn ingress<O: SwitchOutput, T: SwitchTracer>(
        &mut self,
        call: &mut Call<'_, O, T>,
        mut packet: Box<Packet>,
        origin: Origin,
    ) {
        let meta = IngressMeta { port: origin.port, now: self.clock.ticks(call.now) };
        for _ in 0..=MAX_RESUBMITS {
            let verdict = self.pipeline.ingress_traced(&mut packet, meta, &mut self.effects, call.tracer);
            call.tracer.step(Step::Ingress(verdict));
            self.side_effects(call, origin);
            let pool = &mut self.effects.pool;
            return match verdict {
                Verdict::Resubmit => {
                    call.tracer.step(Step::Again { packet: &packet });
                    continue;
                }
                Verdict::Drop => self.queues.drop(call, pool, packet, DropReason::IngressDrop),
                Verdict::Multicast { group, priority } => {
                    let replicas = self.replication.group(group);
                    self.queues.replicate(call, pool, replicas, priority, packet, origin);
                }
                Verdict::Unicast { port, priority } => {
                    let to = Replica { port, instance: 0 };
                    self.queues.enqueue(call, pool, to, priority, packet, origin);
                }
            };
        }
        self.drop(call, packet, DropReason::ResubmitLimit);
    }

    /// Sends on the clones and digests of the last run.
    fn side_effects<O: SwitchOutput, T: SwitchTracer>(&mut self, call: &mut Call<'_, O, T>, origin: Origin) {
        if self.effects.clones.is_empty() && self.effects.digests.is_empty() {
            return;
        }
        let mut clones = std::mem::take(&mut self.effects.clones);
        for clone in clones.drain(..) {
            self.send_clone(call, clone, origin);
        }
        self.effects.clones = clones;
        for digest in self.effects.digests.drain(..) {
            call.out.digest(digest);
        }
    }

    fn send_clone<O: SwitchOutput, T: SwitchTracer>(
        &mut self,
        call: &mut Call<'_, O, T>,
        clone: ClonedPacket,
        origin: Origin,
    ) {
        let ClonedPacket { session: id, priority, mut packet } = clone;
        let (queues, pool) = (&mut self.queues, &mut self.effects.pool);
        queues.copied += 1;
        call.tracer.step(Step::Cloned { session: id });
        if origin.passes > MAX_PASSES {
            return queues.drop(call, pool, packet, DropReason::RecirculateLimit);
        }
        let Some(session) = self.replication.sessions().get(&id) else {
            return queues.drop(call, pool, packet, DropReason::NoReplicas);
        };
        let priority = session.priority.unwrap_or(priority);
        if let Some(len) = session.truncate {
            packet.phv.truncate = packet.phv.truncate.min(len);
        }
        let group = session.group.map_or(&[][..], |group| self.replication.group(group));
        if group.is_empty() {
            return queues.replicate(call, pool, &session.replicas, priority, packet, origin);
        }
        if !session.replicas.is_empty() {
            queues.copied += 1;
            let copy = pool.copy(&packet);
            queues.replicate(call, pool, group, priority, packet, origin);
            return queues.replicate(call, pool, &session.replicas, priority, copy, origin);
        }
        queues.replicate(call, pool, group, priority, packet, origin);
    }

    fn drop<O: SwitchOutput, T: SwitchTracer>(
        &mut self,
        call: &mut Call<'_, O, T>,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        self.queues.drop(call, &mut self.effects.pool, packet, reason);
    }
}

/// The control surface around the pipeline.
impl Switch {
    /// The pipeline: tables, registers, counters, meters.
    pub fn pipeline(&self) -> &Pipeline {
        &self.pipeline
    }
    /// The pipeline, to change it.
    pub fn pipeline_mut(&mut self) -> &mut Pipeline {
        &mut self.pipeline
    }
    /// The unit of the program's timestamps.
    pub fn clock(&self) -> Clock {
        self.clock
    }
    /// Tells the control surface the time: what is written now has its idle timeout counted from now.
    pub fn set_now(&mut self, now: Time) {
        self.pipeline.set_now(self.clock.ticks(now));
    }
    /// Makes or replaces a multicast group.
    pub fn set_multicast_group(
        &mut self,
        group: u16,
        replicas: Vec<Replica>,
    ) -> Result<(), ReplicationError> {
        self.replication.set_group(group, replicas)
    }
    /// Removes a multicast group. `false` if there was none.
    pub fn delete_multicast_group(&mut self, group: u16) -> bool {
        self.replication.delete_group(group)
    }
    /// All multicast groups.
    pub fn multicast_groups(&self) -> &BTreeMap<u16, Vec<Replica>> {
        self.replication.groups()
    }
    /// Makes or replaces a clone session.
    pub fn set_clone_session(&mut self, id: u16, session: CloneSession) -> Result<(), ReplicationError> {
        self.replication.set_session(id, session)
    }
    /// Removes a clone session. `false` if there was none.
    pub fn delete_clone_session(&mut self, id: u16) -> bool {
        self.replication.delete_session(id)
    }
    /// All clone sessions.
    pub fn clone_sessions(&self) -> &BTreeMap<u16, CloneSession> {
        self.replication.sessions()
    }
    /// A PFC frame arrived from the neighbour on this port. `true` if the port had nothing it could send,
    /// and has now: as if [`SwitchOutput::ready`] had been called.
    pub fn set_paused(&mut self, port: u16, priority: u8, paused: bool) -> bool {
        self.queues.tm.set_paused(port, priority, paused)
    }
    /// When [`Switch::transmit`] has a packet for this port: `None` if nothing waits or all of it is
    /// paused, a moment that may have passed already otherwise.
    pub fn next_ready(&self, port: u16) -> Option<Time> {
        self.queues.tm.next_ready(port)
    }
    /// Sets the rate of a port, or of one of its queues. `false` if there is none.
    pub fn set_rate(&mut self, port: u16, priority: Option<u8>, rate: Rate) -> bool {
        match priority {
            None => self.queues.tm.set_rate(port, rate),
            Some(priority) => self.queues.tm.set_queue_rate(port, priority, rate),
        }
    }
    /// Sets the limits of all queues of a port, or of one. `false` if there is none.
    pub fn set_limits(&mut self, port: u16, priority: Option<u8>, limits: QueueLimits) -> bool {
        match priority {
            None => self.queues.tm.set_limits(port, limits),
            Some(priority) => self.queues.tm.set_queue_limits(port, priority, limits),
        }
    }
}

/// What there is to see.
impl Switch {
    /// Packets waiting at a port, over all priorities.
    pub fn queue_packets(&self, port: u16) -> u32 {
        self.queues.tm.port_level(port).packets
    }
    /// Bytes waiting at a port, over all priorities.
    pub fn queue_bytes(&self, port: u16) -> u64 {
        self.queues.tm.port_level(port).bytes
    }
    /// What was dropped so far, by reason.
    pub fn drops(&self) -> &Drops {
        &self.queues.drops
    }
    /// Returns the counters, in packets.
    pub fn books(&self) -> SwitchBooks {
        SwitchBooks {
            received: self.received,
            copied: self.queues.copied,
            sent: self.sent,
            dropped: self.queues.drops.clone(),
            queued: self.queues.tm.books().queued.packets,
        }
    }
    /// Returns the traffic manager, for levels, peaks and counters of each port.
    pub fn queues(&self) -> &TrafficManager<Queued> {
        &self.queues.tm
    }
    /// Starts the queues' peaks again from what is queued now.
    pub fn reset_peaks(&mut self) {
        self.queues.tm.reset_peaks();
    }
}
