//! Admission control: limits the number of connections and their idle time, and selects the connection that a new one
//! evicts. A connection whose stream takes part in arbitration, such as the primary's, is never evicted.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

#[derive(Clone, Copy, Debug)]
pub struct Limits {
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
            // More than the clients that can have bid (`arbitration::MAX_CLIENTS`), so that there is always one to
            // evict.
            per_peer: 32,
            handshake_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(600),
            read_timeout: Duration::from_secs(30),
        }
    }
}

/// The open connections of a listener.
#[derive(Debug)]
pub struct Admission {
    limits: Limits,
    open: Mutex<ConnectionTable>,
}

#[derive(Debug, Default)]
struct ConnectionTable {
    /// By connection number; numbers are not reused.
    connections: BTreeMap<u64, Arc<ConnectionActivity>>,
    next: u64,
}

/// The calls of a connection, which determine whether it may be evicted or closed.
#[derive(Debug)]
pub struct ConnectionActivity {
    peer: IpAddr,
    calls: Mutex<CallActivity>,
    /// Notified when the connection is evicted.
    evicted: Notify,
    /// Permit for one read of this connection, for which other connections do not compete.
    read_turn: Semaphore,
}

#[derive(Debug)]
struct CallActivity {
    in_progress: usize,
    /// Number of streams that take part in arbitration.
    arbitrating: usize,
    /// True after the first call.
    any: bool,
    /// Time at which the last call began or ended; before the first call, when the connection was accepted.
    last: Instant,
}

/// Classes of connections, in the order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EvictionRank {
    /// No call is in progress.
    Idle,
    Calls,
    /// A stream takes part in arbitration; never evicted.
    Bids,
}

/// Ignores poisoning: no code that runs under these locks can panic in the middle of a change.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Admission {
    pub fn new(limits: Limits) -> Arc<Admission> {
        Arc::new(Admission { limits, open: Mutex::default() })
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Admits a connection, if necessary by evicting another: one without a call in progress before one with a call,
    /// and among these the one with the oldest activity. Returns `None` if all take part in arbitration.
    pub fn admit(self: &Arc<Admission>, peer: IpAddr) -> Option<ConnectionPermit> {
        let mut open = lock(&self.open);
        let from_peer = open.connections.values().filter(|other| other.peer == peer).count();
        if from_peer >= self.limits.per_peer {
            open.evict_one(|other| other.peer == peer)?;
        } else if open.connections.len() >= self.limits.connections {
            open.evict_one(|_| true)?;
        }
        let calls = CallActivity { in_progress: 0, arbitrating: 0, any: false, last: Instant::now() };
        let activity = Arc::new(ConnectionActivity {
            peer,
            calls: Mutex::new(calls),
            evicted: Notify::new(),
            read_turn: Semaphore::new(1),
        });
        let number = open.next;
        open.next += 1;
        open.connections.insert(number, Arc::clone(&activity));
        Some(ConnectionPermit { admission: Arc::clone(self), number, activity })
    }
}

impl ConnectionTable {
    /// Evicts one of the connections selected by `among`. Returns `None` if all of them take part in arbitration.
    fn evict_one(&mut self, among: impl Fn(&ConnectionActivity) -> bool) -> Option<()> {
        let some = self.connections.iter().filter(|(_, connection)| among(connection));
        let ranked = some.map(|(&number, connection)| (connection.rank(), number));
        let ((standing, _), number) = ranked.min()?;
        if standing == EvictionRank::Bids {
            return None;
        }
        let displaced = self.connections.remove(&number)?;
        tracing::debug!(peer = %displaced.peer, "closing a P4Runtime connection in favour of a new one");
        displaced.evicted.notify_one();
        Some(())
    }
}

impl ConnectionActivity {
    /// Returns the eviction rank: the connection with the lowest is evicted first.
    fn rank(&self) -> (EvictionRank, Instant) {
        let calls = lock(&self.calls);
        let standing = match *calls {
            CallActivity { arbitrating: 1.., .. } => EvictionRank::Bids,
            CallActivity { in_progress: 1.., .. } => EvictionRank::Calls,
            _ => EvictionRank::Idle,
        };
        (standing, calls.last)
    }

    /// Registers a call as in progress until the returned guard is dropped.
    pub fn begin_call(self: &Arc<ConnectionActivity>) -> CallGuard {
        let mut calls = lock(&self.calls);
        calls.in_progress += 1;
        calls.any = true;
        calls.last = Instant::now();
        CallGuard { activity: Arc::clone(self), bids: Mutex::new(false) }
    }

    /// Returns the time at which the connection is to be closed as idle; `None` while a call is in progress.
    pub fn deadline(&self, limits: &Limits) -> Option<Instant> {
        let calls = lock(&self.calls);
        let patience = if calls.any { limits.idle_timeout } else { limits.handshake_timeout };
        (calls.in_progress == 0).then(|| calls.last + patience)
    }

    /// Waits until the connection is evicted.
    pub async fn displaced(&self) {
        self.evicted.notified().await;
    }
}

#[derive(Debug)]
pub struct CallGuard {
    activity: Arc<ConnectionActivity>,
    bids: Mutex<bool>,
}

impl CallGuard {
    /// Returns the permit for one read of this connection.
    pub fn read_turn(&self) -> &Semaphore {
        &self.activity.read_turn
    }

    /// Marks the call as a stream that takes part in arbitration, which protects its connection from eviction.
    pub fn mark_arbitrating(&self) {
        let before = std::mem::replace(&mut *lock(&self.bids), true);
        lock(&self.activity.calls).arbitrating += usize::from(!before);
    }
}

impl Drop for CallGuard {
    fn drop(&mut self) {
        let bids = *lock(&self.bids);
        let mut calls = lock(&self.activity.calls);
        calls.in_progress -= 1;
        calls.arbitrating -= usize::from(bids);
        calls.last = Instant::now();
    }
}

/// RAII guard of an admitted connection.
#[derive(Debug)]
pub struct ConnectionPermit {
    admission: Arc<Admission>,
    number: u64,
    pub activity: Arc<ConnectionActivity>,
}

impl ConnectionPermit {
    pub fn limits(&self) -> &Limits {
        self.admission.limits()
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        lock(&self.admission.open).connections.remove(&self.number);
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

    /// Returns whether a connection has been told to go.
    fn gone(place: &ConnectionPermit) -> bool {
        !lock(&place.admission.open).connections.contains_key(&place.number)
    }

    #[test]
    fn the_connection_that_was_idle_longest_is_closed() {
        let admission = admission(3, 3);
        let places: Vec<ConnectionPermit> = (1..=3).map(|n| admission.admit(peer(n)).unwrap()).collect();
        // The first has had a call since, so the second is next.
        drop(places[0].activity.begin_call());
        let fourth = admission.admit(peer(4)).unwrap();
        assert_eq!(places.iter().map(gone).collect::<Vec<_>>(), [false, true, false]);
        let fifth = admission.admit(peer(5)).unwrap();
        assert!(gone(&places[2]) && !gone(&places[0]) && !gone(&fourth));
        drop((fourth, fifth));
        let _again = admission.admit(peer(6)).unwrap();
        assert!(!gone(&places[0]), "there is room again");
    }

    #[test]
    fn calls_keep_a_place_longer_and_bids_for_good() {
        let admission = admission(3, 3);
        let places: Vec<ConnectionPermit> = (1..=3).map(|n| admission.admit(peer(n)).unwrap()).collect();
        let bid = places[0].activity.begin_call();
        bid.mark_arbitrating();
        bid.mark_arbitrating();
        let _call = places[1].activity.begin_call();
        let new: Vec<ConnectionPermit> = (4..=60).map(|n| admission.admit(peer(n)).unwrap()).collect();
        assert!(gone(&places[2]) && new[..56].iter().all(gone));
        assert!(!gone(&places[0]) && !gone(&places[1]));
        // Its stream has ended: it is like the others.
        drop(bid);
        let _calls: Vec<CallGuard> = new[56..].iter().map(|place| place.activity.begin_call()).collect();
        let _more = admission.admit(peer(61)).unwrap();
        assert!(gone(&places[0]));
    }

    #[test]
    fn a_peer_displaces_its_own_connections_only() {
        let admission = admission(4, 2);
        let other = admission.admit(peer(1)).unwrap();
        let many: Vec<ConnectionPermit> = (0..10).map(|_| admission.admit(peer(2)).unwrap()).collect();
        assert!(!gone(&other) && many[..8].iter().all(gone) && !many[8..].iter().any(gone));
    }

    #[test]
    fn a_connection_is_refused_if_all_others_take_part_in_arbitration() {
        let admission = admission(2, 2);
        let places: Vec<ConnectionPermit> = (1..=2).map(|n| admission.admit(peer(n)).unwrap()).collect();
        let calls: Vec<CallGuard> = places.iter().map(|place| place.activity.begin_call()).collect();
        calls.iter().for_each(CallGuard::mark_arbitrating);
        assert!(admission.admit(peer(3)).is_none());
        assert!(!places.iter().any(gone));
    }

    #[tokio::test]
    async fn the_displaced_client_is_notified() {
        let admission = admission(1, 1);
        let first = admission.admit(peer(1)).unwrap();
        let second = admission.admit(peer(1)).unwrap();
        first.activity.displaced().await;
        let limits = admission.limits();
        let accepted = second.activity.deadline(limits).unwrap() - limits.handshake_timeout;
        let call = second.activity.begin_call();
        assert_eq!(second.activity.deadline(limits), None);
        drop(call);
        assert!(second.activity.deadline(limits).unwrap() - limits.idle_timeout >= accepted);
    }
}
