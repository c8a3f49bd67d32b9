use p4runtime::error_details;
use p4runtime::google::rpc;
use p4runtime::p4::v1::{self as p4v1, Uint128, Update};
use p4runtime::p4info::Index;
use std::fmt;
use std::time::Duration;
use thiserror::Error;
use tonic::{Code, Status};
use weir_controller::pretty;

/// A reason why a switch could not be controlled. The caller adds the switch's name.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody answers.
    #[error("no {protocol} server at {address}: {reason}")]
    Unreachable {
        /// Spoken there.
        protocol: &'static str,
        /// The switch's address.
        address: String,
        /// The system's words.
        reason: String,
        /// The host refused the connection: it is there, and no process listens.
        is_refused: bool,
    },
    /// No answer in time.
    #[error("no answer to {call} within {} s", limit.as_secs_f64())]
    Timeout {
        /// The call.
        call: &'static str,
        /// Time that was waited.
        limit: Duration,
    },
    /// Another controller is in charge.
    #[error(
        "another controller is the primary, with election id {}; stop it, or give a larger --election-id",
        id(primary)
    )]
    NotPrimary {
        /// Its election id.
        primary: Uint128,
    },
    /// Another controller has our election id.
    #[error("another controller has election id {}; stop it, or give another --election-id", id(election_id))]
    ElectionIdTaken {
        /// Ours.
        election_id: Uint128,
    },
    /// The stream ended.
    #[error("the server closed the stream: {}", printable(.0))]
    Closed(String),
    /// The switch has no program.
    #[error("the switch runs no program yet")]
    NoProgram,
    /// The switch runs something else.
    #[error("the switch runs another program; `weir controller apply` pushes this one")]
    OtherProgram,
    /// The Tofino switch runs something else.
    #[error(
        "the driver runs {}, with other tables than the bfrt.json of --program; start it with this program",
        printable(&runs.join(", "))
    )]
    OtherTables {
        /// The names of its programs.
        runs: Vec<String>,
    },
    /// P4Runtime for a program that is for Tofino.
    #[error("the program is for Tofino, which P4Runtime does not reach")]
    ForTofino,
    /// Another client is bound to the program of a Tofino switch, or has our id.
    #[error(
        "another controller has the switch ({}); stop it, or give another --election-id",
        printable(reason)
    )]
    AlreadyBound {
        /// The driver's words.
        reason: String,
    },
    /// A number that the protocol does not take.
    #[error("{what}: {value} does not fit 32 bits")]
    TooLarge {
        /// Name of the number.
        what: &'static str,
        /// The number.
        value: u128,
    },
    /// A call failed as a whole.
    #[error("{call}: {}", status_words(.status))]
    Call {
        /// The call.
        call: &'static str,
        /// The answer.
        status: Box<Status>,
    },
    /// Updates were refused. The others of their batch were made.
    #[error("{} of {of} updates were refused, the first: {}", refused.len(), refused.first().map(ToString::to_string).unwrap_or_default())]
    Rejected {
        /// The refused updates with their reasons; never empty.
        refused: Vec<Refused>,
        /// Updates in the batch.
        of: usize,
    },
    /// The switch took the updates and does not hold what they said.
    #[error("{count} entities are not as written, the first to be corrected: {first}")]
    ReadBackMismatch {
        /// Number of updates.
        count: usize,
        /// In words.
        first: String,
    },
}

/// An update that the switch did not make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The update in words.
    pub update: String,
    /// Canonical code.
    pub code: rpc::Code,
    /// The server's words, often none.
    pub message: String,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.update, self.code.as_str_name())?;
        if self.message.is_empty() { Ok(()) } else { write!(f, ": {}", printable(&self.message)) }
    }
}

impl ClientError {
    pub(super) fn call(call: &'static str, status: Status) -> ClientError {
        ClientError::Call { call, status: Box::new(status) }
    }

    /// Of a Write: with an error for each update, if the server told them.
    pub(super) fn write(status: Status, updates: &[Update], p4info: &Index) -> ClientError {
        let refused = refused(&status, updates, p4info);
        if refused.is_empty() {
            return ClientError::call("Write", status);
        }
        ClientError::Rejected { refused, of: updates.len() }
    }

    /// Returns whether the switch does not offer what was asked for.
    pub fn is_unimplemented(&self) -> bool {
        matches!(self, ClientError::Call { status, .. } if status.code() == Code::Unimplemented)
    }

    /// Returns whether it may be otherwise in a moment.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Unreachable { .. } | ClientError::Timeout { .. } | ClientError::Closed(_) => true,
            ClientError::ElectionIdTaken { .. } | ClientError::AlreadyBound { .. } => true,
            ClientError::Call { status, .. } => matches!(status.code(), Code::Unavailable | Code::Cancelled),
            _ => false,
        }
    }
}

/// Returns the updates of a batch with an error of their own (P4Runtime §12.3).
fn refused(status: &Status, updates: &[Update], p4info: &Index) -> Vec<Refused> {
    let errors = error_details::decode::<p4v1::Error>(status.details());
    if errors.len() != updates.len() {
        return Vec::new();
    }
    errors
        .into_iter()
        .zip(updates)
        .filter(|(error, _)| error.canonical_code != 0)
        .map(|(error, update)| Refused {
            update: pretty::update(update, p4info),
            code: rpc::Code::try_from(error.canonical_code).unwrap_or(rpc::Code::Unknown),
            message: error.message,
        })
        .collect()
}

fn id(id: &Uint128) -> String {
    u128::from(*id).to_string()
}

fn status_words(status: &Status) -> String {
    let code = rpc::Code::try_from(i32::from(status.code())).unwrap_or(rpc::Code::Unknown);
    match status.message() {
        "" => code.as_str_name().to_owned(),
        message => format!("{}: {}", code.as_str_name(), printable(message)),
    }
}

/// Returns the words of a server without what a terminal would obey: control characters, and those that turn the direction
/// of a line.
pub(super) fn printable(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in words.chars() {
        let turns = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || turns { text.extend(c.escape_default()) } else { text.push(c) }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_servers_cannot_steer_a_terminal() {
        let evil = "ok\x1b]0;owned\x07\r\nerror: \u{202e}é";
        let shown = "ok\\u{1b}]0;owned\\u{7}\\r\\nerror: \\u{202e}é";
        let words = || evil.to_owned();
        let (update, code) = ("forward".to_owned(), rpc::Code::InvalidArgument);
        for error in [
            ClientError::call("Write", Status::internal(evil)),
            ClientError::Closed(words()),
            ClientError::AlreadyBound { reason: words() },
            ClientError::OtherTables { runs: vec![words()] },
            ClientError::Refused { refused: vec![Refused { update, code, message: words() }], of: 1 },
        ] {
            let told = error.to_string();
            assert!(told.contains(shown) && !told.contains(char::is_control), "{told}");
        }
    }
}
