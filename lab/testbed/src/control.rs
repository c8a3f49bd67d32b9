//! Requests on the control sockets of running processes, and their answers, each a line of JSON.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;
use weir_experiment::backend::Error;

/// The longest request. A policy has some kilobytes, and a history 32 of them.
const MAX_REQUEST_LEN: u64 = 1 << 18;
/// The longest answer: a kilobyte for each link of a fabric.
const MAX_RESPONSE_LEN: u64 = 1 << 24;
/// Time that the other side may take.
pub const REPLY_TIMEOUT: Duration = Duration::from_secs(2);

/// An answer in its encoded form, one line of JSON.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReplyLine<R> {
    Ok(R),
    Error(String),
}

/// Asks a process by an open connection; `who` is it in messages.
///
/// # Errors
///
/// If it refuses, or does not answer.
pub fn ask<R: DeserializeOwned>(
    mut stream: UnixStream,
    who: &dyn Display,
    request: &impl Serialize,
) -> Result<R, Error> {
    let failed = |error: &dyn Display| Error::Work(format!("{who}: {error}"));
    let line = serde_json::to_string(request).map_err(|error| failed(&error))?;
    // Twice as patient as the other side, which then says why.
    let limited = stream
        .set_read_timeout(Some(2 * REPLY_TIMEOUT))
        .and_then(|()| stream.set_write_timeout(Some(REPLY_TIMEOUT)));
    limited
        .and_then(|()| stream.write_all(format!("{line}\n").as_bytes()))
        .map_err(|error| failed(&error))?;
    let answer = read_line(&stream, MAX_RESPONSE_LEN).map_err(|error| failed(&error))?;
    match serde_json::from_str(&answer).map_err(|error| failed(&error))? {
        ReplyLine::Ok(report) => Ok(report),
        ReplyLine::Error(reason) => Err(Error::Input(reason)),
    }
}

/// The other side: hears one request, has it answered, and answers.
///
/// # Errors
///
/// If the client has gone away.
pub fn answer<Q: DeserializeOwned, R: Serialize>(
    stream: &UnixStream,
    ask: impl FnOnce(Q) -> Result<R, String>,
) -> io::Result<()> {
    stream.set_read_timeout(Some(REPLY_TIMEOUT))?;
    stream.set_write_timeout(Some(REPLY_TIMEOUT))?;
    let answer = match read_line(stream, MAX_REQUEST_LEN) {
        Ok(line) => match serde_json::from_str(&line) {
            Ok(request) => ask(request),
            Err(error) => Err(format!("not a request: {error}")),
        },
        Err(error) => Err(format!("not a request: {error}")),
    };
    let line = match answer {
        Ok(report) => ReplyLine::Ok(report),
        Err(reason) => ReplyLine::Error(reason),
    };
    let text = serde_json::to_string(&line).map_err(io::Error::other)?;
    (&mut &*stream).write_all(format!("{text}\n").as_bytes())
}

/// Returns a line, not longer than it may be.
fn read_line(stream: &UnixStream, longest: u64) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(stream.take(longest)).read_line(&mut line)?;
    match line.ends_with('\n') {
        true => Ok(line),
        false if line.len() as u64 >= longest => {
            Err(io::Error::other(format!("a line of more than {longest} bytes")))
        }
        false => Err(io::Error::other("the line ends too early")),
    }
}
