//! Loads programs and table entries into all switches concurrently over P4Runtime, and reads counters and registers.

use super::plan::{device_id, grpc_port};
use p4runtime::p4::v1::{CounterEntry, Entity, Index, RegisterEntry, Update, entity, p4_data};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use weir_client::{ClientError, ClientOptions, Program, Session, Target};
use weir_controller::topology::{SwitchIx, Topology};
use weir_experiment::backend::Error;

/// Open sessions for polling a register of all switches.
pub(crate) struct Registers {
    runtime: Runtime,
    switches: Vec<(String, Session, Vec<Entity>)>,
}

impl Registers {
    /// Connects to every switch. Only the cells of connected ports are read.
    pub(crate) fn connect(topology: &Topology, register_id: u32) -> Result<Registers, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut switches = Vec::new();
        for ix in topology.switch_ixs() {
            let Target { name, .. } = target(topology, ix);
            let session = runtime
                .block_on(Session::connect(&target(topology, ix), ClientOptions::default()))
                .map_err(|error| failed(&name, &error))?;
            let cell = |port: u16| RegisterEntry {
                register_id,
                index: Some(Index { index: port.into() }),
                data: None,
            };
            let entities = topology
                .switch(ix)
                .ports()
                .map(|(port, _)| Entity { entity: Some(entity::Entity::RegisterEntry(cell(port))) });
            switches.push((name, session, entities.collect()));
        }
        Ok(Registers { runtime, switches })
    }

    /// Reads the register of the n-th switch. Cell i of the result is that of port i, 0 if the port is not connected.
    pub(crate) fn read(&mut self, switch: usize) -> Result<Vec<u64>, Error> {
        let Registers { runtime, switches } = self;
        let (name, session, wanted) = &switches[switch];
        let read = runtime.block_on(session.read(wanted.clone())).map_err(|error| failed(name, &error))?;
        let mut cells = Vec::new();
        for entity in read {
            let Some(entity::Entity::RegisterEntry(cell)) = entity.entity else { continue };
            let Some(p4_data::Data::Bitstring(value)) = cell.data.and_then(|data| data.data) else {
                continue;
            };
            put(&mut cells, cell.index, value.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)));
        }
        Ok(cells)
    }
}

/// Stores a value at its index, and extends the list with zeros if necessary.
fn put(cells: &mut Vec<u64>, index: Option<Index>, value: u64) {
    let index = index.map_or(0, |index| index.index.max(0) as usize);
    cells.resize(cells.len().max(index + 1), 0);
    cells[index] = value;
}

fn failed(switch: &str, error: &ClientError) -> Error {
    Error::Work(format!("{switch}: {error}"))
}

fn target(topology: &Topology, ix: SwitchIx) -> Target {
    Target {
        name: topology.switch(ix).name.clone(),
        address: format!("127.0.0.1:{}", grpc_port(ix)),
        device_id: device_id(ix),
    }
}

/// The controller of all switches.
pub(crate) struct Controller {
    runtime: Runtime,
    switches: Vec<Target>,
}

impl Controller {
    /// Creates a controller for the switches of a topology. Does not connect.
    pub(crate) fn new(topology: &Topology) -> Result<Controller, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let switches = topology.switch_ixs().map(|ix| target(topology, ix)).collect();
        Ok(Controller { runtime, switches })
    }

    /// Loads the program into every switch, then writes the table entries.
    pub(crate) fn install(
        &self,
        program: Program,
        mut updates: BTreeMap<String, Vec<Update>>,
    ) -> Result<(), Error> {
        let program = Arc::new(program);
        self.at_all(|target| {
            let updates = updates.remove(&target.name).unwrap_or_default();
            install(target, Arc::clone(&program), updates)
        })
        .map(|_| ())
    }

    /// Reads the packet counts of all cells of a counter, by switch.
    pub(crate) fn counters(&self, counter_id: u32) -> Result<BTreeMap<String, Vec<u64>>, Error> {
        self.at_all(|target| read_counter(target, counter_id))
    }

    fn at_all<R, F>(&self, mut job: impl FnMut(Target) -> F) -> Result<BTreeMap<String, R>, Error>
    where
        R: Send + 'static,
        F: Future<Output = Result<R, ClientError>> + Send + 'static,
    {
        self.runtime.block_on(async {
            let mut jobs = JoinSet::new();
            for target in &self.switches {
                let (name, job) = (target.name.clone(), job(target.clone()));
                jobs.spawn(async move { (name, job.await) });
            }
            let mut results = BTreeMap::new();
            while let Some(done) = jobs.join_next().await {
                let (name, result) = done.map_err(|error| Error::Work(error.to_string()))?;
                let result = result.map_err(|error| failed(&name, &error))?;
                results.insert(name, result);
            }
            Ok(results)
        })
    }
}

async fn install(target: Target, program: Arc<Program>, updates: Vec<Update>) -> Result<(), ClientError> {
    let options = ClientOptions::default();
    let session = Session::connect(&target, options.clone()).await?;
    // This controller is the primary as long as this stream is open.
    let stream = session.become_primary().await?;
    session.push(&program).await?;
    session.write(&updates, &program.index).await?;
    stream.close(options.timeout).await;
    Ok(())
}

async fn read_counter(target: Target, counter_id: u32) -> Result<Vec<u64>, ClientError> {
    let session = Session::connect(&target, ClientOptions::default()).await?;
    let entry = CounterEntry { counter_id, ..Default::default() };
    let mut cells = Vec::new();
    for entity in session.read(vec![Entity { entity: Some(entity::Entity::CounterEntry(entry)) }]).await? {
        let Some(entity::Entity::CounterEntry(cell)) = entity.entity else { continue };
        put(&mut cells, cell.index, cell.data.map_or(0, |data| data.packet_count.max(0) as u64));
    }
    Ok(cells)
}
