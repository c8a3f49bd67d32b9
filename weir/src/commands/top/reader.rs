//! Reads the state of one switch for `weir top`.

use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::{CounterEntry, Entity, Index, RegisterEntry, TableEntry, p4_data};
use p4runtime::p4info;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::task::JoinSet;
use weir_client::{ClientError, ClientOptions, Session, Target, ThriftClient};
use weir_experiment::counts::{Counts, DROP_COUNTER, EVENT_COUNTER, add_p4_counters};

/// Registers of the P4 programs (`p4src/controls/queue_bytes.p4`), indexed by port.
const QUEUE: &str = "queue_bytes";
const SENT: &str = "tx_bytes";
/// The table with the routes.
const ROUTES: &str = "forward";
/// Time limit for reading the port states. It is short because a switch may have no Thrift server, which is not an
/// error.
const THRIFT_TIMEOUT: Duration = Duration::from_millis(500);

/// The state of one switch at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Bytes queued, by port; empty if the program has no such register.
    pub queue_bytes: BTreeMap<u16, u64>,
    /// Low 32 bits of the bytes sent, by port; empty if the program has no such register.
    pub sent_bytes: BTreeMap<u16, u64>,
    /// Ports that are down; empty if the Thrift server did not respond.
    pub ports_down: BTreeSet<u16>,
    /// Packets marked CE; `None` if the program has no counter of marks.
    pub marks: Option<u64>,
    /// Packets dropped by the program; `None` if the program has no counter of drops.
    pub drops: Option<u64>,
    /// Entries in the table with the routes; `None` if the program has no such table.
    pub routes: Option<u64>,
}

/// P4Info ids of the objects to read; `None` if the program lacks the object.
#[derive(Clone, Copy, Debug, Default)]
struct Ids {
    queue: Option<u32>,
    sent: Option<u32>,
    drops: Option<u32>,
    events: Option<u32>,
    routes: Option<u32>,
}

impl Ids {
    fn from_p4info(info: &p4info::Index) -> Ids {
        let register =
            |name| info.registers.named(name).ok().map(|object| p4info::Object::preamble(object).id);
        let counter = |name| info.counters.named(name).ok().map(|object| p4info::Object::preamble(object).id);
        Ids {
            queue: register(QUEUE),
            sent: register(SENT),
            drops: counter(DROP_COUNTER),
            events: counter(EVENT_COUNTER),
            routes: info.tables.named(ROUTES).ok().map(|object| p4info::Object::preamble(object).id),
        }
    }
}

/// A client that polls one switch.
pub(super) struct SwitchReader {
    target: Target,
    options: ClientOptions,
    ports: Vec<u16>,
    thrift_address: String,
    /// The session, and the ids in the program that ran when the session began. `None` before the first read and after
    /// an error.
    connection: Option<(Session, Ids)>,
}

impl SwitchReader {
    /// Creates the client; the session is opened by the first read.
    pub(super) fn new(
        target: Target,
        options: ClientOptions,
        ports: Vec<u16>,
        thrift_address: String,
    ) -> SwitchReader {
        SwitchReader { target, options, ports, thrift_address, connection: None }
    }

    async fn read(&mut self) -> Result<Reading, ClientError> {
        if self.connection.is_none() {
            let session = Session::connect(&self.target, self.options.clone()).await?;
            let info = session.p4info().await?.ok_or(ClientError::NoProgram)?;
            self.connection = Some((session, Ids::from_p4info(&info)));
        }
        let Some((session, ids)) = self.connection.clone() else { return Err(ClientError::NoProgram) };
        let entities = session.read(self.entities(ids)).await;
        if entities.as_ref().is_err_and(ClientError::is_unimplemented) {
            // BMv2 does not implement register reads over P4Runtime, so they are omitted from now on.
            let ids = Ids { queue: None, sent: None, ..ids };
            self.connection = Some((session, ids));
        } else if entities.is_err() {
            // The switch may run a different program when it responds again, so the ids are read again.
            self.connection = None;
        }
        let mut reading = parse_reading(&entities?, ids);
        let address = self.thrift_address.clone();
        let port_states = tokio::task::spawn_blocking(move || {
            ThriftClient::connect_with_timeout(&address, THRIFT_TIMEOUT).and_then(|mut client| client.ports())
        });
        if let Ok(Ok(ports)) = port_states.await {
            // A port whose interface was removed is missing from the list, and counts as down.
            let is_up = |port: &u16| ports.contains(&(*port, true));
            reading.ports_down = self.ports.iter().copied().filter(|port| !is_up(port)).collect();
        }
        Ok(reading)
    }

    /// Returns the entities that a read requests.
    fn entities(&self, ids: Ids) -> Vec<Entity> {
        let cells = [ids.queue, ids.sent].into_iter().flatten().flat_map(|register_id| {
            self.ports.iter().map(move |&port| {
                let index = Some(Index { index: port.into() });
                Kind::RegisterEntry(RegisterEntry { register_id, index, data: None })
            })
        });
        let counters = [ids.drops, ids.events].into_iter().flatten();
        let counters = counters
            .map(|counter_id| Kind::CounterEntry(CounterEntry { counter_id, ..CounterEntry::default() }));
        let routes =
            ids.routes.map(|table_id| Kind::TableEntry(TableEntry { table_id, ..TableEntry::default() }));
        cells.chain(counters).chain(routes).map(|kind| Entity { entity: Some(kind) }).collect()
    }
}

/// Converts the entities of a read response.
fn parse_reading(entities: &[Entity], ids: Ids) -> Reading {
    let mut reading = Reading::default();
    let (mut drops, mut events) = (BTreeMap::new(), BTreeMap::new());
    let mut routes = 0;
    for entity in entities {
        match &entity.entity {
            Some(Kind::RegisterEntry(cell)) => {
                let port = cell.index.as_ref().and_then(|index| u16::try_from(index.index).ok());
                let data = cell.data.as_ref().and_then(|data| data.data.as_ref());
                if let (Some(port), Some(p4_data::Data::Bitstring(value))) = (port, data) {
                    let value = value.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
                    let cells = if Some(cell.register_id) == ids.queue {
                        &mut reading.queue_bytes
                    } else {
                        &mut reading.sent_bytes
                    };
                    cells.insert(port, value);
                }
            }
            Some(Kind::CounterEntry(cell)) => {
                let index = cell.index.as_ref().map_or(0, |index| index.index);
                let packets =
                    cell.data.as_ref().map_or(0, |data| u64::try_from(data.packet_count).unwrap_or(0));
                let cells = if Some(cell.counter_id) == ids.drops { &mut drops } else { &mut events };
                cells.insert(u32::try_from(index).unwrap_or(u32::MAX), packets);
            }
            Some(Kind::TableEntry(entry)) => routes += u64::from(!entry.is_default_action),
            _ => {}
        }
    }
    let mut counts = Counts::default();
    add_p4_counters(&mut counts, |counter, index| {
        let cells = if counter == DROP_COUNTER { &drops } else { &events };
        cells.get(&index).copied().unwrap_or(0)
    });
    reading.drops = ids.drops.map(|_| counts.drops.values().sum());
    reading.marks = ids.events.map(|_| counts.marks);
    reading.routes = ids.routes.map(|_| routes);
    reading
}

/// Reads all switches in parallel; returns the error of each switch that failed.
pub(super) async fn read_all(readers: &mut Vec<SwitchReader>) -> Vec<Result<Reading, String>> {
    let mut reads = JoinSet::new();
    for (index, mut reader) in readers.drain(..).enumerate() {
        reads.spawn(async move {
            let read = reader.read().await.map_err(|error| error.to_string());
            (index, reader, read)
        });
    }
    let mut results = reads.join_all().await;
    // The reads complete in any order.
    results.sort_by_key(|(index, ..)| *index);
    let (returned, readings): (Vec<_>, Vec<_>) =
        results.into_iter().map(|(_, reader, read)| (reader, read)).unzip();
    *readers = returned;
    readings
}

#[cfg(test)]
mod tests {
    use super::*;
    use p4runtime::p4::v1::{CounterData, P4Data};

    #[test]
    fn registers_counters_and_routes_are_distinguished() {
        let ids = Ids { queue: Some(1), sent: Some(2), drops: Some(3), events: None, routes: Some(4) };
        let entity = |kind| Entity { entity: Some(kind) };
        let cell = |register_id, index, value: &[u8]| {
            entity(Kind::RegisterEntry(RegisterEntry {
                register_id,
                index: Some(Index { index }),
                data: Some(P4Data { data: Some(p4_data::Data::Bitstring(value.to_vec())) }),
            }))
        };
        let dropped = entity(Kind::CounterEntry(CounterEntry {
            counter_id: 3,
            index: Some(Index { index: 7 }),
            data: Some(CounterData { packet_count: 5, byte_count: 0 }),
        }));
        let route = |is_default_action| {
            entity(Kind::TableEntry(TableEntry { table_id: 4, is_default_action, ..TableEntry::default() }))
        };
        let entities = [cell(1, 2, &[1, 0]), cell(2, 2, &[9]), dropped, route(false), route(true)];
        let reading = parse_reading(&entities, ids);
        assert_eq!((reading.queue_bytes[&2], reading.sent_bytes[&2]), (256, 9));
        assert_eq!((reading.drops, reading.marks, reading.routes), (Some(5), None, Some(1)));
    }
}
