//! `--use-files`: frames come from pcap files, one for each port, in the order of their timestamps.

use super::pcap::{PcapError, PcapReader};
use std::time::Duration;

#[derive(Debug)]
struct Source {
    port: u16,
    file: PcapReader,
    /// The frame that comes next; its time is `None` at the end of the file.
    frame: Vec<u8>,
    time: Option<Duration>,
}

/// Pcap files to be replayed, merged. As in BMv2 (pcap_file.cpp) the timestamps give the order and nothing
/// else: frames come as fast as they are taken.
#[derive(Debug, Default)]
pub(super) struct Replay(Vec<Source>);

impl Replay {
    /// Adds the file of a port.
    pub fn add(&mut self, port: u16, mut file: PcapReader) -> Result<(), PcapError> {
        let mut frame = Vec::new();
        let time = file.read(&mut frame)?;
        self.0.push(Source { port, file, frame, time });
        Ok(())
    }

    /// Returns whether all files have been read to their end.
    pub fn is_done(&self) -> bool {
        self.0.iter().all(|source| source.time.is_none())
    }

    /// Gives the earliest frame, of equal ones that of the port added first, and its port to `take`. A file
    /// that turns out to be broken ends there.
    pub fn next(&mut self, take: impl FnOnce(u16, &[u8])) -> Result<(), PcapError> {
        let waiting = self.0.iter_mut().filter(|source| source.time.is_some());
        let Some(source) = waiting.min_by_key(|source| source.time) else { return Ok(()) };
        take(source.port, &source.frame);
        source.time = None;
        source.time = source.file.read(&mut source.frame)?;
        Ok(())
    }
}
