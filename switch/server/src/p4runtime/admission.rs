//! Admission control: limits the number of connections and their idle time, and selects the connection that a new one
//! evicts. A connection whose stream takes part in arbitration, such as the primary's, is never evicted.

use super::sync::lock;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Maximum number of connections. A further one evicts another.
    pub connections: usize,
    /// Maximum number of connections from one address. A further one evicts another from the same address.
    pub per_peer: usize,
    /// Time from accepting a connection to its first call, including the setup of TCP, TLS and HTTP/2.
    pub handshake_timeout: Duration,
    /// Time without a call after which a connection is closed. gRPC clients reconnect on their next call.
    pub idle_timeout: Duration,
    /// Time without a received byte, including replies to pings, after which a connection is closed.
    pub read_timeout: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 128,
            // More than the clients that can take part in arbitration (`arbitration::MAX_CLIENTS`), so that there is
            // always one to evict.
            per_peer: 32,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(600),
            read_timeout: Duration::from_secs(30),
        }
    }
}

/// The open connections of a listener.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    open: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    /// By id; ids are not reused.
    connections: BTreeMap<u64, Arc<ConnectionActivity>>,
    next_id: u64,
}

/// A connection and the activity of its calls, which decides whether the connection may be evicted or closed.
#[derive(Debug)]
pub(super) struct ConnectionActivity {
    peer: IpAddr,
    calls: Mutex<CallActivity>,
    /// Notified when the connection is evicted.
    evicted: Notify,
    /// Permit for one read of this connection. Other connections do not compete for it.
    read_permit: Semaphore,
}

#[derive(Debug)]
struct CallActivity {
    /// Number of calls, including streams, that have not ended.
    in_progress: usize,
    /// Number of streams that take part in arbitration.
    arbitrating: usize,
    /// True after the first call.
    had_call: bool,
    /// Time at which the last call began or ended; before the first call, when the connection was accepted.
    last_change: Instant,
}

/// Classes of connections, in the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    /// No call is in progress.
    Idle,
    /// A call is in progress.
    InCall,
    /// A stream takes part in arbitration; never evicted.
    Arbitrating,
}

impl Admission {
    pub(super) fn new(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission { limits, open: Mutex::default() })
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Admits a connection, if necessary by evicting another: one without a call in progress before one with a call,
    /// and among these the one with the oldest activity. Returns `None` if all take part in arbitration.
    pub(super) fn admit(self: &Arc<Admission>, peer: IpAddr) -> Option<ConnectionPermit> {
        let mut open = lock(&self.open);
        let from_peer = open.connections.values().filter(|other| other.peer == peer).count();
        if from_peer >= self.limits.per_peer {
            open.evict_one(|other| other.peer == peer)?;
        } else if open.connections.len() >= self.limits.connections {
            open.evict_one(|_| true)?;
        }
        let calls =
            CallActivity { in_progress: 0, arbitrating: 0, had_call: false, last_change: Instant::now() };
        let activity = Arc::new(ConnectionActivity {
            peer,
            calls: Mutex::new(calls),
            evicted: Notify::new(),
            read_permit: Semaphore::new(1),
        });
        let id = open.next_id;
        open.next_id += 1;
        open.connections.insert(id, Arc::clone(&activity));
        Some(ConnectionPermit { admission: Arc::clone(self), id, activity })
    }
}

impl ConnectionTable {
    /// Evicts one of the connections selected by `is_candidate`. Returns `None` if all of them take part in
    /// arbitration.
    fn evict_one(&mut self, is_candidate: impl Fn(&ConnectionActivity) -> bool) -> Option<()> {
        let candidates = self.connections.iter().filter(|(_, connection)| is_candidate(connection));
        let ranked = candidates.map(|(&id, connection)| (connection.rank(), id));
        let ((rank, _), id) = ranked.min()?;
        if rank == EvictionRank::Arbitrating {
            return None;
        }
        let evicted = self.connections.remove(&id)?;
        tracing::debug!(peer = %evicted.peer, "closing a P4Runtime connection in favour of a new one");
        evicted.evicted.notify_one();
        Some(())
    }
}

impl ConnectionActivity {
    /// Returns the rank and the time of the last activity. The connection with the lowest pair is evicted first.
    fn rank(&self) -> (EvictionRank, Instant) {
        let calls = lock(&self.calls);
        let rank = match *calls {
            CallActivity { arbitrating: 1.., .. } => EvictionRank::Arbitrating,
            CallActivity { in_progress: 1.., .. } => EvictionRank::InCall,
            _ => EvictionRank::Idle,
        };
        (rank, calls.last_change)
    }

    /// Registers a call as in progress until the returned guard is dropped.
    pub(super) fn begin_call(self: &Arc<ConnectionActivity>) -> CallGuard {
        let mut calls = lock(&self.calls);
        calls.in_progress += 1;
        calls.had_call = true;
        calls.last_change = Instant::now();
        CallGuard { activity: Arc::clone(self), is_arbitrating: Mutex::new(false) }
    }

    /// Returns the time at which the connection is to be closed as idle; `None` while a call is in progress.
    pub(super) fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let calls = lock(&self.calls);
        let timeout = if calls.had_call { limits.idle_timeout } else { limits.handshake_timeout };
        (calls.in_progress == 0).then(|| calls.last_change + timeout)
    }

    /// Waits until the connection is evicted.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }
}

/// Counts a call as in progress until it is dropped.
#[derive(Debug)]
pub(super) struct CallGuard {
    activity: Arc<ConnectionActivity>,
    is_arbitrating: Mutex<bool>,
}

impl CallGuard {
    /// Returns the permit for one read of this connection.
    pub(super) fn read_permit(&self) -> &Semaphore {
        &self.activity.read_permit
    }

    /// Marks the call as a stream that takes part in arbitration, which protects its connection from eviction.
    pub(super) fn mark_arbitrating(&self) {
        let was_arbitrating = std::mem::replace(&mut *lock(&self.is_arbitrating), true);
        lock(&self.activity.calls).arbitrating += usize::from(!was_arbitrating);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let is_arbitrating = *lock(&self.is_arbitrating);
        let mut calls = lock(&self.activity.calls);
        calls.in_progress -= 1;
        calls.arbitrating -= usize::from(is_arbitrating);
        calls.last_change = Instant::now();
    }
}

/// RAII guard of an admitted connection.
#[derive(Debug)]
pub(super) struct ConnectionPermit {
    admission: Arc<Admission>,
    id: u64,
    pub activity: Arc<ConnectionActivity>,
}

impl ConnectionPermit {
    pub(super) fn limits(&self) -> &Limits {
        self.admission.limits()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.admission.open).connections.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn peer(number: u8) -> IpAddr {
        Ipv4Addr::new(10, 0, 0, number).into()
    }

    fn admission(connections: usize, per_peer: usize) -> Arc<Admission> {
        Admission::new(Limits { connections, per_peer, ..Limits::default() })
    }

    fn is_evicted(permit: &ConnectionPermit) -> bool {
        !lock(&permit.admission.open).connections.contains_key(&permit.id)
    }

    #[test]
    fn the_connection_that_was_idle_longest_is_evicted() {
        let admission = admission(3, 3);
        let permits: Vec<ConnectionPermit> = (1..=3).map(|n| admission.admit(peer(n)).unwrap()).collect();
        // The first has had a call since, so the second is evicted first.
        drop(permits[0].activity.begin_call());
        let fourth = admission.admit(peer(4)).unwrap();
        assert_eq!(permits.iter().map(is_evicted).collect::<Vec<_>>(), [false, true, false]);
        let fifth = admission.admit(peer(5)).unwrap();
        assert!(is_evicted(&permits[2]) && !is_evicted(&permits[0]) && !is_evicted(&fourth));
        drop((fourth, fifth));
        let _again = admission.admit(peer(6)).unwrap();
        assert!(!is_evicted(&permits[0]), "closed connections leave room");
    }

    #[test]
    fn connections_with_calls_are_evicted_later_and_arbitrating_ones_never() {
        let admission = admission(3, 3);
        let permits: Vec<ConnectionPermit> = (1..=3).map(|n| admission.admit(peer(n)).unwrap()).collect();
        let bid = permits[0].activity.begin_call();
        bid.mark_arbitrating();
        bid.mark_arbitrating();
        let _call = permits[1].activity.begin_call();
        let new: Vec<ConnectionPermit> = (4..=60).map(|n| admission.admit(peer(n)).unwrap()).collect();
        assert!(is_evicted(&permits[2]) && new[..56].iter().all(is_evicted));
        assert!(!is_evicted(&permits[0]) && !is_evicted(&permits[1]));
        // Its stream has ended: it can be evicted like the others.
        drop(bid);
        let _calls: Vec<CallGuard> = new[56..].iter().map(|permit| permit.activity.begin_call()).collect();
        let _more = admission.admit(peer(61)).unwrap();
        assert!(is_evicted(&permits[0]));
    }

    #[test]
    fn a_peer_evicts_only_its_own_connections() {
        let admission = admission(4, 2);
        let other = admission.admit(peer(1)).unwrap();
        let many: Vec<ConnectionPermit> = (0..10).map(|_| admission.admit(peer(2)).unwrap()).collect();
        assert!(!is_evicted(&other) && many[..8].iter().all(is_evicted) && !many[8..].iter().any(is_evicted));
    }

    #[test]
    fn a_connection_is_rejected_if_all_others_take_part_in_arbitration() {
        let admission = admission(2, 2);
        let permits: Vec<ConnectionPermit> = (1..=2).map(|n| admission.admit(peer(n)).unwrap()).collect();
        let calls: Vec<CallGuard> = permits.iter().map(|permit| permit.activity.begin_call()).collect();
        calls.iter().for_each(CallGuard::mark_arbitrating);
        assert!(admission.admit(peer(3)).is_none());
        assert!(!permits.iter().any(is_evicted));
    }

    #[tokio::test]
    async fn an_evicted_connection_is_notified() {
        let admission = admission(1, 1);
        let first = admission.admit(peer(1)).unwrap();
        let second = admission.admit(peer(1)).unwrap();
        first.activity.evicted().await;
        let limits = admission.limits();
        let accepted = second.activity.deadline(limits).unwrap() - limits.handshake_timeout;
        let call = second.activity.begin_call();
        assert_eq!(second.activity.deadline(limits), None);
        drop(call);
        assert!(second.activity.deadline(limits).unwrap() - limits.idle_timeout >= accepted);
    }
}
