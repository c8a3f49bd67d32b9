//! Replay of pcap files (`--use-files`): one file per port, merged by timestamps.

use super::pcap::{PcapError, PcapReader};
use std::time::Duration;

/// An input file with its next frame.
#[derive(Debug)]
struct ReplayFile {
    port: u16,
    file: PcapReader,
    /// Bytes of the next frame.
    frame: Vec<u8>,
    /// Timestamp of the next frame; `None` at the end of the file.
    time: Option<Duration>,
}

/// Merges pcap files. As in BMv2 (pcap_file.cpp), timestamps determine only the order: frames are read as
/// fast as the caller requests them.
#[derive(Debug, Default)]
pub(super) struct Replay(Vec<ReplayFile>);

impl Replay {
    /// Adds the file of a port.
    pub(super) fn add(&mut self, port: u16, mut file: PcapReader) -> Result<(), PcapError> {
        let mut frame = Vec::new();
        let time = file.read(&mut frame)?;
        self.0.push(ReplayFile { port, file, frame, time });
        Ok(())
    }

    pub(super) fn is_done(&self) -> bool {
        self.0.iter().all(|source| source.time.is_none())
    }

    /// Passes the earliest frame and its port to `on_frame`; among equal timestamps the port added first comes
    /// first. After an error, a file counts as read to its end.
    pub(super) fn next(&mut self, on_frame: impl FnOnce(u16, &[u8])) -> Result<(), PcapError> {
        let unfinished = self.0.iter_mut().filter(|source| source.time.is_some());
        let Some(source) = unfinished.min_by_key(|source| source.time) else { return Ok(()) };
        on_frame(source.port, &source.frame);
        // If `read` fails, the file counts as read to its end.
        source.time = None;
        source.time = source.file.read(&mut source.frame)?;
        Ok(())
    }
}
