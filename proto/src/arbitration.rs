//! Client arbitration: selects the primary client of each role of a device, the only one of the role that may write
//! (P4Runtime §5).
//!
//! [`bid`] creates the request of a client. [`Arbitration`] is the state of a server; it is sans-I/O and reads no
//! clock.
//!
//! ```
//! use p4runtime::arbitration::{Arbitration, RoleId, bid};
//! use p4runtime::p4::v1::stream_message_request::Update;
//!
//! let mut device = Arbitration::new(1);
//! let Some(Update::Arbitration(first)) = bid(1, 5).update else { unreachable!() };
//! device.bid(100, &first)?;
//! assert_eq!(device.primary(&RoleId::Default), Some(100));
//! # Ok::<(), p4runtime::arbitration::ArbitrationError>(())
//! ```
//!
//! Where BMv2 and the specification differ, [`Arbitration`] follows BMv2: the primary is the client with the highest
//! id among those that are *currently* connected. When it disconnects, the next one becomes primary without a new
//! bid, even with an id lower than one seen before. By the specification the switch would have no primary until a
//! client bids at least the highest id ever seen, which would lock out a controller that restarts with a fixed id.
//!
//! Roles follow the specification: each has its own primary and its own election ids, and a bid names its role. Any name
//! is a role, with access to the whole pipeline; a role configuration, which would restrict the access, is rejected.
//! BMv2 ignores roles.

use crate::google::rpc::{Code, Status};
use crate::p4::v1::stream_message_request::Update;
use crate::p4::v1::{MasterArbitrationUpdate, Role, StreamMessageRequest, Uint128};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
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

/// Maximum length of a role's name in bytes. Each client stores its name, and each notification repeats it.
const MAX_ROLE_NAME: usize = 256;

/// Identifies a role.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum RoleId {
    /// The role of clients that name none.
    #[default]
    Default,
    /// A role with a name.
    Named(String),
    /// A role with a number, as clients of P4Runtime before 1.4 send it.
    Numbered(u64),
}

impl RoleId {
    /// Creates a role from the two fields of a request: the name, and the deprecated number, which has no effect
    /// beside a name.
    pub fn new(name: &str, number: u64) -> RoleId {
        match (name, number) {
            ("", 0) => RoleId::Default,
            ("", number) => RoleId::Numbered(number),
            (name, _) => RoleId::Named(name.to_owned()),
        }
    }

    /// Returns the message of an arbitration update; `None` for the default role.
    fn to_message(&self) -> Option<Role> {
        #[allow(deprecated)] // repeated to clients that sent it
        match self {
            RoleId::Default => None,
            RoleId::Named(name) => Some(Role { name: name.clone(), ..Role::default() }),
            RoleId::Numbered(id) => Some(Role { id: *id, ..Role::default() }),
        }
    }

    /// Returns " of" and the role for error messages; nothing for the default role.
    fn of(&self) -> String {
        match self {
            RoleId::Default => String::new(),
            role => format!(" of {role}"),
        }
    }
}

impl fmt::Display for RoleId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleId::Default => f.write_str("the default role"),
            // Requests may name any role; a message longer than the limit of HTTP/2 headers would end the connection.
            RoleId::Named(name) if name.len() > MAX_ROLE_NAME => write!(f, "a role of {} bytes", name.len()),
            RoleId::Named(name) => write!(f, "role {name:?}"),
            RoleId::Numbered(number) => write!(f, "role {number}"),
        }
    }
}

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
    /// A stream cannot change its role.
    #[error("this stream belongs to {current}; open another one for {requested}")]
    RoleChanged {
        /// Role in the bid.
        requested: RoleId,
        /// Role of the stream.
        current: RoleId,
    },
    /// The name of the role is longer than 256 bytes.
    #[error("role.name has {0} bytes; the maximum is {MAX_ROLE_NAME}")]
    RoleName(usize),
    /// The bid has a role configuration.
    #[error(
        "role.config is not supported: every role has access to the whole pipeline; leave role.config unset or empty"
    )]
    RoleConfig,
    /// Another client of the role has this election id.
    #[error("Election id already exists: another client{} has {id}, choose another id", .role.of())]
    Duplicate {
        /// Role of the two clients.
        role: RoleId,
        /// The election id.
        id: u128,
    },
    /// [`MAX_CLIENTS`] clients are connected.
    #[error("Too many connections: {MAX_CLIENTS} clients are connected to this device")]
    TooMany,
    /// The election id is not that of the role's primary.
    #[error("Not primary{}: {given}, and the primary is {primary}", .role.of())]
    NotPrimary {
        /// Role of the request.
        role: RoleId,
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
            ArbitrationError::DeviceChanged { .. } | ArbitrationError::RoleChanged { .. } => {
                Code::FailedPrecondition
            }
            ArbitrationError::RoleName(_)
            | ArbitrationError::RoleConfig
            | ArbitrationError::Duplicate { .. } => Code::InvalidArgument,
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

/// The clients of one device with their roles and election ids.
#[derive(Clone, Debug)]
pub struct Arbitration {
    device: u64,
    clients: BTreeMap<ClientId, Bidder>,
}

/// The last bid of a client.
#[derive(Clone, Debug)]
struct Bidder {
    role: RoleId,
    /// A client without an election id never becomes primary.
    election_id: Option<u128>,
}

impl Arbitration {
    /// Creates the state of a device without clients.
    pub fn new(device: u64) -> Arbitration {
        Arbitration { device, clients: BTreeMap::new() }
    }

    /// Returns the client that may write in this role; `None` if no client of the role has an election id.
    pub fn primary(&self, role: &RoleId) -> Option<ClientId> {
        self.highest(role).map(|(client, _)| client)
    }

    /// Returns the primaries of all roles, in the order of the roles.
    pub fn primaries(&self) -> Vec<ClientId> {
        let roles: BTreeSet<&RoleId> = self.clients.values().map(|bidder| &bidder.role).collect();
        roles.into_iter().filter_map(|role| self.primary(role)).collect()
    }

    /// Returns whether a client is the primary of its role.
    pub fn is_primary(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|bidder| self.primary(&bidder.role) == Some(client))
    }

    /// Returns whether a client has bid, with or without an election id.
    pub fn has_bid(&self, client: ClientId) -> bool {
        self.clients.contains_key(&client)
    }

    /// Returns the clients of a role with their election ids.
    fn bidders(&self, role: &RoleId) -> impl Iterator<Item = (ClientId, Option<u128>)> {
        let bidders = self.clients.iter().filter(move |(_, bidder)| bidder.role == *role);
        bidders.map(|(&client, bidder)| (client, bidder.election_id))
    }

    fn highest(&self, role: &RoleId) -> Option<(ClientId, u128)> {
        self.bidders(role).filter_map(|(client, id)| Some((client, id?))).max_by_key(|&(_, id)| id)
    }

    /// Handles a bid, the first of a client or a later one. Returns the notifications to send, that of the primary
    /// last.
    ///
    /// # Errors
    ///
    /// The bid names another device, a role other than the client's, or a role configuration; another client of the role
    /// has the id; or there are [`MAX_CLIENTS`] clients. The server must close the client's stream and call
    /// [`leave`](Self::leave).
    pub fn bid(
        &mut self,
        client: ClientId,
        bid: &MasterArbitrationUpdate,
    ) -> Result<Vec<ArbitrationNotification>, ArbitrationError> {
        let known = self.clients.get(&client);
        let (requested, device) = (bid.device_id, self.device);
        match (requested == device, known) {
            (true, _) => {}
            (false, Some(_)) => return Err(ArbitrationError::DeviceChanged { requested, device }),
            (false, None) => return Err(ArbitrationError::OtherDevice { requested, device }),
        }
        let role = role_of(bid)?;
        match known {
            Some(Bidder { role: current, .. }) if *current != role => {
                return Err(ArbitrationError::RoleChanged { requested: role, current: current.clone() });
            }
            None if self.clients.len() >= MAX_CLIENTS => return Err(ArbitrationError::TooMany),
            _ => {}
        }
        let election_id = bid.election_id.map(u128::from);
        if let Some(id) = election_id
            && self.bidders(&role).any(|(other, other_id)| other != client && other_id == Some(id))
        {
            return Err(ArbitrationError::Duplicate { role, id });
        }
        let before = self.highest(&role);
        self.clients.insert(client, Bidder { role: role.clone(), election_id });
        // The specification requires a notification of all clients only when the primary changes.
        Ok(match self.highest(&role) == before {
            true => vec![self.notification(client, &role)],
            false => self.notify_all(&role),
        })
    }

    /// Removes a client whose stream has ended. Returns the notifications for the other clients.
    pub fn leave(&mut self, client: ClientId) -> Vec<ArbitrationNotification> {
        let Some(Bidder { role, .. }) = self.clients.get(&client).cloned() else { return Vec::new() };
        let before = self.highest(&role);
        self.clients.remove(&client);
        match self.highest(&role) == before {
            true => Vec::new(),
            false => self.notify_all(&role),
        }
    }

    /// Checks whether a request of a role with this election id may write. As in BMv2, a request without an id may write
    /// while no client of any role is connected, so that tools without a session can set up a switch.
    ///
    /// # Errors
    ///
    /// The id is not that of the role's primary, or there is an id but no client is connected.
    pub fn authorise(&self, role: &RoleId, election_id: Option<&Uint128>) -> Result<(), ArbitrationError> {
        let id = election_id.copied().map(u128::from);
        match (self.highest(role), id) {
            (Some((_, primary)), Some(id)) if id == primary => Ok(()),
            (None, None) if self.clients.is_empty() => Ok(()),
            (None, Some(_)) if self.clients.is_empty() => Err(ArbitrationError::NoSession),
            (primary, id) => Err(ArbitrationError::NotPrimary {
                role: role.clone(),
                given: self.describe(id),
                primary: primary.map_or("nobody".into(), |(_, id)| id.to_string()),
            }),
        }
    }

    /// Describes the election id of a request that may not write. Clients that bid with a role sometimes leave it out of
    /// their requests, which BMv2 accepts; so the roles in which the id is the primary's are named.
    fn describe(&self, id: Option<u128>) -> String {
        let Some(id) = id else { return "the request has no election id".into() };
        let roles: BTreeSet<&RoleId> = self.clients.values().map(|bidder| &bidder.role).collect();
        let other = roles.into_iter().find(|role| self.highest(role).is_some_and(|(_, other)| other == id));
        match other {
            Some(role) => {
                format!("the election id is {id}, of the primary of {role}, which the request must name")
            }
            None => format!("the election id is {id}"),
        }
    }

    /// Checks the device of a request.
    ///
    /// # Errors
    ///
    /// The request is for another device.
    pub fn check_device(&self, device: u64) -> Result<(), ArbitrationError> {
        match device == self.device {
            true => Ok(()),
            false => Err(ArbitrationError::OtherDevice { requested: device, device: self.device }),
        }
    }

    /// Returns notifications for all clients of a role.
    fn notify_all(&self, role: &RoleId) -> Vec<ArbitrationNotification> {
        let primary = self.primary(role);
        let backups = self.bidders(role).map(|(client, _)| client).filter(|&client| Some(client) != primary);
        backups.chain(primary).map(|client| self.notification(client, role)).collect()
    }

    fn notification(&self, to: ClientId, role: &RoleId) -> ArbitrationNotification {
        let highest = self.highest(role);
        let (code, message) = match highest {
            Some((primary, _)) if primary == to => (Code::Ok, "Is primary"),
            Some(_) => (Code::AlreadyExists, "Is backup"),
            None => (Code::NotFound, "Is backup, no client is primary"),
        };
        let status = Status { code: code.into(), message: message.into(), details: Vec::new() };
        let update = MasterArbitrationUpdate {
            device_id: self.device,
            role: role.to_message(),
            election_id: highest.map(|(_, id)| id.into()),
            status: Some(status),
        };
        ArbitrationNotification { to, update }
    }
}

/// Returns the role of a bid.
fn role_of(bid: &MasterArbitrationUpdate) -> Result<RoleId, ArbitrationError> {
    let Some(role) = &bid.role else { return Ok(RoleId::Default) };
    // A configuration without content, of any type, restricts nothing. finsy sends one with each role.
    if role.config.as_ref().is_some_and(|config| !config.value.is_empty()) {
        return Err(ArbitrationError::RoleConfig);
    }
    if role.name.len() > MAX_ROLE_NAME {
        return Err(ArbitrationError::RoleName(role.name.len()));
    }
    #[allow(deprecated)] // older clients still send it
    Ok(RoleId::new(&role.name, role.id))
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

    fn duplicate(id: u128) -> ArbitrationError {
        ArbitrationError::Duplicate { role: RoleId::Default, id }
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
        assert_eq!(all.primary(&RoleId::Default), Some(3));
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
        assert_eq!((error.code(), error), (Code::InvalidArgument, duplicate(5)));
        assert_eq!(summary(&all.bid(2, &bid(0)).unwrap()), [(2, AlreadyExists, Some(5))]);
        assert_eq!(all.bid(3, &bid(0)), Err(duplicate(0)));
        // Several clients may have no id.
        assert_eq!(summary(&all.bid(3, &bid(None)).unwrap()), [(3, AlreadyExists, Some(5))]);
        assert_eq!(summary(&all.bid(4, &bid(None)).unwrap()), [(4, AlreadyExists, Some(5))]);
        // A client may take the id of one that has left, or its own old id.
        all.leave(1);
        assert_eq!(all.primary(&RoleId::Default), Some(2));
        assert_eq!(all.bid(3, &bid(5)).unwrap().len(), 3);
        assert_eq!(all.primary(&RoleId::Default), Some(3));
    }

    #[test]
    fn wrong_devices_and_too_many_clients_are_rejected() {
        let mut all = with(&[(1, 5)]);
        let other = MasterArbitrationUpdate { device_id: 8, ..bid(6) };
        assert_eq!(all.bid(2, &other).unwrap_err().code(), Code::NotFound);
        assert_eq!(all.bid(1, &other).unwrap_err().code(), Code::FailedPrecondition);
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
        let may = |all: &Arbitration, id: Option<Uint128>| all.authorise(&RoleId::Default, id.as_ref());
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
        assert_eq!(all.check_device(7), Ok(()));
        assert_eq!(all.check_device(0).unwrap_err().code(), Code::NotFound);
    }

    fn bid_as(role: Role, id: impl Into<Option<u128>>) -> MasterArbitrationUpdate {
        MasterArbitrationUpdate { role: Some(role), ..bid(id) }
    }

    fn named(name: &str) -> Role {
        Role { name: name.into(), ..Role::default() }
    }

    #[test]
    fn each_role_has_its_own_primary() {
        let mut all = with(&[(1, 5), (2, 3)]);
        // The same id in another role, and a lower one than that of the default role's primary.
        let notifications = all.bid(3, &bid_as(named("routing"), 5)).unwrap();
        assert_eq!(summary(&notifications), [(3, Primary, Some(5))]);
        assert_eq!(notifications[0].update.role, Some(named("routing")), "the answer repeats the role");
        #[allow(deprecated)]
        let numbered = Role { id: 3, ..Role::default() };
        assert_eq!(summary(&all.bid(4, &bid_as(numbered.clone(), 1)).unwrap()), [(4, Primary, Some(1))]);
        assert_eq!(
            summary(&all.bid(5, &bid_as(named("routing"), 7)).unwrap()),
            [(3, AlreadyExists, Some(7)), (5, Primary, Some(7))]
        );
        let routing = RoleId::new("routing", 0);
        assert_eq!((all.primary(&routing), all.primary(&RoleId::Default)), (Some(5), Some(1)));
        assert_eq!(all.primary(&RoleId::new("", 3)), Some(4));
        assert_eq!(all.primaries(), [1, 5, 4]);
        assert_eq!(
            [1, 2, 3, 4, 5, 9].map(|client| all.is_primary(client)),
            [true, false, false, true, true, false]
        );
        // Ids are unique within a role.
        let error = all.bid(6, &bid_as(named("routing"), 5)).unwrap_err();
        assert_eq!(error, ArbitrationError::Duplicate { role: routing.clone(), id: 5 });
        assert!(error.to_string().contains("another client of role \"routing\" has 5"), "{error}");
        assert_eq!(summary(&all.leave(5)), [(3, Primary, Some(5))]);
        assert_eq!(all.leave(4), []);
        assert_eq!(all.primaries(), [1, 3]);
        // An empty role, or one with an empty configuration, is the default one.
        let config = prost_types::Any { type_url: "type.googleapis.com/x".into(), value: Vec::new() };
        let empty = Role { config: Some(config), ..Role::default() };
        assert_eq!(summary(&all.bid(6, &bid_as(Role::default(), 2)).unwrap()), [(6, AlreadyExists, Some(5))]);
        assert_eq!(summary(&all.bid(7, &bid_as(empty, 1)).unwrap()), [(7, AlreadyExists, Some(5))]);
    }

    #[test]
    fn a_role_that_changes_is_too_long_or_has_a_configuration_is_rejected() {
        let mut all = with(&[(1, 5)]);
        let error = all.bid(1, &bid_as(named("routing"), 6)).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
        assert!(error.to_string().contains("belongs to the default role"), "{error}");
        let config = prost_types::Any { type_url: "type.googleapis.com/x".into(), value: vec![1] };
        let configured = Role { config: Some(config), ..named("routing") };
        assert_eq!(all.bid(2, &bid_as(configured, 6)), Err(ArbitrationError::RoleConfig));
        let long = bid_as(named(&"x".repeat(MAX_ROLE_NAME + 1)), 6);
        assert_eq!(all.bid(2, &long).unwrap_err(), ArbitrationError::RoleName(257));
        assert_eq!(ArbitrationError::RoleConfig.code(), Code::InvalidArgument);
        assert!(!all.has_bid(2));
    }

    #[test]
    fn a_request_needs_the_id_of_the_primary_of_its_role() {
        let mut all = with(&[(1, 5)]);
        let routing = RoleId::new("routing", 0);
        let may = |all: &Arbitration, role: &RoleId, id: Option<u128>| {
            all.authorise(role, id.map(Uint128::from).as_ref())
        };
        assert_eq!(
            may(&all, &routing, None).unwrap_err().code(),
            Code::PermissionDenied,
            "a client is connected"
        );
        all.bid(2, &bid_as(named("routing"), 9)).unwrap();
        assert_eq!(may(&all, &routing, Some(9)), Ok(()));
        assert_eq!(may(&all, &RoleId::Default, Some(5)), Ok(()));
        let error = may(&all, &RoleId::Default, Some(9)).unwrap_err();
        assert_eq!(error.code(), Code::PermissionDenied);
        assert_eq!(
            error.to_string(),
            "Not primary: the election id is 9, of the primary of role \"routing\", which the request must name, \
             and the primary is 5"
        );
        let error = may(&all, &routing, Some(4)).unwrap_err().to_string();
        assert_eq!(error, "Not primary of role \"routing\": the election id is 4, and the primary is 9");
    }
}
