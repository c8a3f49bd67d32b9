//! A switch: the pipeline, the traffic manager, and the replication engine between them. It is sans-IO: a
//! driver passes received frames and the time, and requests the next frame when a port can send. A call has
//! reported all its side effects when it returns.
//!
//! The order of steps is that of BMv2's simple_switch (`ingress_thread` and `egress_thread` in
//! simple_switch.cpp):
//!
//! - after ingress: clone, digest, then one of resubmit, multicast, drop, unicast;
//! - after egress: clone, then one of drop, recirculate, send.
//!
//! Unlike in BMv2, resubmission and recirculation are limited: a packet enters the pipeline again at most 65,535
//! times (see `reentry`). A packet for a port that does not exist is dropped. Both are counted.

#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod api;
mod clones;
mod config;
mod output;
mod reentry;
mod replication;

pub use config::{Clock, SwitchConfig, SwitchConfigError};
pub use output::{ReadyPorts, SwitchOutput};
pub use replication::{CloneSession, Replica, ReplicationError};

use crate::drops::{DropReason, Drops};
use crate::packet::{Packet, PacketPool};
use crate::pipeline::{
    EgressMeta, EgressVerdict, IngressMeta, IngressVerdict, NativeResult, NoTrace, Pipeline, Scratch,
    SideEffects,
};
use crate::program::Program;
use crate::tm::{EnqueueRequest, PauseQuanta, TmConfig, TmConfigError, TrafficManager};
use crate::trace::{Step, SwitchTracer};
use reentry::{Origin, Reentries, ReentryDecision, WaitingPacket};
use replication::Replication;
use std::sync::Arc;
use weir_units::Time;

/// Maximum number of boxes of dropped packets that the switch keeps for copies; further boxes go to the driver.
const MAX_SPARE_PACKETS: usize = 64;

/// A switch: [`receive`](Self::receive) takes received frames, [`transmit`](Self::transmit) returns frames to
/// send. The [module](self) describes the steps.
pub struct Switch {
    pipeline: Pipeline,
    queues: SwitchQueues,
    replication: Replication,
    effects: SideEffects,
    reentries: Reentries,
    /// True after a loop of the program exceeded its budget, until [`Switch::transmit`] has taken note.
    loop_stopped: bool,
    clock: Clock,
    received: u64,
    sent: u64,
}

/// Counters of a switch in packets. The program can change a packet's length, so only the traffic manager
/// counts bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwitchCounters {
    /// Frames passed to [`Switch::receive`].
    pub received: u64,
    /// Packets that the switch created: clones, and replicas beyond the first.
    pub copied: u64,
    /// Frames returned by [`Switch::transmit`].
    pub sent: u64,
    pub dropped: Drops,
    /// Packets in queues, and packets that wait to enter the pipeline again ([`Switch::set_reentry_batch`]).
    pub queued: u64,
}

impl SwitchCounters {
    /// Returns whether `received + copied = sent + dropped + queued`.
    pub fn is_balanced(&self) -> bool {
        self.received + self.copied == self.sent + self.dropped.total().packets + self.queued
    }
}

/// The context of one call by the driver.
struct CallContext<'a, T> {
    now: Time,
    out: &'a mut dyn SwitchOutput,
    tracer: &'a mut T,
}

/// A packet in a queue of the switch.
#[derive(Debug)]
pub struct Queued {
    packet: Box<Packet>,
    origin: Origin,
    /// `standard_metadata.egress_rid`, which distinguishes copies of one packet.
    instance: u16,
}

impl Queued {
    /// Returns the packet. Its bytes are the frame before deparsing.
    pub fn packet(&self) -> &Packet {
        &self.packet
    }
}

/// The pipeline that made a clone.
#[derive(Clone, Copy, Debug)]
enum CloneSource {
    Ingress,
    Egress,
}

impl Switch {
    /// Creates a switch in its initial state: const entries are in place, everything else is empty. `seed`
    /// seeds the random numbers of the program.
    ///
    /// # Errors
    ///
    /// The configuration is invalid: for example, a port is the drop port or is configured twice.
    pub fn new(program: Arc<Program>, config: SwitchConfig, seed: u64) -> Result<Switch, SwitchConfigError> {
        let queues = SwitchQueues::new(&config.tm_config()?)?;
        let mut pipeline = Pipeline::new(program, seed);
        pipeline.set_drop_port(config.drop_port);
        pipeline.set_ticks_per_second(config.clock.ticks_per_second());
        Ok(Switch {
            pipeline,
            queues,
            replication: Replication::default(),
            effects: SideEffects::default(),
            reentries: Reentries::default(),
            loop_stopped: false,
            clock: config.clock,
            received: 0,
            sent: 0,
        })
    }

    /// Processes a frame that arrived at `port`: runs ingress, then queues or drops the packet and its
    /// copies.
    pub fn receive(&mut self, now: Time, port: u16, packet: Box<Packet>, out: &mut impl SwitchOutput) {
        self.receive_untraced(now, port, packet, out);
    }

    /// Same as [`Switch::receive`], with a tracer.
    pub fn receive_traced<T: SwitchTracer>(
        &mut self,
        now: Time,
        port: u16,
        packet: Box<Packet>,
        out: &mut impl SwitchOutput,
        tracer: &mut T,
    ) {
        self.receive_with(CallContext { now, out, tracer }, port, packet);
    }

    /// [`Switch::receive`] without a tracer. Because the output is `dyn`, this is compiled once, in this crate, and
    /// not once per driver.
    fn receive_untraced(&mut self, now: Time, port: u16, packet: Box<Packet>, out: &mut dyn SwitchOutput) {
        self.receive_with(CallContext { now, out, tracer: &mut NoTrace }, port, packet);
    }

    #[inline(always)]
    fn receive_with<T: SwitchTracer>(
        &mut self,
        mut call: CallContext<'_, T>,
        port: u16,
        packet: Box<Packet>,
    ) {
        self.received += 1;
        call.tracer.step(Step::Arrived { port, packet: &packet });
        let origin = Origin { port, class: packet.class, reentries: 0 };
        self.ingress(&mut call, packet, origin);
    }

    /// Prefetches the state of a port at which frames will be queued soon, for drivers of many switches.
    #[inline]
    pub fn prefetch(&self, port: u16) {
        self.queues.tm.prefetch(port);
    }

    /// Exchanges the pipeline's working memory. A thread that runs many switches lends the same memory to
    /// each in turn, so that it stays in the processor's cache.
    #[inline]
    pub fn swap_scratch(&mut self, scratch: &mut Box<Scratch>) {
        self.pipeline.swap_scratch(scratch);
    }

    /// Returns the next frame to send on `port`, whose transmitter must be free: dequeues the next packet of
    /// the highest priority that is not paused and runs egress on it. If egress drops or recirculates it, the
    /// next packet follows.
    ///
    /// Returns `None` if nothing may be sent now (but see [`Switch::set_reentry_batch`]). If the reason is a rate,
    /// [`Switch::next_ready`] returns the time to call again; otherwise [`SwitchOutput::ready`] will be called.
    pub fn transmit(&mut self, now: Time, port: u16, out: &mut impl SwitchOutput) -> Option<Box<Packet>> {
        self.transmit_untraced(now, port, out)
    }

    /// Same as [`Switch::transmit`], with a tracer.
    pub fn transmit_traced<T: SwitchTracer>(
        &mut self,
        now: Time,
        port: u16,
        out: &mut impl SwitchOutput,
        tracer: &mut T,
    ) -> Option<Box<Packet>> {
        self.transmit_with(CallContext { now, out, tracer }, port)
    }

    /// [`Switch::transmit`] without a tracer; see [`Switch::receive_untraced`].
    fn transmit_untraced(&mut self, now: Time, port: u16, out: &mut dyn SwitchOutput) -> Option<Box<Packet>> {
        self.transmit_with(CallContext { now, out, tracer: &mut NoTrace }, port)
    }

    #[inline(always)]
    fn transmit_with<T: SwitchTracer>(
        &mut self,
        mut call: CallContext<'_, T>,
        port: u16,
    ) -> Option<Box<Packet>> {
        let call = &mut call;
        self.dequeue_and_process(call, port)?.or_else(|| self.transmit_next(call, port))
    }

    /// Dequeues until egress sends a packet. Out of line, because few packets are dropped in egress. If the driver
    /// has set a batch size, this also stops after a packet whose loop did not terminate: each takes milliseconds.
    #[cold]
    #[inline(never)]
    fn transmit_next<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        port: u16,
    ) -> Option<Box<Packet>> {
        while !(std::mem::take(&mut self.loop_stopped) && self.reentries.is_batched()) {
            if let Some(packet) = self.dequeue_and_process(call, port)? {
                return Some(packet);
            }
        }
        None
    }

    /// Dequeues the next packet of a port and runs egress on it. The outer `None`: nothing may be sent now.
    /// The inner one: egress did not send the packet.
    #[inline(always)]
    fn dequeue_and_process<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        port: u16,
    ) -> Option<Option<Box<Packet>>> {
        // Prefetch the packet that is dequeued next: it has probably left the processor's cache since it was queued.
        let departure = self.queues.tm.dequeue(call.now, port, |next| next.packet.prefetch())?;
        // Resume the paused neighbour that sent the packet, if PFC permits.
        if let Some((neighbour, priority)) = departure.resume {
            call.out.pause(neighbour, priority, PauseQuanta::RESUME);
        }
        let Queued { mut packet, origin, instance } = departure.item;
        let (enqueued, dequeued) = (self.clock.ticks(departure.enqueued), self.clock.ticks(call.now));
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
        call.tracer.step(Step::Dequeued { meta, waited: call.now.saturating_sub(departure.enqueued) });
        let sent = match self.pipeline.start_egress::<T>(&mut packet, meta) {
            // `Done` means that the machine code completed egress, so there are no side effects.
            NativeResult::Done(EgressVerdict::Send) => Some(packet),
            outcome => self.finish_egress(call, packet, origin, meta, outcome),
        };
        Some(sent.map(|mut packet| {
            self.sent += 1;
            packet.class = Some(departure.priority);
            call.tracer.step(Step::Sent { port, packet: &packet });
            packet
        }))
    }

    /// Completes egress after machine code, and carries out the verdict. Returns the packet if it is to be
    /// sent.
    #[inline(never)]
    fn finish_egress<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        mut packet: Box<Packet>,
        origin: Origin,
        meta: EgressMeta,
        outcome: NativeResult<EgressVerdict>,
    ) -> Option<Box<Packet>> {
        let verdict = self.pipeline.finish_egress(outcome, &mut packet, meta, &mut self.effects, call.tracer);
        call.tracer.step(Step::Egress(verdict));
        self.flush_effects(call, origin, CloneSource::Egress);
        match verdict {
            EgressVerdict::Send => return Some(packet),
            EgressVerdict::Drop => self.drop(call, packet, DropReason::EgressDrop),
            EgressVerdict::Abort(reason) => self.abort(call, packet, reason),
            EgressVerdict::Recirculate => {
                let mut origin = origin;
                match self.reentries.admit(&mut origin, self.received) {
                    ReentryDecision::Now => {
                        call.tracer.step(Step::Reentered { packet: &packet });
                        self.ingress(call, packet, origin);
                    }
                    ReentryDecision::Later => {
                        self.defer_reentry(call, WaitingPacket::Ingress(packet), origin)
                    }
                    ReentryDecision::Refused => self.drop_reentry(call, packet, DropReason::RecirculateLimit),
                }
            }
        }
        None
    }

    /// Bounds the duration of calls whatever the program does, for a driver that has other work. Until the next call
    /// of [`Switch::run_reentries`], at most `passes` packets enter the pipeline again (by resubmission,
    /// recirculation or a clone in egress). Further ones wait, and [`SwitchOutput::reentry_deferred`] is called.
    /// After [`SwitchOutput::loop_stopped`], [`Switch::transmit`] may return `None` although the time of
    /// [`Switch::next_ready`] has come. By default no packet waits.
    pub fn set_reentry_batch(&mut self, passes: u32) {
        self.reentries.set_batch(passes);
    }

    /// Runs packets that wait, at most as many as [`Switch::set_reentry_batch`] allows. Returns whether packets still
    /// wait.
    pub fn run_reentries(&mut self, now: Time, out: &mut impl SwitchOutput) -> bool {
        self.run_reentries_with(&mut CallContext { now, out, tracer: &mut NoTrace })
    }

    /// Same as [`Switch::run_reentries`], with a tracer.
    pub fn run_reentries_traced<T: SwitchTracer>(
        &mut self,
        now: Time,
        out: &mut impl SwitchOutput,
        tracer: &mut T,
    ) -> bool {
        self.run_reentries_with(&mut CallContext { now, out, tracer })
    }

    fn run_reentries_with<T: SwitchTracer>(&mut self, call: &mut CallContext<'_, T>) -> bool {
        self.reentries.start_batch();
        while let Some((packet, origin)) = self.reentries.next() {
            match packet {
                WaitingPacket::Ingress(packet) => {
                    call.tracer.step(Step::Reentered { packet: &packet });
                    self.ingress(call, packet, origin);
                }
                WaitingPacket::Clone(clone) => self.queue_clone(call, clone, origin),
            }
        }
        !self.reentries.waiting.is_empty()
    }

    /// Lets a packet wait for the next batch.
    #[cold]
    fn defer_reentry<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        packet: WaitingPacket,
        origin: Origin,
    ) {
        self.reentries.waiting.push_back((packet, origin));
        call.out.reentry_deferred();
    }

    /// Drops a packet for which the program was stopped: a loop exceeded its budget, or an assertion failed.
    #[cold]
    fn abort<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        if matches!(reason, DropReason::ParserLoop | DropReason::ActionLoop) {
            if self.queues.drops.get(reason).packets == 0 {
                call.out.warn(format!(
                    "a packet is dropped ({}) because a loop of the program did not end; further ones are only counted",
                    reason.name()
                ));
            }
            self.loop_stopped = true;
            call.out.loop_stopped();
        }
        if let Some(assertion) = self.pipeline.take_first_failure() {
            call.out.warn(format!(
                "assertion failed: {assertion}; the packet is dropped, further ones that fail it are only counted"
            ));
        }
        self.drop(call, packet, reason);
    }

    /// Drops a packet that may not enter the pipeline again.
    #[cold]
    fn drop_reentry<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        if self.queues.drops.get(reason).packets == 0 {
            call.out.warn(reentry::warning(reason));
        }
        self.drop(call, packet, reason);
    }

    /// Runs ingress on a packet and carries out the verdict.
    #[inline(always)]
    fn ingress<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        mut packet: Box<Packet>,
        origin: Origin,
    ) {
        let meta = IngressMeta { port: origin.port, now: self.clock.ticks(call.now) };
        match self.pipeline.start_ingress::<T>(&mut packet, meta) {
            // `Done` means that the machine code completed ingress, so there are no side effects.
            NativeResult::Done(IngressVerdict::Unicast { port, priority }) => {
                let to = Replica { port, instance: 0 };
                self.queues.enqueue(call, &mut self.effects.pool, to, priority, packet, origin);
            }
            outcome => self.finish_ingress(call, packet, origin, meta, outcome),
        }
    }

    /// Completes ingress after machine code, and carries out the verdict.
    #[inline(never)]
    fn finish_ingress<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        mut packet: Box<Packet>,
        mut origin: Origin,
        meta: IngressMeta,
        mut outcome: NativeResult<IngressVerdict>,
    ) {
        loop {
            let (effects, tracer) = (&mut self.effects, &mut *call.tracer);
            let verdict = self.pipeline.finish_ingress(outcome, &mut packet, meta, effects, tracer);
            call.tracer.step(Step::Ingress(verdict));
            self.flush_effects(call, origin, CloneSource::Ingress);
            let pool = &mut self.effects.pool;
            return match verdict {
                IngressVerdict::Resubmit => match self.reentries.admit(&mut origin, self.received) {
                    ReentryDecision::Now => {
                        call.tracer.step(Step::Reentered { packet: &packet });
                        outcome = self.pipeline.start_ingress::<T>(&mut packet, meta);
                        continue;
                    }
                    ReentryDecision::Later => {
                        self.defer_reentry(call, WaitingPacket::Ingress(packet), origin)
                    }
                    ReentryDecision::Refused => self.drop_reentry(call, packet, DropReason::ResubmitLimit),
                },
                IngressVerdict::Drop => self.queues.drop(call, pool, packet, DropReason::IngressDrop),
                IngressVerdict::Abort(reason) => self.abort(call, packet, reason),
                IngressVerdict::Multicast { group, priority } => {
                    let replicas = self.replication.group(group);
                    self.queues.replicate(call, pool, replicas, priority, packet, origin);
                }
                IngressVerdict::Unicast { port, priority } => {
                    let to = Replica { port, instance: 0 };
                    self.queues.enqueue(call, pool, to, priority, packet, origin);
                }
            };
        }
    }

    /// Queues the clones and sends the digests that ingress or egress has just made.
    #[inline]
    fn flush_effects<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        origin: Origin,
        source: CloneSource,
    ) {
        if !self.effects.clones.is_empty() || !self.effects.digests.is_empty() {
            self.send_effects(call, origin, source);
        }
    }

    fn drop<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        self.queues.drop(call, &mut self.effects.pool, packet, reason);
    }
}

/// The traffic manager with the engine's bookkeeping: reports ready ports and pauses to the driver, counts dropped
/// packets and reuses their boxes.
struct SwitchQueues {
    tm: TrafficManager<Queued>,
    drops: Drops,
    /// Packets that the switch created: clones, and replicas beyond the first.
    copied: u64,
}

impl SwitchQueues {
    fn new(config: &TmConfig) -> Result<SwitchQueues, TmConfigError> {
        Ok(SwitchQueues { tm: TrafficManager::new(config)?, drops: Drops::default(), copied: 0 })
    }

    /// Counts a packet as dropped and recycles its box.
    #[cold]
    fn drop<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        packet: Box<Packet>,
        reason: DropReason,
    ) {
        call.tracer.step(Step::Dropped(reason));
        self.drops.count(reason, packet.len());
        if pool.len() < MAX_SPARE_PACKETS {
            pool.put(packet);
        } else {
            call.out.recycle(packet);
        }
    }

    /// Queues a packet, or drops it if the traffic manager rejects it.
    #[inline(always)]
    fn enqueue<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        to: Replica,
        priority: u8,
        packet: Box<Packet>,
        origin: Origin,
    ) {
        let ingress_priority = origin.class.unwrap_or(priority);
        let request = EnqueueRequest {
            ingress: origin.port,
            ingress_priority,
            egress: to.port,
            priority,
            len: packet.len(),
        };
        if T::ENABLED {
            let depth = self.tm.queue_occupancy(to.port, priority).packets;
            call.tracer.step(Step::Queued { port: to.port, priority, instance: to.instance, depth });
        }
        match self.tm.enqueue(call.now, request, Queued { packet, origin, instance: to.instance }) {
            // The neighbour is paused for the class in which it sent the packet, not for the egress priority.
            Ok(admission) => {
                if admission.ready {
                    call.out.ready(to.port);
                }
                if admission.pause {
                    call.out.pause(origin.port, ingress_priority, self.tm.pause_quanta());
                }
            }
            Err(rejected) => self.drop(call, pool, rejected.item.packet, rejected.reason),
        }
    }

    /// Queues a copy for every replica; the packet itself is the last copy.
    fn replicate<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        pool: &mut PacketPool,
        replicas: &[Replica],
        priority: u8,
        packet: Box<Packet>,
        origin: Origin,
    ) {
        let Some((&last, copies)) = replicas.split_last() else {
            return self.drop(call, pool, packet, DropReason::NoReplicas);
        };
        for &to in copies {
            let copy = pool.copy(&packet);
            self.copied += 1;
            self.enqueue(call, pool, to, priority, copy, origin);
        }
        self.enqueue(call, pool, last, priority, packet, origin);
    }
}
