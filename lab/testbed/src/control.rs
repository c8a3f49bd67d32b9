//! The protocol of control sockets: a request and its reply, each one line of JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_experiment::backend::Error;

/// Maximum length of a request: a history of 32 policies of some kilobytes.
const MAX_REQUEST_LEN: u64 = 1 << 18;
/// Maximum length of a reply: about 1 KB for each link of a large fabric.
const MAX_REPLY_LEN: u64 = 1 << 24;
/// Time limit for reading a request or writing a reply.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// A reply as encoded in JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyLine<R> {
    Ok(R),
    Error(String),
}

/// Sends one request over an open connection and waits for the reply. `peer` names the peer in error messages.
///
/// # Errors
///
/// If the peer rejects the request ([`Error::Input`]), or the exchange fails ([`Error::Work`]).
pub fn request<R: DeserializeOwned>(
    mut stream: UnixStream,
    peer: &dyn Display,
    request: &impl Serialize,
) -> Result<R, Error> {
    let failed = |error: &dyn Display| Error::Work(format!("{peer}: {error}"));
    let line = serde_json::to_string(request).map_err(|error| failed(&error))?;
    // Twice the server's timeout, so that a server that times out can still report the reason.
    let timeouts_set = stream
        .set_read_timeout(Some(2 * REPLY_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(REPLY_TIMEOUT)));
    timeouts_set
        .and_then(|()| stream.write_all(format!("{line}\n").as_bytes()))
        .map_err(|error| failed(&error))?;
    let reply = read_line(&stream, MAX_REPLY_LEN).map_err(|error| failed(&error))?;
    match serde_json::from_str(&reply).map_err(|error| failed(&error))? {
        ReplyLine::Ok(report) => Ok(report),
        ReplyLine::Error(reason) => Err(Error::Input(reason)),
    }
}

/// Server side: reads one request, calls `handle`, and writes its reply.
///
/// # Errors
///
/// If the reply cannot be written, for example because the client disconnected.
pub fn respond<Q: DeserializeOwned, R: Serialize>(
    stream: &UnixStream,
    handle: impl FnOnce(Q) -> Result<R, String>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let result = match read_line(stream, MAX_REQUEST_LEN) {
        Ok(line) => match serde_json::from_str(&line) {
            Ok(request) => handle(request),
            Err(error) => Err(format!("invalid request: {error}")),
        },
        Err(error) => Err(format!("invalid request: {error}")),
    };
    let line = match result {
        Ok(report) => ReplyLine::Ok(report),
        Err(reason) => ReplyLine::Error(reason),
    };
    let text = serde_json::to_string(&line).map_err(io::Error::other)?;
    (&mut &*stream).write_all(format!("{text}\n").as_bytes())
}

/// Reads a line of at most `max_len` bytes.
fn read_line(stream: &UnixStream, max_len: u64) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(max_len)).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(line),
        false if line.len() as u64 >= max_len => {
            Err(io::Error::other(format!("line exceeds {max_len} bytes")))
        }
        false => Err(io::Error::other("connection closed in the middle of a line")),
    }
}
