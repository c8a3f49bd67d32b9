//! Ctrl-C: whether the process was asked to end, and what it leaves.

use crate::console::Failure;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use weir_testbed::Signals;

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// Ctrl-C belongs to a child that has the terminal.
static TERMINAL_LENT: AtomicBool = AtomicBool::new(false);

/// Signals that follow the first within this time are the same request: `timeout` sends one to its child and then one to
/// the child's process group, terminals and service managers do the like.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Time of the first signal.
static FIRST: OnceLock<Instant> = OnceLock::new();

/// Directory of the results so far, in case the process ends at once.
static RESULTS_DIR: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Lets Ctrl-C, SIGTERM and SIGHUP break a run off at its next step. A second request ends the process at once.
///
/// # Errors
///
/// If the signals cannot be caught.
pub fn catch_ctrl_c() -> Result<(), Failure> {
    let handler = || {
        if TERMINAL_LENT.load(Ordering::SeqCst) {
            return;
        }
        INTERRUPTED.store(true, Ordering::SeqCst);
        if FIRST.get_or_init(Instant::now).elapsed() >= DEBOUNCE {
            if let Some(dir) = RESULTS_DIR.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
                let _ = writeln!(
                    io::stderr(),
                    "interrupted twice: {} has the results that were saved",
                    dir.display()
                );
            }
            process::exit(130);
        }
    };
    ctrlc::set_handler(handler).map_err(|error| Failure::Work(format!("Ctrl-C cannot be caught: {error}")))
}

/// Lets a write beyond the limit of a file's size (`ulimit -f`) fail as on a full disk; by default SIGXFSZ ends the process.
pub fn catch_file_limit() {
    // Only signals that cannot be caught are refused.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Notes that `dir` has the results up to now, for the message of a process that ends at once.
pub fn set_results_dir(dir: &Path) {
    *RESULTS_DIR.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
}

/// Returns whether the process was asked to end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Asks the process to end as the first Ctrl-C does: the key of a view that has the terminal to itself.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Leaves Ctrl-C to a child that has the terminal, or takes it back.
pub fn lend_terminal(to_child: bool) {
    TERMINAL_LENT.store(to_child, Ordering::SeqCst);
}

/// This process's signals, for a testbed.
pub const SIGNALS: Signals = Signals { is_cancelled: interrupted, lend_terminal };
