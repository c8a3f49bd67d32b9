//! The process that runs all switches and carries their links, asked on its control socket (`weir link`).

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::time::Duration;
use weir_experiment::backend::Error;

/// The name of the socket, in the network namespace (`weir switch --control`).
const SOCKET: &str = "weir-link/fabric";
/// Time that an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// A look at a fabric in one process, for a run that looks often.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// For each link, bytes that have entered it at its first end, and at its second.
    pub bytes: Vec<[u64; 2]>,
    /// For each switch, its ports and their cells of the register.
    pub cells: Vec<Vec<(u16, u64)>>,
}

/// Looks at all links, and at a register of all switches.
pub fn sample(register: &str) -> Result<Sample, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "snake_case")]
    enum Answer {
        Ok(Sample),
        Error(String),
    }
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(SOCKET)?)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("{}\n", json!({"do": "sample", "register": register})).as_bytes())?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    match serde_json::from_str(&line) {
        Ok(Answer::Ok(sample)) => Ok(sample),
        Ok(Answer::Error(why)) => Err(Error::Work(format!("the process of the switches: {why}"))),
        Err(error) => Err(Error::Work(format!("the process of the switches: {error}"))),
    }
}
