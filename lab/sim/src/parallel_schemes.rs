//! Several schemes of a run at a time, each on a thread of its own. The results do not depend on it, as no scheme
//! shares its fabric, flows or random streams with another.

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

/// The observer of one thread: passes everything on to the caller's.
struct ObserverProxy<'a> {
    words: Sender<SchemeMessage>,
    stop: &'a AtomicBool,
    wanted: &'a [AtomicBool],
}

impl Observer for ObserverProxy<'_> {
    fn progress(&mut self, p: &Progress<'_>) -> ControlFlow<()> {
        let look = SchemeMessage::ProgressReport {
            index: p.index,
            now: p.now,
            end: p.end,
            packet_hops: p.packet_hops,
        };
        let heard = self.words.send(look).is_ok();
        if heard && !self.stop.load(Ordering::Relaxed) {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    }
    fn wants_snapshot(&mut self, index: usize) -> bool {
        self.wanted[index].swap(false, Ordering::Relaxed)
    }
    fn snapshot(&mut self, part: SchemeSnapshot) {
        // Nobody hears it only when the caller is gone.
        let _ = self.words.send(SchemeMessage::Keep(Box::new(part)));
    }
}

/// Has `one` run each scheme by its index, up to `jobs` at a time as `cores` has them, and gives what they came to and
/// whether all did. A thread that finds no more schemes leaves its core to the threads of those that still run.
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
        let (words, heard) = channel();
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
        for word in heard {
            match word {
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
