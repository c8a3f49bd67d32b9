//! The client of one switch over P4Runtime.

use super::channel::{self, MAX_BATCH_UPDATES};
use super::error::ClientError;
use super::options::{ClientOptions, Target};
use super::program::Program;
use super::stream::{Mastership, Stream};
use p4runtime::arbitration;
use p4runtime::p4::v1::entity::Entity as Kind;
use p4runtime::p4::v1::get_forwarding_pipeline_config_request::ResponseType;
use p4runtime::p4::v1::p4_runtime_client::P4RuntimeClient;
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::set_forwarding_pipeline_config_request::Action;
use p4runtime::p4::v1::{
    ActionProfileGroup, ActionProfileMember, CloneSessionEntry, Entity, ForwardingPipelineConfig,
    GetForwardingPipelineConfigRequest, MeterConfig, MulticastGroupEntry, PacketReplicationEngineEntry,
    ReadRequest, SetForwardingPipelineConfigRequest, TableEntry, Uint128, Update, WriteRequest,
};
use p4runtime::p4info::{Index, Object, P4InfoError};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

/// BMv2 returns the whole result of a Read in one message, of any length.
const MAX_MESSAGE_SIZE: usize = 64 << 20;
/// Capacity of the queue of outgoing stream messages.
const STREAM_QUEUE_LEN: usize = 256;

/// A P4Runtime connection to one switch. Clones share the connection.
#[derive(Clone)]
pub struct Session {
    client: P4RuntimeClient<Channel>,
    device_id: u64,
    election_id: Uint128,
    timeout: Duration,
}

impl Session {
    /// Connects with read access. Writing requires being primary on a [`Stream`].
    ///
    /// # Errors
    ///
    /// [`ClientError::Unreachable`]: the address is invalid, or no server accepts the connection within the timeout of
    /// `options`.
    pub async fn connect(target: &Target, options: ClientOptions) -> Result<Session, ClientError> {
        let channel = channel::open(target, &options, "P4Runtime").await?;
        let client = P4RuntimeClient::new(channel).max_decoding_message_size(MAX_MESSAGE_SIZE);
        let ClientOptions { election_id, timeout, .. } = options;
        Ok(Session { client, device_id: target.device_id, election_id, timeout })
    }

    /// Opens the stream and bids to become primary. Returns the result of the arbitration.
    ///
    /// # Errors
    ///
    /// The stream cannot be opened or ends, the result does not arrive in time, or another controller uses the same
    /// election id ([`ClientError::ElectionIdTaken`]).
    pub async fn arbitrate(&self) -> Result<(Mastership, Stream), ClientError> {
        let (requests, queue) = mpsc::channel(STREAM_QUEUE_LEN);
        let bid = arbitration::bid(self.device_id, self.election_id.into());
        requests.try_send(bid).map_err(|_| ClientError::Closed("immediately".into()))?;
        let opening = self.with_timeout("StreamChannel", |mut client| async move {
            client.stream_channel(Request::new(ReceiverStream::new(queue))).await
        });
        let responses = opening.await.map_err(|error| self.arbitration_error(error))?.into_inner();
        let mut stream = Stream::new(requests, responses);
        let mastership = timeout(self.timeout, stream.mastership()).await;
        let limit = self.timeout;
        let mastership = mastership.map_err(|_| ClientError::Timeout { call: "arbitration", limit })?;
        Ok((mastership.map_err(|error| self.arbitration_error(error))?, stream))
    }

    /// Opens the stream and bids like [`arbitrate`](Self::arbitrate), but fails if another client is primary. The
    /// session may write as long as the stream exists.
    ///
    /// # Errors
    ///
    /// [`ClientError::NotPrimary`]: another controller has a higher election id. Otherwise as for `arbitrate`.
    pub async fn become_primary(&self) -> Result<Stream, ClientError> {
        match self.arbitrate().await? {
            (Mastership::Primary, stream) => Ok(stream),
            (Mastership::Backup { primary }, _) => Err(ClientError::NotPrimary { primary }),
        }
    }

    fn arbitration_error(&self, error: ClientError) -> ClientError {
        match &error {
            // The specification and PI reject a second stream with the same election id with INVALID_ARGUMENT.
            ClientError::Call { status, .. } if status.code() == Code::InvalidArgument => {
                ClientError::ElectionIdTaken { election_id: self.election_id }
            }
            _ => error,
        }
    }

    /// Pushes a program unless the switch already runs it. Returns whether it was pushed; all tables are empty then.
    ///
    /// # Errors
    ///
    /// The switch rejects the program, this client is not primary, the switch does not reply in time, or the connection
    /// broke.
    pub async fn push(&self, program: &Program) -> Result<bool, ClientError> {
        let config = program.pipeline_config()?;
        if self.runs(config).await? {
            return Ok(false);
        }
        let request = SetForwardingPipelineConfigRequest {
            device_id: self.device_id,
            election_id: Some(self.election_id),
            action: Action::VerifyAndCommit.into(),
            config: Some(config.clone()),
            ..SetForwardingPipelineConfigRequest::default()
        };
        self.with_timeout("SetForwardingPipelineConfig", |mut client| async move {
            client.set_forwarding_pipeline_config(request).await
        })
        .await?;
        Ok(true)
    }

    /// Returns whether the switch runs this program. Compares cookies first, then programs: another controller may use
    /// another cookie.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time, or the connection broke. A switch without a program is `Ok(false)`.
    pub async fn runs(&self, config: &ForwardingPipelineConfig) -> Result<bool, ClientError> {
        let running = match self.config(ResponseType::CookieOnly).await? {
            Some(running) if running.cookie == config.cookie => return Ok(true),
            Some(_) => self.config(ResponseType::All).await?,
            None => None,
        };
        Ok(running.is_some_and(|running| {
            running.p4_device_config == config.p4_device_config && running.p4info == config.p4info
        }))
    }

    /// Returns the P4Info of the running program; `None` if the switch runs none.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time or rejects the request, or its P4Info is invalid.
    pub async fn p4info(&self) -> Result<Option<Index>, ClientError> {
        let config = self.config(ResponseType::P4infoAndCookie).await?;
        let index = config.and_then(|config| config.p4info).map(Index::new).transpose();
        index.map_err(|error| invalid_p4info(&error))
    }

    /// Returns the running program; `None` if the switch runs none.
    ///
    /// # Errors
    ///
    /// The switch does not reply in time or rejects the request, or its P4Info is invalid.
    pub async fn program(&self) -> Result<Option<Program>, ClientError> {
        let Some(config) = self.config(ResponseType::All).await? else { return Ok(None) };
        let Some(p4info) = config.p4info else { return Ok(None) };
        Program::new(p4info, config.p4_device_config).map(Some).map_err(|error| invalid_p4info(&error))
    }

    /// Reads the parts of the running program that `kind` selects; `None` if the switch runs none.
    async fn config(&self, kind: ResponseType) -> Result<Option<ForwardingPipelineConfig>, ClientError> {
        let request =
            GetForwardingPipelineConfigRequest { device_id: self.device_id, response_type: kind.into() };
        let call = "GetForwardingPipelineConfig";
        let reply = self.with_timeout(call, |mut client| async move {
            client.get_forwarding_pipeline_config(request).await
        });
        match reply.await {
            Ok(response) => Ok(response.into_inner().config),
            Err(ClientError::Call { status, .. }) if status.code() == Code::FailedPrecondition => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Sends a cheap read, ignores its content, and returns when the switch has replied. P4Runtime has no ping;
    /// errors such as NOT_FOUND and UNIMPLEMENTED are replies too. `weir switch` executes packet-outs and reads in
    /// order of arrival on its data plane, so the reply is a barrier for earlier packet-outs.
    ///
    /// # Errors
    ///
    /// No reply arrived in time, or the connection broke.
    pub async fn echo(&self) -> Result<(), ClientError> {
        match self.read(vec![replication(Pre::CloneSessionEntry(CloneSessionEntry::default()))]).await {
            Ok(_) | Err(ClientError::NoProgram) => Ok(()),
            Err(ClientError::Call { status, .. })
                if matches!(status.code(), Code::Unimplemented | Code::NotFound | Code::InvalidArgument) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Reads all entities that [`weir_controller::reconcile`] compares: table entries, default actions, action
    /// profile members and groups, multicast groups and clone sessions. Replication entities are omitted if the
    /// server cannot read them.
    ///
    /// # Errors
    ///
    /// See [`read`](Self::read).
    pub async fn read_all(&self, p4info: &Index) -> Result<Vec<Entity>, ClientError> {
        // Servers include the direct meters of entries only if the request contains a meter config.
        let has_meters = p4info.direct_meters.iter().next().is_some();
        let entries =
            TableEntry { meter_config: has_meters.then(MeterConfig::default), ..TableEntry::default() };
        let mut found = self.read(vec![table_entity(entries)]).await?;
        let defaults = p4info
            .tables
            .iter()
            .filter(|table| table.const_default_action_id == 0 && table.implementation_id == 0);
        let defaults: Vec<Entity> = defaults
            .map(|table| TableEntry {
                table_id: table.preamble().id,
                is_default_action: true,
                ..TableEntry::default()
            })
            .map(table_entity)
            .collect();
        if !defaults.is_empty() {
            found.extend(self.read(defaults).await?);
        }
        if p4info.action_profiles.iter().next().is_some() {
            let member = Kind::ActionProfileMember(ActionProfileMember::default());
            let group = Kind::ActionProfileGroup(ActionProfileGroup::default());
            found.extend(self.read(vec![entity(member), entity(group)]).await?);
        }
        for kind in [
            Pre::MulticastGroupEntry(MulticastGroupEntry::default()),
            Pre::CloneSessionEntry(CloneSessionEntry::default()),
        ] {
            match self.read(vec![replication(kind)]).await {
                Ok(more) => found.extend(more),
                // Entities that the server cannot read are not compared.
                Err(ClientError::Call { status, .. })
                    if matches!(status.code(), Code::Unimplemented | Code::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Reads the entities that match any of the given ones.
    ///
    /// # Errors
    ///
    /// [`ClientError::NoProgram`]: the switch runs no program. Otherwise the switch rejects the request or does not
    /// reply in time, or the connection broke.
    pub async fn read(&self, entities: Vec<Entity>) -> Result<Vec<Entity>, ClientError> {
        let request = ReadRequest { device_id: self.device_id, entities, ..ReadRequest::default() };
        let collect = |mut client: P4RuntimeClient<Channel>| async move {
            let mut responses = client.read(request).await?.into_inner();
            let mut found = Vec::new();
            while let Some(response) = responses.message().await? {
                found.extend(response.entities);
            }
            Ok(found)
        };
        self.with_timeout("Read", collect).await.map_err(|error| match error {
            ClientError::Call { status, .. } if status.code() == Code::FailedPrecondition => {
                ClientError::NoProgram
            }
            other => other,
        })
    }

    /// Writes updates in order, in batches. Stops after a batch with a rejected update.
    ///
    /// # Errors
    ///
    /// [`ClientError::Rejected`] lists the rejected updates of the batch, if the server reports them; the other
    /// updates of the batch were applied. Otherwise the whole call failed, no reply arrived in time, or the
    /// connection broke.
    pub async fn write(&self, updates: &[Update], p4info: &Index) -> Result<(), ClientError> {
        for batch in updates.chunks(MAX_BATCH_UPDATES) {
            let request = WriteRequest {
                device_id: self.device_id,
                election_id: Some(self.election_id),
                updates: batch.to_vec(),
                ..WriteRequest::default()
            };
            let result =
                self.with_timeout("Write", |mut client| async move { client.write(request).await }).await;
            result.map_err(|error| match error {
                ClientError::Call { status, .. } => ClientError::write(*status, batch, p4info),
                other => other,
            })?;
        }
        Ok(())
    }

    /// Performs a call with the session's timeout.
    async fn with_timeout<T, F: Future<Output = Result<T, Status>>>(
        &self,
        call: &'static str,
        send: impl FnOnce(P4RuntimeClient<Channel>) -> F,
    ) -> Result<T, ClientError> {
        channel::with_timeout(self.timeout, call, send(self.client.clone())).await
    }
}

fn entity(kind: Kind) -> Entity {
    Entity { entity: Some(kind) }
}

fn replication(kind: Pre) -> Entity {
    entity(Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) }))
}

fn table_entity(entry: TableEntry) -> Entity {
    entity(Kind::TableEntry(entry))
}

/// Returns the error for a switch whose P4Info is invalid.
fn invalid_p4info(error: &P4InfoError) -> ClientError {
    let status = Status::internal(format!("invalid P4Info: {error}"));
    ClientError::call("GetForwardingPipelineConfig", status)
}
