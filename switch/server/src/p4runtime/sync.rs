//! Locks of the server.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Ignores poisoning. The connections of [`admission`](super::admission) are never left half changed, since no code
/// that runs under their locks can panic. If an operation on a device panics, its caller gets an error, and its changes
/// up to then are kept.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
