//! The P4Runtime server, asked by a client of our own: sessions, pipelines, entities, atomicity, streams, and clients
//! that mean harm. (`clients.py` has clients written by others.)

mod batches;
mod bed;
mod entities;
mod hostile;
mod memory;
mod pipelines;
mod sessions;
mod streams;
mod tls;
