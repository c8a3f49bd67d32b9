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
    Keep(Box<SchemeSnapshot>),
    Done(Box<Result<SchemeSnapshot, Error>>, ControlFlow<()>),
}

/// The observer of a worker thread: forwards to the caller's observer through a channel. The answers of the caller's
/// observer come back through the two flags and so may be one call late.
struct ObserverProxy<'a> {
    words: Sender<SchemeMessage>,
    stop: &'a AtomicBool,
    wanted: &'a [AtomicBool],
}

impl Observer for ObserverProxy<'_> {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        let report = SchemeMessage::ProgressReport {
            index: p.index,
            now: p.now,
            end: p.end,
            packet_hops: p.packet_hops,
        };
        let sent = self.words.send(report).is_ok();
        if sent && !self.stop.load(Ordering::Relaxed) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        self.wanted[index].swap(false, Ordering::Relaxed)
    }
    fn snapshot(&mut self, part: SchemeSnapshot) {
        // Sending fails only if the caller's thread has ended.
        let _ = self.words.send(SchemeMessage::Keep(Box::new(part)));
    }
}

/// Calls `one` for the index of each scheme, up to `jobs` at a time and limited by `cores`. Returns the results, in
/// the order in which schemes finished, and whether all schemes ran to their end. A thread that finds no further
/// scheme releases its core to the worker pools of the schemes that still run.
pub(crate) fn run_schemes(
    labels: &[&str],
    (jobs, cores): (usize, &CorePool),
    observer: &mut dyn Observer,
    one: impl Fn(usize, &mut dyn Observer) -> Result<(SchemeSnapshot, ControlFlow<()>), Error> + Sync,
) -> Result<(Vec<SchemeSnapshot>, bool), Error> {
    let (next, stop, working) = (AtomicUsize::new(0), AtomicBool::new(false), AtomicUsize::new(0));
    let wanted: Vec<AtomicBool> = labels.iter().map(|_| AtomicBool::new(false)).collect();
    let (mut parts, mut whole, mut error) = (Vec::new(), true, None);
    thread::scope(|scope| {
        let (words, messages) = channel();
        for _ in 0..jobs.min(labels.len()) {
            let Some(share) = cores.try_share(&working) else { break };
            let mut relay = ObserverProxy { words: words.clone(), stop: &stop, wanted: &wanted };
            let (next, stop, one) = (&next, &stop, &one);
            scope.spawn(move || {
                let _share = share;
                while !stop.load(Ordering::Relaxed) {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= labels.len() {
                        return;
                    }
                    let (part, flow) = match one(index, &mut relay) {
                        Ok((part, flow)) => (Ok(part), flow),
                        Err(error) => (Err(error), ControlFlow::Break(())),
                    };
                    if relay.words.send(SchemeMessage::Done(Box::new(part), flow)).is_err() || flow.is_break()
                    {
                        return;
                    }
                }
            });
        }
        drop(words);
        for message in messages {
            match message {
                SchemeMessage::ProgressReport { index, now, end, packet_hops } => {
                    let (scheme, of) = (labels[index], labels.len());
                    if observer
                        .progress(&Progress { scheme, index, scheme_count: of, now, end, packet_hops })
                        .is_break()
                    {
                        stop.store(true, Ordering::Relaxed);
                    }
                    if observer.wants_snapshot(index) {
                        wanted[index].store(true, Ordering::Relaxed);
                    }
                }
                SchemeMessage::Keep(part) => observer.snapshot(*part),
                SchemeMessage::Done(result, flow) => {
                    whole &= flow.is_continue();
                    match *result {
                        Ok(part) => {
                            if observer.wants_snapshot(part.index) {
                                observer.snapshot(part.clone());
                            }
                            parts.push(part);
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
    whole &= parts.len() == labels.len();
    error.map_or(Ok((parts, whole)), Err)
}
