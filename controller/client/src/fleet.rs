//! Reads and writes many switches concurrently.

use super::connection::Connection;
use super::{ClientError, ClientOptions, Program, Session, Target};
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{Entity, Update};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use weir_controller::reconcile::{DesiredState, Diff, RankedUpdates, diff};

/// Maximum number of switches that are processed at the same time. Weir's choice: it bounds memory and open
/// connections.
pub const MAX_CONCURRENT_SWITCHES: usize = 128;

/// Results by switch name.
pub type Outcomes<T> = BTreeMap<String, Result<T, ClientError>>;

/// The program and the desired state of one switch.
#[derive(Clone, Debug)]
pub struct SwitchTask {
    pub target: Target,
    pub program: Arc<Program>,
    pub desired: DesiredState,
}

/// The changes that [`apply`] made to a switch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// The program was pushed.
    pub pushed: bool,
    /// Entities that were missing.
    pub inserted: usize,
    /// Entities with other content.
    pub modified: usize,
    /// Surplus entities.
    pub deleted: usize,
    /// Entities that already had the desired content.
    pub unchanged: usize,
    /// Updates that were not written, because another switch failed.
    pub unwritten: usize,
}

impl ApplySummary {
    /// Returns the summary before any update is written.
    pub fn before_writing(difference: &Diff) -> ApplySummary {
        ApplySummary {
            unchanged: difference.unchanged,
            unwritten: difference.steps.len(),
            ..ApplySummary::default()
        }
    }

    /// Counts updates of the difference as written.
    fn record_written(&mut self, updates: &[Update]) {
        let count = |kind| updates.iter().filter(|update| update.r#type() == kind).count();
        self.inserted += count(Type::Insert);
        self.modified += count(Type::Modify);
        self.deleted += count(Type::Delete);
        self.unwritten -= updates.len();
    }
}

impl std::ops::AddAssign<&ApplySummary> for ApplySummary {
    fn add_assign(&mut self, other: &ApplySummary) {
        self.pushed |= other.pushed;
        self.inserted += other.inserted;
        self.modified += other.modified;
        self.deleted += other.deleted;
        self.unchanged += other.unchanged;
        self.unwritten += other.unwritten;
    }
}

/// What [`apply`] does with the other switches if one cannot be connected or read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    /// Writes no switch.
    WriteNone,
    /// Writes the others. Packets may loop between them and the failed one.
    WriteOthers,
}

/// Brings every switch to its program and desired state, and verifies the result by reading it back. Only differences
/// are written, in the order of their ranks over all switches
/// ([`RankedUpdates`]), so that no packet loops in between.
///
/// All switches are connected and read before any is written; `on_failure` says what happens if one of them fails. If a
/// switch fails later, the others stop after the current rank: the routes written so far have no loop.
pub async fn apply(
    tasks: Vec<SwitchTask>,
    options: ClientOptions,
    on_failure: OnFailure,
) -> Outcomes<ApplySummary> {
    let mut outcomes = Outcomes::new();
    let timeout = options.timeout;
    let connected = for_each_switch(tasks, move |task: SwitchTask| {
        let options = options.clone();
        async move {
            let connection = Connection::open(&task.target, options, &task.program).await?;
            let access = connection.acquire_write_access().await?;
            let actual = match connection.runs(&task.program).await? {
                true => Some(connection.read_all(&task.program.index).await?),
                false => None,
            };
            Ok((ConnectedSwitch { task, connection, pushed: false, actual }, access))
        }
    });
    // Write access lasts until it is closed, at the end.
    let (mut switches, mut write_accesses) = (Vec::new(), Vec::new());
    for (name, result) in connected.await {
        match result {
            Ok((switch, access)) => {
                switches.push(switch);
                write_accesses.push(access);
            }
            Err(error) => {
                outcomes.insert(name, Err(error));
            }
        }
    }
    let mut is_stopped = on_failure == OnFailure::WriteNone && !outcomes.is_empty();
    if !is_stopped {
        for (name, result) in for_each_switch(std::mem::take(&mut switches), ConnectedSwitch::push).await {
            match result {
                Ok(switch) => switches.push(switch),
                Err(error) => {
                    is_stopped = true;
                    outcomes.insert(name, Err(error));
                }
            }
        }
    }
    // Switches that are read back in the end: those of which every update was written.
    let (mut updates_by_switch, mut to_verify) = (Vec::new(), BTreeMap::new());
    for switch in switches {
        let (name, difference) = (switch.name().to_owned(), switch.diff());
        outcomes.insert(
            name.clone(),
            Ok(ApplySummary { pushed: switch.pushed, ..ApplySummary::before_writing(&difference) }),
        );
        if !is_stopped && !difference.steps.is_empty() {
            let (connection, program) = (switch.connection.clone(), Arc::clone(&switch.task.program));
            updates_by_switch.push(SwitchUpdates { name: name.clone(), connection, program, difference });
            to_verify.insert(name, switch);
        }
    }
    let every_failure_stops_all = |_: &str| true;
    for (name, result) in write(updates_by_switch, every_failure_stops_all).await {
        let pushed = to_verify.get(&name).is_some_and(|switch| switch.pushed);
        if result.as_ref().map_or(true, |summary| summary.unwritten > 0) {
            to_verify.remove(&name);
        }
        outcomes.insert(name, result.map(|summary| ApplySummary { pushed, ..summary }));
    }
    let verified = for_each_switch(to_verify.into_values().collect(), ConnectedSwitch::read_back);
    for (name, result) in verified.await {
        if let Err(error) = result {
            outcomes.insert(name, Err(error));
        }
    }
    let closing: JoinSet<()> = write_accesses.into_iter().map(|access| access.close(timeout)).collect();
    closing.join_all().await;
    outcomes
}

/// Writes differences in the order of their ranks over all switches. A switch that rejects an update receives no
/// further updates, and if `stops_all` returns true for its name, neither do the others. Returns the changes to each
/// switch, or its error.
pub(super) async fn write(
    updates_by_switch: Vec<SwitchUpdates>,
    stops_all: impl Fn(&str) -> bool,
) -> Outcomes<ApplySummary> {
    let (mut outcomes, mut differences) = (Outcomes::new(), Vec::new());
    let mut connections = BTreeMap::new();
    for SwitchUpdates { name, connection, program, difference } in updates_by_switch {
        outcomes.insert(name.clone(), Ok(ApplySummary::before_writing(&difference)));
        differences.push((name.clone(), difference));
        connections.insert(name, (connection, program));
    }
    let mut ranked = RankedUpdates::new(differences);
    while let Some(due) = ranked.next_rank() {
        let to_batch = |(name, updates): (String, _)| {
            let (connection, program) = connections.get(&name)?.clone();
            Some(Batch { name, connection, program, updates })
        };
        let batches = due.into_iter().filter_map(to_batch).collect();
        let results = for_each_switch(batches, |batch: Batch| async move {
            batch.connection.write(&batch.updates, &batch.program.index).await?;
            Ok(batch.updates)
        });
        for (name, result) in results.await {
            match result {
                Ok(updates) => {
                    if let Some(Ok(summary)) = outcomes.get_mut(&name) {
                        summary.record_written(&updates);
                    }
                }
                Err(error) => {
                    ranked.abandon(&name);
                    if stops_all(&name) {
                        ranked.take_unfinished();
                    }
                    outcomes.insert(name, Err(error));
                }
            }
        }
    }
    outcomes
}

/// Reads all entities of the switches. Fails for a switch that runs another program.
pub async fn read(tasks: Vec<SwitchTask>, options: ClientOptions) -> Outcomes<Vec<Entity>> {
    for_each_switch(tasks, move |task: SwitchTask| {
        let options = options.clone();
        async move {
            let connection = Connection::open(&task.target, options, &task.program).await?;
            if !connection.runs(&task.program).await? {
                return Err(ClientError::OtherProgram);
            }
            connection.read_all(&task.program.index).await
        }
    })
    .await
}

/// The program and the entities of a switch.
#[derive(Clone, Debug)]
pub struct SwitchContents {
    pub program: Program,
    /// Table entries, default actions, action profile members and groups, multicast groups and clone sessions.
    pub entities: Vec<Entity>,
}

/// Reads the program and the entities of each switch.
pub async fn read_switches(targets: Vec<Target>, options: ClientOptions) -> Outcomes<SwitchContents> {
    for_each_switch(targets, move |target: Target| {
        let options = options.clone();
        async move {
            let connection = Session::connect(&target, options).await?;
            let program = connection.program().await?.ok_or(ClientError::NoProgram)?;
            let entities = connection.read_all(&program.index).await?;
            Ok(SwitchContents { program, entities })
        }
    })
    .await
}

/// A switch with the differences to write.
pub(super) struct SwitchUpdates {
    pub name: String,
    pub connection: Connection,
    pub program: Arc<Program>,
    pub difference: Diff,
}

/// The updates of one rank for one switch.
struct Batch {
    name: String,
    connection: Connection,
    program: Arc<Program>,
    updates: Vec<Update>,
}

/// A switch to which [`apply`] has connected.
struct ConnectedSwitch {
    task: SwitchTask,
    connection: Connection,
    /// The program was pushed.
    pushed: bool,
    /// Entities of the switch; `None` if it runs another program.
    actual: Option<Vec<Entity>>,
}

impl ConnectedSwitch {
    /// Pushes the program if the switch runs another one, and then reads the entities.
    async fn push(self) -> Result<ConnectedSwitch, ClientError> {
        if self.actual.is_some() {
            return Ok(self);
        }
        let program = &self.task.program;
        let pushed = self.connection.push(program).await?;
        let actual = Some(self.connection.read_all(&program.index).await?);
        Ok(ConnectedSwitch { pushed, actual, ..self })
    }

    fn diff(&self) -> Diff {
        let actual = self.actual.as_deref().unwrap_or_default();
        diff(&self.task.desired, actual, &self.task.program.index)
    }

    /// Verifies the switch by reading its entities back.
    async fn read_back(self) -> Result<(), ClientError> {
        let index = &self.task.program.index;
        let remaining = diff(&self.task.desired, &self.connection.read_all(index).await?, index).steps;
        let Some(step) = remaining.first() else { return Ok(()) };
        let first = weir_controller::pretty::update(&step.update, index);
        Err(ClientError::ReadBackMismatch { count: remaining.len(), first })
    }
}

/// An item of work for one switch, identified by the switch's name.
pub(super) trait Named {
    fn name(&self) -> &str;
}

/// Implements [`Named`] for types; the path leads to the field with the name.
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
    ConnectedSwitch: task.target.name;
}

/// Runs `job` for each item, at most [`MAX_CONCURRENT_SWITCHES`] at a time.
pub(super) async fn for_each_switch<I, T, F>(items: Vec<I>, job: impl Fn(I) -> F) -> Outcomes<T>
where
    I: Named,
    T: Send + 'static,
    F: Future<Output = Result<T, ClientError>> + Send + 'static,
{
    let permits = Arc::new(Semaphore::new(MAX_CONCURRENT_SWITCHES));
    let mut jobs = JoinSet::new();
    for item in items {
        let (name, permits) = (item.name().to_owned(), Arc::clone(&permits));
        let job = job(item);
        jobs.spawn(async move {
            // `acquire` fails only if the semaphore is closed, which never happens.
            let _permit = permits.acquire().await;
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
