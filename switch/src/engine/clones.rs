//! What a program requests beside the way of the packet itself: clones and digests.

use super::reentry::{Origin, ReentryDecision, WaitingPacket};
use super::{CallContext, CloneSource, Switch};
use crate::drops::DropReason;
use crate::pipeline::ClonedPacket;
use crate::trace::{Step, SwitchTracer};

impl Switch {
    /// Queues the clones and sends the digests of a run of ingress or egress.
    #[cold]
    pub(super) fn send_effects<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        origin: Origin,
        source: CloneSource,
    ) {
        let mut clones = std::mem::take(&mut self.effects.clones);
        for clone in clones.drain(..) {
            self.send_clone(call, clone, origin, source);
        }
        self.effects.clones = clones;
        for digest in self.effects.digests.drain(..) {
            call.out.digest(digest);
        }
    }

    fn send_clone<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        clone: ClonedPacket,
        mut origin: Origin,
        source: CloneSource,
    ) {
        self.queues.copied += 1;
        call.tracer.step(Step::Cloned { session: clone.session });
        // A clone made in egress runs egress again and can make the next. It counts as recirculated, so that such a
        // chain ends.
        let decision = match source {
            CloneSource::Ingress => ReentryDecision::Now,
            CloneSource::Egress => self.reentries.admit(&mut origin, self.received),
        };
        match decision {
            ReentryDecision::Now => self.queue_clone(call, clone, origin),
            ReentryDecision::Later => self.defer_reentry(call, WaitingPacket::Clone(clone), origin),
            ReentryDecision::Refused => self.drop_reentry(call, clone.packet, DropReason::RecirculateLimit),
        }
    }

    /// Queues a clone at the ports of its session.
    pub(super) fn queue_clone<T: SwitchTracer>(
        &mut self,
        call: &mut CallContext<'_, T>,
        clone: ClonedPacket,
        origin: Origin,
    ) {
        let ClonedPacket { session: id, priority, mut packet } = clone;
        let (queues, pool) = (&mut self.queues, &mut self.effects.pool);
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
}
