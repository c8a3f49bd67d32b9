//! Errors of the client, and the updates that a switch rejects.

use p4runtime::error_details;
use p4runtime::google::rpc;
use p4runtime::p4::v1::{self as p4v1, Uint128, Update};
use p4runtime::p4info::Index;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use tonic::{Code, Status};
use weir_controller::pretty;

/// The reason why a switch could not be controlled. The caller adds the name of the switch.
#[derive(Debug, Error)]
pub enum ClientError {
    #[error("no {protocol} server at {address}: {reason}")]
    Unreachable {
        protocol: &'static str,
        address: String,
        reason: String,
        /// The host refused the connection (ECONNREFUSED): it is up, but no process listens on the port.
        is_refused: bool,
    },
    #[error("no reply to {call} within {} s", limit.as_secs_f64())]
    Timeout { call: &'static str, limit: Duration },
    #[error(
        "another controller is the primary, with election id {}; stop it, or use a larger --election-id",
        format_id(primary)
    )]
    NotPrimary { primary: Uint128 },
    #[error(
        "another controller has election id {}; stop it, or use another --election-id",
        format_id(election_id)
    )]
    ElectionIdTaken { election_id: Uint128 },
    #[error("the server closed the stream: {}", printable(.0))]
    Closed(String),
    #[error("the switch runs no program yet")]
    NoProgram,
    #[error("the switch runs another program; `weir controller apply` pushes this one")]
    OtherProgram,
    #[error(
        "the driver runs {}, with other tables than the bfrt.json of --program; start it with this program",
        printable(&runs.join(", "))
    )]
    OtherTables { runs: Vec<String> },
    #[error("the program is for Tofino, which is not controlled over P4Runtime")]
    ForTofino,
    #[error(
        "another controller is bound to the switch ({}); stop it, or use another --election-id",
        printable(reason)
    )]
    AlreadyBound { reason: String },
    #[error("{what}: {value} does not fit in 32 bits")]
    TooLarge { what: &'static str, value: u128 },
    /// A call failed as a whole.
    #[error("{call}: {}", format_status(.status))]
    Call { call: &'static str, status: Box<Status> },
    /// Updates were rejected; the other updates of their batch were applied.
    #[error("{} of {batch_len} updates were rejected, the first: {}", rejected.len(), rejected.first().map(ToString::to_string).unwrap_or_default())]
    Rejected {
        /// Never empty.
        rejected: Vec<RejectedUpdate>,
        /// Number of updates in the batch.
        batch_len: usize,
    },
    /// The switch accepted the updates, but reading them back gave other entities.
    #[error("{count} entities are not as written, the first to be corrected: {first}")]
    ReadBackMismatch { count: usize, first: String },
}

/// An update that the switch rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RejectedUpdate {
    /// The update in the format of [`pretty::update`].
    pub update: String,
    pub code: rpc::Code,
    /// The message of the server; often empty.
    pub message: String,
}

impl fmt::Display for RejectedUpdate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.update, self.code.as_str_name())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", printable(&self.message)) }
    }
}

impl ClientError {
    pub(super) fn call(call: &'static str, status: Status) -> ClientError {
        ClientError::Call { call, status: Box::new(status) }
    }

    /// Converts the error of a Write. If the server reports an error per update, lists the rejected updates.
    pub(super) fn write(status: Status, updates: &[Update], p4info: &Index) -> ClientError {
        let rejected = rejected_updates(&status, updates, p4info);
        if rejected.is_empty() {
            return ClientError::call("Write", status);
        }
        ClientError::Rejected { rejected, batch_len: updates.len() }
    }

    /// Returns whether the switch does not implement the call.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, ClientError::Call { status, .. } if status.code() == Code::Unimplemented)
    }

    /// Returns whether a retry may succeed.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } | ClientError::Timeout { .. } | ClientError::Closed(_) => true,
            ClientError::ElectionIdTaken { .. } | ClientError::AlreadyBound { .. } => true,
            ClientError::Call { status, .. } => matches!(status.code(), Code::Unavailable | Code::Cancelled),
            _ => false,
        }
    }
}

/// Returns the rejected updates of a batch, from the errors per update (P4Runtime §12.3). Empty if the server does not
/// report one error for each update.
fn rejected_updates(status: &Status, updates: &[Update], p4info: &Index) -> Vec<RejectedUpdate> {
    let errors = error_details::decode::<p4v1::Error>(status.details());
    if errors.len() != updates.len() {
        return Vec::new();
    }
    errors
        .into_iter()
        .zip(updates)
        .filter(|(error, _)| error.canonical_code != 0)
        .map(|(error, update)| RejectedUpdate {
            update: pretty::update(update, p4info),
            code: rpc::Code::try_from(error.canonical_code).unwrap_or(rpc::Code::Unknown),
            message: error.message,
        })
        .collect()
}

fn format_id(id: &Uint128) -> String {
    u128::from(*id).to_string()
}

fn format_status(status: &Status) -> String {
    let code = rpc::Code::try_from(i32::from(status.code())).unwrap_or(rpc::Code::Unknown);
    match status.message() {
        "" => code.as_str_name().to_owned(),
        message => format!("{}: {}", code.as_str_name(), printable(message)),
    }
}

/// Escapes the characters of a server's message that a terminal would interpret: control characters, and characters
/// that change the text direction.
pub(super) fn printable(message: &str) -> String {
    let mut text = String::with_capacity(message.len());
    for c in message.chars() {
        let changes_direction =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || changes_direction { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_in_server_messages_are_escaped() {
        let evil = "ok\x1b]0;owned\x07\r\nerror: \u{202e}é";
        let escaped = "ok\\u{1b}]0;owned\\u{7}\\r\\nerror: \\u{202e}é";
        let text = || evil.to_owned();
        let (update, code) = ("forward".to_owned(), rpc::Code::InvalidArgument);
        for error in [
            ClientError::call("Write", Status::internal(evil)),
            ClientError::Closed(text()),
            ClientError::AlreadyBound { reason: text() },
            ClientError::OtherTables { runs: vec![text()] },
            ClientError::Rejected {
                rejected: vec![RejectedUpdate { update, code, message: text() }],
                batch_len: 1,
            },
        ] {
            let message = error.to_string();
            assert!(message.contains(escaped) && !message.contains(char::is_control), "{message}");
        }
    }
}
