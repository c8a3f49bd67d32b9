//! Client arbitration: selects the primary client of a device, the only one that may write (P4Runtime §5).
//!
//! [`bid`] creates the request of a client. [`Arbitration`] is the state of a server; it is sans-I/O and reads no
//! clock.
//!
//! ```
//! use p4runtime::arbitration::{Arbitration, bid};
//! use p4runtime::p4::v1::stream_message_request::Update;
//!
//! let mut device = Arbitration::new(1);
//! let Some(Update::Arbitration(first)) = bid(1, 5).update else { unreachable!() };
//! device.bid(100, &first)?;
//! assert_eq!(device.primary(), Some(100));
//! # Ok::<(), p4runtime::arbitration::ArbitrationError>(())
//! ```
//!
//! Where BMv2 and the specification differ, [`Arbitration`] follows BMv2: the primary is the client with the highest
//! id among those that are *currently* connected. When it disconnects, the next one becomes primary without a new
//! bid, even with an id lower than one seen before. By the specification the switch would have no primary until a
//! client bids at least the highest id ever seen, which would lock out a controller that restarts with a fixed id.

use crate::google::rpc::{Code, Status};
use crate::p4::v1::stream_message_request::Update;
use crate::p4::v1::{MasterArbitrationUpdate, Role, StreamMessageRequest, Uint128};
use std::collections::BTreeMap;
use thiserror::Error;

/// Returns the message by which a client bids for a device. The client with the highest election id becomes primary.
pub fn bid(device_id: u64, election_id: u128) -> StreamMessageRequest {
    let election_id = Some(election_id.into());
    let bid = MasterArbitrationUpdate { device_id, election_id, ..MasterArbitrationUpdate::default() };
    StreamMessageRequest { update: Some(Update::Arbitration(bid)) }
}

/// Identifies a client by its stream.
pub type ClientId = u64;

/// Maximum number of clients per device; BMv2's limit (pi_server.cpp, max_connections).
pub const MAX_CLIENTS: usize = 16;

/// Maximum number of characters of a name that an error quotes.
const MAX_QUOTED_NAME: usize = 100;

/// The reason why a bid ends its stream, or a write is not permitted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ArbitrationError {
    /// The request is for another device.
    #[error("no device {requested}; this is device {device}")]
    OtherDevice {
        /// Device in the request.
        requested: u64,
        /// Device of this server.
        device: u64,
    },
    /// A stream cannot change its device.
    #[error("this stream belongs to device {device}; open another one for device {requested}")]
    DeviceChanged {
        /// Device in the request.
        requested: u64,
        /// Device of the stream.
        device: u64,
    },
    /// The bid or request has a role, by name or id.
    #[error("there is no role {0}: this switch has no roles, leave the role unset for full access")]
    Role(String),
    /// The bid has a role configuration.
    #[error("role.config is not understood: this switch has no roles, leave the role unset for full access")]
    RoleConfig,
    /// Another client has this election id.
    #[error("Election id already exists: another client has {0}, choose another id")]
    Duplicate(u128),
    /// [`MAX_CLIENTS`] clients are connected.
    #[error("Too many connections: {MAX_CLIENTS} clients are connected to this device")]
    TooMany,
    /// The election id is not that of the primary.
    #[error("Not primary: {given}, and the primary is {primary}")]
    NotPrimary {
        /// Description of the election id in the request.
        given: String,
        /// Election id of the primary, or "nobody".
        primary: String,
    },
    /// The request has an election id, but no client is connected.
    #[error("Not primary: no client is connected; open a StreamChannel and bid with this election id first")]
    NoSession,
}

impl ArbitrationError {
    /// Returns the canonical status code of the specification (§5.3, §12).
    pub fn code(&self) -> Code {
        match self {
            ArbitrationError::OtherDevice { .. } => Code::NotFound,
            ArbitrationError::DeviceChanged { .. } => Code::FailedPrecondition,
            ArbitrationError::Role(_) => Code::NotFound,
            ArbitrationError::RoleConfig | ArbitrationError::Duplicate(_) => Code::InvalidArgument,
            ArbitrationError::TooMany => Code::ResourceExhausted,
            ArbitrationError::NotPrimary { .. } | ArbitrationError::NoSession => Code::PermissionDenied,
        }
    }
}

/// An arbitration update to send to a client.
#[derive(Clone, Debug, PartialEq)]
pub struct ArbitrationNotification {
    /// The receiver.
    pub to: ClientId,
    /// The message, with the election id of the primary.
    pub update: MasterArbitrationUpdate,
}

/// The clients of one device with their election ids.
#[derive(Clone, Debug)]
pub struct Arbitration {
    device: u64,
    /// Election id of each client; a client without one never becomes primary.
    clients: BTreeMap<ClientId, Option<u128>>,
}

impl Arbitration {
    /// Creates the state of a device without clients.
    pub fn new(device: u64) -> Arbitration {
        Arbitration { device, clients: BTreeMap::new() }
    }

    /// Returns the client that may write; `None` if no client has an election id.
    pub fn primary(&self) -> Option<ClientId> {
        self.highest().map(|(client, _)| client)
    }

    /// Returns whether a client has bid, with or without an election id.
    pub fn has_bid(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    fn highest(&self) -> Option<(ClientId, u128)> {
        let ids = self.clients.iter().filter_map(|(&client, &id)| Some((client, id?)));
        ids.max_by_key(|&(_, id)| id)
    }

    /// Handles a bid, the first of a client or a later one. Returns the notifications to send, that of the primary
    /// last.
    ///
    /// # Errors
    ///
    /// The bid names another device or a role, another client has the id, or there are [`MAX_CLIENTS`] clients. The
    /// server must close the client's stream and call [`leave`](Self::leave).
    pub fn bid(
        &mut self,
        client: ClientId,
        bid: &MasterArbitrationUpdate,
    ) -> Result<Vec<ArbitrationNotification>, ArbitrationError> {
        let is_known = self.clients.contains_key(&client);
        let (requested, device) = (bid.device_id, self.device);
        match (requested == device, is_known) {
            (true, _) => {}
            (false, true) => return Err(ArbitrationError::DeviceChanged { requested, device }),
            (false, false) => return Err(ArbitrationError::OtherDevice { requested, device }),
        }
        check_role(bid.role.as_ref())?;
        let id = bid.election_id.map(u128::from);
        if let Some(id) = id
            && self.clients.iter().any(|(&other, &other_id)| other != client && other_id == Some(id))
        {
            return Err(ArbitrationError::Duplicate(id));
        }
        if !is_known && self.clients.len() >= MAX_CLIENTS {
            return Err(ArbitrationError::TooMany);
        }
        let before = self.highest();
        self.clients.insert(client, id);
        // The specification requires a notification of all clients only when the primary changes.
        Ok(match self.highest() == before {
            true => vec![self.notification(client)],
            false => self.notify_all(),
        })
    }

    /// Removes a client whose stream has ended. Returns the notifications for the other clients.
    pub fn leave(&mut self, client: ClientId) -> Vec<ArbitrationNotification> {
        let before = self.highest();
        self.clients.remove(&client);
        match self.highest() == before {
            true => Vec::new(),
            false => self.notify_all(),
        }
    }

    /// Checks whether a request with this election id may write. As in BMv2, a request without an id may write while
    /// no client is connected, so that tools without a session can set up a switch.
    ///
    /// # Errors
    ///
    /// The id is not that of the primary, or there is an id but no client is connected.
    pub fn authorise(&self, election_id: Option<&Uint128>) -> Result<(), ArbitrationError> {
        let id = election_id.copied().map(u128::from);
        match (self.highest(), id) {
            (Some((_, primary)), Some(id)) if id == primary => Ok(()),
            (None, None) if self.clients.is_empty() => Ok(()),
            (None, Some(_)) if self.clients.is_empty() => Err(ArbitrationError::NoSession),
            (primary, id) => Err(ArbitrationError::NotPrimary {
                given: id
                    .map_or("the request has no election id".into(), |id| format!("the election id is {id}")),
                primary: primary.map_or("nobody".into(), |(_, id)| id.to_string()),
            }),
        }
    }

    /// Checks the device and the role of a request.
    ///
    /// # Errors
    ///
    /// The request is for another device, or has a role other than the default one.
    pub fn check_target(&self, device: u64, role: &str) -> Result<(), ArbitrationError> {
        if device != self.device {
            return Err(ArbitrationError::OtherDevice { requested: device, device: self.device });
        }
        match role {
            "" => Ok(()),
            role => Err(ArbitrationError::Role(quoted(role))),
        }
    }

    fn notify_all(&self) -> Vec<ArbitrationNotification> {
        let primary = self.primary();
        let backups = self.clients.keys().copied().filter(|&client| Some(client) != primary);
        backups.chain(primary).map(|client| self.notification(client)).collect()
    }

    fn notification(&self, to: ClientId) -> ArbitrationNotification {
        let highest = self.highest();
        let (code, message) = match highest {
            Some((primary, _)) if primary == to => (Code::Ok, "Is primary"),
            Some(_) => (Code::AlreadyExists, "Is backup"),
            None => (Code::NotFound, "Is backup, no client is primary"),
        };
        let status = Status { code: code.into(), message: message.into(), details: Vec::new() };
        let update = MasterArbitrationUpdate {
            device_id: self.device,
            role: None,
            election_id: highest.map(|(_, id)| id.into()),
            status: Some(status),
        };
        ArbitrationNotification { to, update }
    }
}

fn check_role(role: Option<&Role>) -> Result<(), ArbitrationError> {
    let Some(role) = role else { return Ok(()) };
    #[allow(deprecated)] // older clients still send it
    let id = role.id;
    match (role.name.as_str(), id) {
        ("", 0) if role.config.is_some() => Err(ArbitrationError::RoleConfig),
        ("", 0) => Ok(()),
        ("", id) => Err(ArbitrationError::Role(id.to_string())),
        (name, _) => Err(ArbitrationError::Role(quoted(name))),
    }
}

/// Quotes a name for an error message, truncated if it is long.
fn quoted(name: &str) -> String {
    match name.char_indices().nth(MAX_QUOTED_NAME) {
        Some((end, _)) => format!("{:?}...", &name[..end]),
        None => format!("{name:?}"),
    }
}

impl From<Uint128> for u128 {
    fn from(id: Uint128) -> u128 {
        u128::from(id.high) << 64 | u128::from(id.low)
    }
}

impl From<u128> for Uint128 {
    fn from(id: u128) -> Uint128 {
        Uint128 { high: (id >> 64) as u64, low: id as u64 }
    }
}

#[cfg(any(feature = "client", feature = "server"))]
impl From<ArbitrationError> for tonic::Status {
    fn from(error: ArbitrationError) -> tonic::Status {
        tonic::Status::new(tonic::Code::from_i32(error.code().into()), error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Code::{AlreadyExists, NotFound, Ok as Primary};

    const DEVICE: u64 = 7;

    fn bid(id: impl Into<Option<u128>>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate {
            device_id: DEVICE,
            election_id: id.into().map(Uint128::from),
            ..Default::default()
        }
    }

    /// Returns receiver, code and the primary's id of each notification.
    fn summary(notifications: &[ArbitrationNotification]) -> Vec<(ClientId, Code, Option<u128>)> {
        let one = |notification: &ArbitrationNotification| {
            let code = Code::try_from(notification.update.status.as_ref().unwrap().code).unwrap();
            (notification.to, code, notification.update.election_id.map(u128::from))
        };
        notifications.iter().map(one).collect()
    }

    fn with(ids: &[(ClientId, u128)]) -> Arbitration {
        let mut all = Arbitration::new(DEVICE);
        ids.iter().for_each(|&(client, id)| drop(all.bid(client, &bid(id)).unwrap()));
        all
    }

    #[test]
    fn the_client_with_the_highest_id_is_primary_and_the_others_are_notified() {
        let mut all = Arbitration::new(DEVICE);
        assert_eq!(summary(&all.bid(1, &bid(5)).unwrap()), [(1, Primary, Some(5))]);
        // A lower id: only the bidder is notified.
        assert_eq!(summary(&all.bid(2, &bid(3)).unwrap()), [(2, AlreadyExists, Some(5))]);
        // A higher id: the others are notified first, the new primary last.
        let high = 1 << 70;
        let notifications = all.bid(3, &bid(high)).unwrap();
        let expected =
            [(1, AlreadyExists, Some(high)), (2, AlreadyExists, Some(high)), (3, Primary, Some(high))];
        assert_eq!(summary(&notifications), expected);
        assert_eq!(all.primary(), Some(3));
    }

    #[test]
    fn when_the_primary_leaves_the_next_is_promoted() {
        let mut all = with(&[(1, 5), (2, 3), (3, 9)]);
        assert_eq!(summary(&all.leave(3)), [(2, AlreadyExists, Some(5)), (1, Primary, Some(5))]);
        assert_eq!(all.leave(2), []);
        assert_eq!(all.leave(1), []);
        assert_eq!(all.leave(1), [], "already gone");
        // An id lower than any before can be primary, so a restarted controller with a fixed id is not locked out.
        assert_eq!(summary(&all.bid(4, &bid(1)).unwrap()), [(4, Primary, Some(1))]);
    }

    #[test]
    fn a_client_can_bid_again() {
        let mut all = with(&[(1, 5), (2, 3)]);
        // The same id again: the client is notified of its state.
        assert_eq!(summary(&all.bid(1, &bid(5)).unwrap()), [(1, Primary, Some(5))]);
        // A backup bids a higher id.
        assert_eq!(
            summary(&all.bid(2, &bid(6)).unwrap()),
            [(1, AlreadyExists, Some(6)), (2, Primary, Some(6))]
        );
        // The primary raises its own id: all clients are notified.
        assert_eq!(
            summary(&all.bid(2, &bid(8)).unwrap()),
            [(1, AlreadyExists, Some(8)), (2, Primary, Some(8))]
        );
        // The primary lowers its id.
        assert_eq!(
            summary(&all.bid(2, &bid(1)).unwrap()),
            [(2, AlreadyExists, Some(5)), (1, Primary, Some(5))]
        );
        // The primary gives up its id.
        assert_eq!(
            summary(&all.bid(1, &bid(None)).unwrap()),
            [(1, AlreadyExists, Some(1)), (2, Primary, Some(1))]
        );
        assert_eq!(summary(&all.bid(2, &bid(None)).unwrap()), [(1, NotFound, None), (2, NotFound, None)]);
    }

    #[test]
    fn ids_are_unique_and_0_is_an_id() {
        let mut all = with(&[(1, 5)]);
        let error = all.bid(2, &bid(5)).unwrap_err();
        assert_eq!((error.code(), error), (Code::InvalidArgument, ArbitrationError::Duplicate(5)));
        assert_eq!(summary(&all.bid(2, &bid(0)).unwrap()), [(2, AlreadyExists, Some(5))]);
        assert_eq!(all.bid(3, &bid(0)), Err(ArbitrationError::Duplicate(0)));
        // Several clients may have no id.
        assert_eq!(summary(&all.bid(3, &bid(None)).unwrap()), [(3, AlreadyExists, Some(5))]);
        assert_eq!(summary(&all.bid(4, &bid(None)).unwrap()), [(4, AlreadyExists, Some(5))]);
        // A client may take the id of one that has left, or its own old id.
        all.leave(1);
        assert_eq!(all.primary(), Some(2));
        assert_eq!(all.bid(3, &bid(5)).unwrap().len(), 3);
        assert_eq!(all.primary(), Some(3));
    }

    #[test]
    fn wrong_devices_roles_and_too_many_clients_are_rejected() {
        let mut all = with(&[(1, 5)]);
        let other = MasterArbitrationUpdate { device_id: 8, ..bid(6) };
        assert_eq!(all.bid(2, &other).unwrap_err().code(), Code::NotFound);
        assert_eq!(all.bid(1, &other).unwrap_err().code(), Code::FailedPrecondition);
        let role = |role: Role| MasterArbitrationUpdate { role: Some(role), ..bid(6) };
        assert!(all.clone().bid(2, &role(Role::default())).is_ok(), "an empty role is the default one");
        let named = Role { name: "routing".into(), ..Role::default() };
        let error = all.bid(2, &role(named)).unwrap_err();
        assert_eq!(error.code(), Code::NotFound);
        assert!(error.to_string().contains("no role \"routing\""), "{error}");
        #[allow(deprecated)]
        let numbered = Role { id: 3, ..Role::default() };
        assert_eq!(all.bid(2, &role(numbered)), Err(ArbitrationError::Role("3".into())));
        let configured = Role { config: Some(Default::default()), ..Role::default() };
        assert_eq!(all.bid(2, &role(configured)), Err(ArbitrationError::RoleConfig));
        for client in 2..=MAX_CLIENTS as u64 {
            all.bid(client, &bid(u128::from(client) + 100)).unwrap();
        }
        assert_eq!(all.bid(99, &bid(None)), Err(ArbitrationError::TooMany));
        assert!(all.bid(1, &bid(6)).is_ok(), "a connected client may bid again");
    }

    #[test]
    fn only_the_primary_writes() {
        let mut all = Arbitration::new(DEVICE);
        let id = |id: u128| Some(Uint128::from(id));
        let may = |all: &Arbitration, id: Option<Uint128>| all.authorise(id.as_ref());
        assert_eq!(may(&all, None), Ok(()), "without a session, as in BMv2");
        assert_eq!(may(&all, id(5)), Err(ArbitrationError::NoSession));
        all.bid(1, &bid(5)).unwrap();
        all.bid(2, &bid(3)).unwrap();
        assert_eq!(may(&all, id(5)), Ok(()));
        for wrong in [None, id(3), id(6), id(5 << 64)] {
            let error = may(&all, wrong).unwrap_err();
            assert_eq!(error.code(), Code::PermissionDenied);
            assert!(error.to_string().contains("the primary is 5"), "{error}");
        }
        all.leave(1);
        assert_eq!(may(&all, id(3)), Ok(()));
        all.bid(2, &bid(None)).unwrap();
        assert!(may(&all, None).unwrap_err().to_string().contains("the primary is nobody"));
        assert_eq!(all.check_target(7, ""), Ok(()));
        assert_eq!(all.check_target(0, "").unwrap_err().code(), Code::NotFound);
        assert_eq!(all.check_target(7, "x").unwrap_err().code(), Code::NotFound);
    }
}
