//! The tokio runtimes of servers and clients.

use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Builds a runtime with `workers` worker threads and up to `blocking` threads for `spawn_blocking`.
///
/// # Errors
///
/// The system does not start the threads, or provides no event queue.
pub fn multi_thread(name: &str, workers: usize, blocking: usize) -> io::Result<Runtime> {
    // Without its worker threads, `build` panics, or blocks for ever if only some of them started. A blocking thread
    // and the caller's own next thread are counted too.
    check_threads(workers + 2)?;
    let runtime = Builder::new_multi_thread()
        .worker_threads(workers)
        .max_blocking_threads(blocking)
        .thread_keep_alive(Duration::MAX)
        .thread_name(name)
        .enable_all()
        .build()?;
    // `spawn_blocking` panics if there is no blocking thread and none can be started. This starts one, which stays.
    runtime.spawn_blocking(|| ());
    Ok(runtime)
}

/// Checks that the system starts `count` more threads at the same time, with room for what they allocate.
fn check_threads(count: usize) -> io::Result<()> {
    // Twice the default. Under a limit of the address space, threads that only wait would leave too little for a runtime's,
    // which allocate as soon as they run.
    const STACK: usize = 4 << 20;
    let gate = Mutex::new(());
    let wait = || drop(gate.lock().unwrap_or_else(PoisonError::into_inner));
    thread::scope(|scope| {
        // The threads end when the gate opens, after the last of them has started.
        let _closed = gate.lock();
        (0..count)
            .try_for_each(|_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, wait).map(drop))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_has_a_blocking_thread() {
        let runtime = multi_thread("test", 2, 1).unwrap();
        assert_eq!(runtime.block_on(async { tokio::task::spawn_blocking(|| 7).await.unwrap() }), 7);
    }
}
