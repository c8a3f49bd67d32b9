//! A connection to one switch over P4Runtime or BF Runtime, depending on the program.

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

/// Write access: P4Runtime mastership (an open stream) or a BF Runtime binding. Dropping it releases the access.
pub(super) enum WriteAccess {
    P4Runtime(Stream),
    BfRuntime(BfrtStream),
}

impl Connection {
    /// Connects with read access. Fails if a Tofino switch does not run the program.
    pub(crate) async fn open(
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

    /// Becomes the primary client, or binds to the program.
    pub(crate) async fn acquire_write_access(&self) -> Result<WriteAccess, ClientError> {
        Ok(match self {
            Connection::P4Runtime(session) => WriteAccess::P4Runtime(session.become_primary().await?),
            Connection::BfRuntime(session) => WriteAccess::BfRuntime(session.bind().await?),
        })
    }

    /// Pushes a program unless the switch already runs it. Returns whether it was pushed.
    pub(crate) async fn push(&self, program: &Program) -> Result<bool, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.push(program).await,
            Connection::BfRuntime(_) => Ok(false),
        }
    }

    /// Returns whether the switch runs this program.
    pub(crate) async fn runs(&self, program: &Program) -> Result<bool, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.runs(program.pipeline_config()?).await,
            Connection::BfRuntime(_) => Ok(true),
        }
    }

    /// Reads all entities that a desired state can contain.
    pub(crate) async fn read_all(&self, p4info: &Index) -> Result<Vec<Entity>, ClientError> {
        match self {
            Connection::P4Runtime(session) => session.read_all(p4info).await,
            Connection::BfRuntime(session) => session.read_all().await,
        }
    }

    /// Writes updates in order. Stops after a batch with a rejected update.
    pub(crate) async fn write(&self, updates: &[Update], p4info: &Index) -> Result<(), ClientError> {
        match self {
            Connection::P4Runtime(session) => session.write(updates, p4info).await,
            Connection::BfRuntime(session) => session.write(updates, p4info).await,
        }
    }
}

impl WriteAccess {
    /// Releases write access and waits, at most `limit`, until the switch has acknowledged this.
    pub(crate) async fn close(self, limit: Duration) {
        match self {
            WriteAccess::P4Runtime(stream) => stream.close(limit).await,
            WriteAccess::BfRuntime(stream) => stream.close(limit).await,
        }
    }
}
