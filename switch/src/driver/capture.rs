//! Packet capture (`--pcap`): writes the frames of a port to two files of limited size.

use super::pcap::{PcapError, PcapWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory of the capture files, and the limit of their size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// The directory, which must exist.
    pub directory: PathBuf,
    /// The most bytes per file. A file has the first frames; later ones are counted as not captured.
    pub limit: u64,
}

impl CaptureConfig {
    /// 16 MiB, about 10,000 full frames.
    pub const LIMIT: u64 = 16 << 20;
}

/// Returns the names of the files for received and sent frames, as in BMv2.
pub(super) fn files(directory: &Path, interface: &str) -> (PathBuf, PathBuf) {
    let file = |direction| directory.join(format!("{interface}_{direction}.pcap"));
    (file("in"), file("out"))
}

/// Returns the time since 1970, for timestamps in files.
pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The capture files of one port; `None` after a write error.
pub(super) struct Capture {
    received: Option<PcapWriter>,
    sent: Option<PcapWriter>,
}

impl Capture {
    /// Creates both files.
    pub fn open(config: &CaptureConfig, interface: &str) -> Result<Capture, PcapError> {
        let (received, sent) = files(&config.directory, interface);
        let open = |path: PathBuf| PcapWriter::create(&path, config.limit).map(Some);
        Ok(Capture { received: open(received)?, sent: open(sent)? })
    }

    /// Writes a received frame. Returns `false` if it was not written.
    pub fn received(&mut self, frame: &[u8]) -> bool {
        write(&mut self.received, frame)
    }

    /// Writes a sent frame. Returns `false` if it was not written.
    pub fn sent(&mut self, frame: &[u8]) -> bool {
        write(&mut self.sent, frame)
    }

    /// Flushes both files to the operating system.
    pub fn flush(&mut self) {
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
