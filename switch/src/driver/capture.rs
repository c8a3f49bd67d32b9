//! Packet capture (`--pcap`): writes the frames of a port to two files of limited size.

use super::clock::wall_clock;
use super::pcap::{PcapError, PcapWriter};
use std::path::{Path, PathBuf};

/// The directory of the capture files, and the limit of their size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// The directory, which must exist.
    pub directory: PathBuf,
    /// Maximum size of a file in bytes. Frames that no longer fit are counted as not captured.
    pub limit: u64,
}

impl CaptureConfig {
    /// 16 MiB, about 10,000 full frames.
    pub const LIMIT: u64 = 16 << 20;
}

/// Returns the names of the files for received and sent frames, as in BMv2.
pub(super) fn file_paths(directory: &Path, interface: &str) -> (PathBuf, PathBuf) {
    let file = |direction| directory.join(format!("{interface}_{direction}.pcap"));
    (file("in"), file("out"))
}

/// The capture files of one port; `None` after a write error.
pub(super) struct Capture {
    received: Option<PcapWriter>,
    sent: Option<PcapWriter>,
}

impl Capture {
    /// Creates both files.
    pub(super) fn open(config: &CaptureConfig, interface: &str) -> Result<Capture, PcapError> {
        let (received, sent) = file_paths(&config.directory, interface);
        let open = |path: PathBuf| PcapWriter::create(&path, config.limit).map(Some);
        Ok(Capture { received: open(received)?, sent: open(sent)? })
    }

    /// Writes a received frame. Returns `false` if it was not written.
    pub(super) fn write_received(&mut self, frame: &[u8]) -> bool {
        write(&mut self.received, frame)
    }

    /// Writes a sent frame. Returns `false` if it was not written.
    pub(super) fn write_sent(&mut self, frame: &[u8]) -> bool {
        write(&mut self.sent, frame)
    }

    /// Flushes both files to the operating system.
    pub(super) fn flush(&mut self) {
        for file in [&mut self.received, &mut self.sent] {
            if let Some(Err(error)) = file.as_mut().map(PcapWriter::flush) {
                disable(file, &error);
            }
        }
    }
}

fn write(file: &mut Option<PcapWriter>, frame: &[u8]) -> bool {
    match file.as_mut().map(|file| file.write(wall_clock(), frame)) {
        None => false,
        Some(Ok(written)) => written,
        Some(Err(error)) => {
            disable(file, &error);
            false
        }
    }
}

/// Ends a capture after a write error, such as a full disk: the switch must not stop for it.
fn disable(file: &mut Option<PcapWriter>, error: &std::io::Error) {
    tracing::warn!(%error, "cannot write the capture file; capture disabled");
    *file = None;
}
