//! What is recorded of a run. The event loop of a logical process ([`crate::process`]) reports to the process's own
//! observers; after the run, those of one kind are merged, in the order of process numbers.

mod counters;
mod doubling_histogram;
mod events;
mod fingerprint;
mod path_trace;
mod pause_watchdog;
mod pfc_log;
mod policy;
mod rx_stats;
mod set;
mod slowdown;

pub use counters::Counters;
pub use doubling_histogram::{DoublingHistogram, HistogramBin};
pub use events::{Arrival, Departure, Observer, PauseEvent, PfcEvent};
pub use fingerprint::Fingerprint;
pub use path_trace::PathTrace;
pub use pause_watchdog::PauseWatchdog;
pub use pfc_log::PfcLog;
pub use policy::PolicyPackets;
pub use rx_stats::RxStats;
pub use set::{BasicObservers, Observers};
pub use slowdown::Slowdown;
