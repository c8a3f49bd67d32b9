//! Runs several schemes of an experiment at the same time, each on its own thread. The results do not depend on this,
//! because schemes share no fabric, flows or random streams.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use weir_experiment::backend::{CorePool, Error, Observer, Progress};
use weir_experiment::results::SchemeSnapshot;
use weir_units::Time;

/// A message from a worker thread to the caller's thread.
enum SchemeMessage {
    ProgressReport { index: usize, now: Time, end: Time, packet_hops: u64 },
    Snapshot(Box<SchemeSnapshot>),
    Done(Box<Result<SchemeSnapshot, Error>>, ControlFlow<()>),
}

/// The observer of a worker thread: forwards to the caller's observer through a channel. The answers of the caller's
/// observer come back through the two flags and so may be one call late.
struct ObserverProxy<'a> {
    sender: Sender<SchemeMessage>,
    stop: &'a AtomicBool,
    snapshot_wanted: &'a [AtomicBool],
}

impl Observer for ObserverProxy<'_> {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        let report = SchemeMessage::ProgressReport {
            index: p.index,
            now: p.now,
            end: p.end,
            packet_hops: p.packet_hops,
        };
        let sent = self.sender.send(report).is_ok();
        if sent && !self.stop.load(Ordering::Relaxed) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        self.snapshot_wanted[index].swap(false, Ordering::Relaxed)
    }
    fn snapshot(&mut self, snapshot: SchemeSnapshot) {
        // Sending fails only if the caller's thread has ended.
        let _ = self.sender.send(SchemeMessage::Snapshot(Box::new(snapshot)));
    }
}

/// Calls `run_scheme` for the index of each scheme, up to `jobs` at a time and limited by `cores`. Returns the results,
/// in the order in which schemes finished, and whether all schemes ran to their end. A thread that finds no further
/// scheme releases its core to the worker pools of the schemes that still run. If the system starts only some of the
/// threads, these run all schemes.
pub(crate) fn run_schemes(
    labels: &[&str],
    (jobs, cores): (usize, &CorePool),
    observer: &mut dyn Observer,
    run_scheme: impl Fn(usize, &mut dyn Observer) -> Result<(SchemeSnapshot, ControlFlow<()>), Error> + Sync,
) -> Result<(Vec<SchemeSnapshot>, bool), Error> {
    let (next, stop, working) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let snapshot_wanted: Vec<AtomicBool> = labels.iter().map(|_| AtomicBool::new(false)).collect();
    let (mut snapshots, mut is_complete, mut error) = (Vec::new(), true, None);
    thread::scope(|scope| {
        let (sender, messages) = channel();
        for started in 0..jobs.min(labels.len()) {
            let Some(core) = cores.try_share(&working) else { break };
            let mut proxy =
                ObserverProxy { sender: sender.clone(), stop: &stop, snapshot_wanted: &snapshot_wanted };
            let (next, stop, run_scheme) = (&next, &stop, &run_scheme);
            let worker = move || {
                let _core = core;
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= labels.len() {
                        return;
                    }
                    let (snapshot, flow) = match run_scheme(index, &mut proxy) {
                        Ok((snapshot, flow)) => (Ok(snapshot), flow),
                        Err(error) => (Err(error), ControlFlow::Break(())),
                    };
                    if proxy.sender.send(SchemeMessage::Done(Box::new(snapshot), flow)).is_err()
                        || flow.is_break()
                    {
                        return;
                    }
                }
            };
            if let Err(reason) = thread::Builder::new().spawn_scoped(scope, worker) {
                if started == 0 {
                    error = Some(Error::thread(&reason));
                }
                break;
            }
        }
        drop(sender);
        for message in messages {
            match message {
                SchemeMessage::ProgressReport { index, now, end, packet_hops } => {
                    let (scheme, scheme_count) = (labels[index], labels.len());
                    if observer
                        .progress(&Progress { scheme, index, scheme_count, now, end, packet_hops })
                        .is_break()
                    {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if observer.wants_snapshot(index) {
                        snapshot_wanted[index].store(true, Ordering::Relaxed);
                    }
                }
                SchemeMessage::Snapshot(snapshot) => observer.snapshot(*snapshot),
                SchemeMessage::Done(result, flow) => {
                    is_complete &= flow.is_continue();
                    match *result {
                        Ok(snapshot) => {
                            if observer.wants_snapshot(snapshot.index) {
                                observer.snapshot(snapshot.clone());
                            }
                            snapshots.push(snapshot);
                        }
                        Err(reason) => {
                            stop.store(true, Ordering::Relaxed);
                            error.get_or_insert(reason);
                        }
                    }
                }
            }
        }
    });
    is_complete &= snapshots.len() == labels.len();
    error.map_or(Ok((snapshots, is_complete)), Err)
}
