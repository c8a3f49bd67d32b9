//! A switch, by the protocol that its program wants.

use super::bfrt::{BfrtSession, BfrtStream};
use super::{ClientError, ClientOptions, Image, Program, Session, Stream, Target};
use p4runtime::p4::v1::{Entity, Update};
use p4runtime::p4info::Index;
use std::time::Duration;

/// A connection to one switch.
#[derive(Clone)]
pub(super) enum Connection {
    P4Runtime(Session),
    BfRuntime(BfrtSession),
}

/// The right to write, as long as it is kept.
pub(super) enum WriteAccess {
    P4Runtime(Stream),
    BfRuntime(BfrtStream),
}

impl Connection {
    /// Connects, to read. A Tofino switch that does not run the program is an error.
    pub async fn open(
        target: &Target,
        options: ClientOptions,
        program: &Program,
    ) -> Result<Connection, ClientError> {
        Ok(match &program.image {
            Image::P4Runtime(_) => Connection::P4Runtime(Session::connect(target, options).await?),
            Image::BfRuntime(info) => {
                Connection::BfRuntime(BfrtSession::connect(target, &options, info).await?)
            }
        })
    }

    /// Gets the right to write.
    pub async fn acquire_write_access(&self) -> Result<WriteAccess, ClientError> {
        Ok(match self {
            Connection::P4Runtime(session) => WriteAccess::P4Runtime(session.become_primary().await?),
            Connection::BfRuntime(session) => WriteAccess::BfRuntime(session.bind().await?),
        })
    }

    /// Puts a program on the switch unless it runs that program already. Returns whether it did so.
    pub async fn push(&self, program: &Program) -> Result<bool, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.push(program).await,
            Connection::BfRuntime(_) => Ok(false),
        }
    }

    /// Returns whether the switch runs this program.
    pub async fn runs(&self, program: &Program) -> Result<bool, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.runs(program.pipeline_config()?).await,
            Connection::BfRuntime(_) => Ok(true),
        }
    }

    /// Reads every entity that a goal may have.
    pub async fn read_all(&self, p4info: &Index) -> Result<Vec<Entity>, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.read_all(p4info).await,
            Connection::BfRuntime(session) => session.read_all().await,
        }
    }

    /// Writes updates in order. It stops after a batch with a refused update.
    pub async fn write(&self, updates: &[Update], p4info: &Index) -> Result<(), ClientError> {
        match self {
            Connection::P4Runtime(session) => session.write(updates, p4info).await,
            Connection::BfRuntime(session) => session.write(updates, p4info).await,
        }
    }
}

impl WriteAccess {
    /// Gives the right up, and waits up to `limit` until the switch knows.
    pub async fn close(self, limit: Duration) {
        match self {
            WriteAccess::P4Runtime(stream) => stream.close(limit).await,
            WriteAccess::BfRuntime(stream) => stream.close(limit).await,
        }
    }
}
