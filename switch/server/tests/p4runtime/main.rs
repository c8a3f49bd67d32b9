//! Tests of the P4Runtime server with a client of this project: sessions, pipelines, entities, atomicity, streams, and
//! hostile clients. `switch/tests/clients` has third-party clients.

mod batches;
mod bed;
mod entities;
mod hostile;
mod memory;
mod pipelines;
mod sessions;
mod streams;
mod tls;
