//! Handling of Ctrl-C, SIGTERM and SIGHUP: the interrupt flag, and the message about saved results.

use crate::console::Failure;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
#[cfg(feature = "full")]
use weir_testbed::Signals;

/// True once a stop was requested.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);
/// True while a child process (Mininet's command line) owns the terminal: Ctrl-C is then for the child.
static TERMINAL_LENT: AtomicBool = AtomicBool::new(false);

/// Further signals within this time after the first are part of the same request: `timeout` signals its child
/// and then the child's process group, and terminals and service managers do likewise.
const DEBOUNCE: Duration = Duration::from_millis(500);

/// Time of the first signal.
static FIRST_SIGNAL: OnceLock<Instant> = OnceLock::new();

/// Directory of the results so far, for the message at an immediate exit.
static RESULTS_DIR: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Installs a handler of Ctrl-C, SIGTERM and SIGHUP. The first request stops the run at its next step; a
/// second one, at least `DEBOUNCE` later, exits immediately.
///
/// # Errors
///
/// If the handler cannot be installed.
pub fn catch_ctrl_c() -> Result<(), Failure> {
    let handler = || {
        if TERMINAL_LENT.load(Ordering::SeqCst) {
            return;
        }
        INTERRUPTED.store(true, Ordering::SeqCst);
        if FIRST_SIGNAL.get_or_init(Instant::now).elapsed() >= DEBOUNCE {
            if let Some(dir) = RESULTS_DIR.lock().unwrap_or_else(PoisonError::into_inner).as_deref() {
                let _ = writeln!(io::stderr(), "interrupted twice: {} has the saved results", dir.display());
            }
            process::exit(130);
        }
    };
    on_signal(handler)
}

/// Calls `handler` on a thread of its own for each Ctrl-C, SIGTERM and SIGHUP.
///
/// # Errors
///
/// If the handler cannot be installed.
pub fn on_signal(handler: impl FnMut() + Send + 'static) -> Result<(), Failure> {
    ctrlc::set_handler(handler).map_err(|error| match error {
        ctrlc::Error::System(error) => Failure::Work(format!("cannot install signal handler: {error}")),
        other => Failure::Work(format!("cannot install signal handler: {other}")),
    })
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like a write to a full disk; by default SIGXFSZ kills
/// the process.
pub fn catch_file_limit() {
    // Registration fails only for signals that cannot be caught.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// Sets the directory of the results so far, for the message at an immediate exit.
pub fn set_results_dir(dir: &Path) {
    *RESULTS_DIR.lock().unwrap_or_else(PoisonError::into_inner) = Some(dir.to_owned());
}

/// Returns true if the process was asked to stop.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Requests a stop like the first Ctrl-C, for views that read keys from the terminal in raw mode.
pub fn interrupt() {
    INTERRUPTED.store(true, Ordering::SeqCst);
}

/// Ignores Ctrl-C while a child process owns the terminal (`to_child`), or handles it again.
pub fn lend_terminal(to_child: bool) {
    TERMINAL_LENT.store(to_child, Ordering::SeqCst);
}

/// The signal handling of this process, as the testbed needs it.
#[cfg(feature = "full")]
pub const SIGNALS: Signals = Signals { is_cancelled: interrupted, lend_terminal };
