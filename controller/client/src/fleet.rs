//! Many switches at once.

use super::connection::Connection;
use super::watch::Member;
use super::{ClientError, ClientOptions, Program, Session, Target};
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Entity, Update};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use weir_controller::reconcile::{DesiredState, Diff, RankedUpdates, diff};

/// Switches that are worked on at the same time.
pub const MAX_CONCURRENT_SWITCHES: usize = 128;

/// Outcome of each switch, by its name.
pub type Outcomes<T> = BTreeMap<String, Result<T, ClientError>>;

/// The task for one switch.
#[derive(Clone, Debug)]
pub struct SwitchTask {
    /// Address of the switch.
    pub target: Target,
    /// Program that it should run.
    pub program: Arc<Program>,
    /// Content that its tables should have.
    pub goal: DesiredState,
}

/// Changes that [`apply`] made to a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// The program was pushed.
    pub pushed: bool,
    /// Entities that were not there.
    pub inserted: usize,
    /// Entities that said something else.
    pub modified: usize,
    /// Entities that should not be there.
    pub deleted: usize,
    /// Entities that were right.
    pub unchanged: usize,
}

impl ApplySummary {
    /// Returns what writing a difference does.
    pub fn of(pushed: bool, difference: &Diff) -> ApplySummary {
        ApplySummary {
            pushed,
            inserted: difference.count(Type::Insert),
            modified: difference.count(Type::Modify),
            deleted: difference.count(Type::Delete),
            unchanged: difference.unchanged,
        }
    }
}

impl std::ops::AddAssign<&ApplySummary> for ApplySummary {
    fn add_assign(&mut self, other: &ApplySummary) {
        self.pushed |= other.pushed;
        self.inserted += other.inserted;
        self.modified += other.modified;
        self.deleted += other.deleted;
        self.unchanged += other.unchanged;
    }
}

/// Makes every switch run its program and hold its goal, and reads it back to be sure. Only what differs is written,
/// and rank by rank over all switches, so that no packet loops in between. A switch that fails keeps what it has
/// then; the others go on.
pub async fn apply(tasks: Vec<SwitchTask>, options: ClientOptions) -> Outcomes<ApplySummary> {
    let mut outcomes = Outcomes::new();
    let patience = options.timeout;
    let opened = for_each_switch(tasks, move |task: SwitchTask| {
        let options = options.clone();
        async move {
            let session = Connection::open(&task.target, options, &task.program).await?;
            let stream = session.acquire_write_access().await?;
            let pushed = session.push(&task.program).await?;
            let actual = session.read_all(&task.program.index).await?;
            let difference = diff(&task.goal, &actual, &task.program.index);
            Ok((task, session, stream, pushed, difference))
        }
    });
    let (mut writers, mut streams, mut checks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, result) in opened.await {
        match result {
            Ok((task, session, stream, pushed, difference)) => {
                outcomes.insert(name.clone(), Ok(ApplySummary::of(pushed, &difference)));
                streams.push(stream); // as long as they live we may write
                if !difference.steps.is_empty() {
                    let program = Arc::clone(&task.program);
                    checks.push(ReadBack { task, session: session.clone() });
                    writers.push(Writer { name, session, program, difference });
                }
            }
            Err(error) => {
                outcomes.insert(name, Err(error));
            }
        }
    }
    let (written, _) = write(writers, |_| false).await;
    checks.retain(|check| written.get(check.name()).is_some_and(Result::is_ok));
    let checked = for_each_switch(checks, |check: ReadBack| async move { check.run().await });
    for (name, result) in written.into_iter().chain(checked.await) {
        if let Err(error) = result {
            outcomes.insert(name, Err(error));
        }
    }
    let closing: JoinSet<()> = streams.into_iter().map(|stream| stream.close(patience)).collect();
    closing.join_all().await;
    outcomes
}

/// Writes differences, rank by rank over all switches. A switch that refuses something gets nothing more; the others
/// neither, if `stops` says so of it. Returns the outcomes, and the switches that therefore did not get everything.
pub(super) async fn write(
    writers: Vec<Writer>,
    stops: impl Fn(&str) -> bool,
) -> (Outcomes<()>, BTreeSet<String>) {
    let (mut outcomes, mut differences) = (Outcomes::new(), Vec::new());
    let mut ways = BTreeMap::new();
    for Writer { name, session, program, difference } in writers {
        outcomes.insert(name.clone(), Ok(()));
        differences.push((name.clone(), difference));
        ways.insert(name, (session, program));
    }
    let mut ranked = RankedUpdates::new(differences);
    let mut stopped = BTreeSet::new();
    while let Some(due) = ranked.next_rank() {
        let batch = |(name, updates): (String, _)| {
            let (session, program) = ways.get(&name)?.clone();
            Some(Batch { name, session, program, updates })
        };
        let batches = due.into_iter().filter_map(batch).collect();
        let written = for_each_switch(batches, |it: Batch| async move {
            it.session.write(&it.updates, &it.program.index).await
        });
        for (name, result) in written.await {
            if result.is_err() {
                ranked.abandon(&name);
                if stops(&name) {
                    stopped.extend(ranked.take_unfinished());
                }
                outcomes.insert(name, result);
            }
        }
    }
    (outcomes, stopped)
}

/// Everything that the switches hold. A switch that runs another program is an error.
pub async fn read(tasks: Vec<SwitchTask>, options: ClientOptions) -> Outcomes<Vec<Entity>> {
    for_each_switch(tasks, move |task: SwitchTask| {
        let options = options.clone();
        async move {
            let session = Connection::open(&task.target, options, &task.program).await?;
            if !session.runs(&task.program).await? {
                return Err(ClientError::OtherProgram);
            }
            session.read_all(&task.program.index).await
        }
    })
    .await
}

/// The program and the tables of a switch.
#[derive(Clone, Debug)]
pub struct Held {
    /// The program that it runs.
    pub program: Program,
    /// Its entries, default actions, members, groups, multicast groups and clone sessions.
    pub entities: Vec<Entity>,
}

/// Reads the program of each switch and everything that its tables hold.
pub async fn held(targets: Vec<Target>, options: ClientOptions) -> Outcomes<Held> {
    for_each_switch(targets, move |target: Target| {
        let options = options.clone();
        async move {
            let session = Session::connect(&target, options).await?;
            let program = session.program().await?.ok_or(ClientError::NoProgram)?;
            let entities = session.read_all(&program.index).await?;
            Ok(Held { program, entities })
        }
    })
    .await
}

/// A switch that is being written.
pub(super) struct Writer {
    pub name: String,
    pub session: Connection,
    pub program: Arc<Program>,
    pub difference: Diff,
}

/// The updates that go to one switch in one step.
struct Batch {
    name: String,
    session: Connection,
    program: Arc<Program>,
    updates: Vec<Update>,
}

/// A switch that is read back.
struct ReadBack {
    task: SwitchTask,
    session: Connection,
}

impl ReadBack {
    async fn run(&self) -> Result<(), ClientError> {
        let program = &self.task.program;
        let actual = self.session.read_all(&program.index).await?;
        let left = diff(&self.task.goal, &actual, &program.index).steps;
        let Some(step) = left.first() else { return Ok(()) };
        let first = weir_controller::pretty::update(&step.update, &program.index);
        Err(ClientError::ReadBackMismatch { count: left.len(), first })
    }
}

/// Something that concerns one switch.
pub(super) trait Named {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($type:ty: $($part:ident).+;)*) => {
        $(impl Named for $type {
            fn name(&self) -> &str {
                &self.$($part).+
            }
        })*
    };
}

named! {
    Target: name;
    SwitchTask: target.name;
    Batch: name;
    ReadBack: task.target.name;
    Member: name;
}

/// Does a job for each of some switches, [`MAX_CONCURRENT_SWITCHES`] at a time.
pub(super) async fn for_each_switch<I, T, F>(items: Vec<I>, job: impl Fn(I) -> F) -> Outcomes<T>
where
    I: Named,
    T: Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(MAX_CONCURRENT_SWITCHES));
    let mut jobs = JoinSet::new();
    for item in items {
        let (name, places) = (item.name().to_owned(), Arc::clone(&places));
        let job = job(item);
        jobs.spawn(async move {
            // The semaphore is never closed.
            let _place = places.acquire().await;
            (name, job.await)
        });
    }
    let mut outcomes = BTreeMap::new();
    while let Some(done) = jobs.join_next().await {
        match done {
            Ok((name, result)) => {
                outcomes.insert(name, result);
            }
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
    outcomes
}
