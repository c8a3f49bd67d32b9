//! `--pcap`: what goes through a port, written to two files with bounds.

use super::pcap::{PcapError, PcapWriter};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory of the capture files, and the bounds on their size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureConfig {
    /// The directory, which must be there.
    pub directory: PathBuf,
    /// The most bytes of each file. A file shows the first frames; what no longer fits is counted.
    pub limit: u64,
}

impl CaptureConfig {
    /// 16 MiB each: some 10,000 full frames.
    pub const LIMIT: u64 = 16 << 20;
}

/// Returns the files that BMv2 writes for an interface.
pub(super) fn files(directory: &Path, interface: &str) -> (PathBuf, PathBuf) {
    let file = |direction| directory.join(format!("{interface}_{direction}.pcap"));
    (file("in"), file("out"))
}

/// Time since 1970, for timestamps in files.
pub(super) fn wall_clock() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The capture of one port.
pub(super) struct Capture {
    received: Option<PcapWriter>,
    sent: Option<PcapWriter>,
}

impl Capture {
    /// Makes both files.
    pub fn open(config: &CaptureConfig, interface: &str) -> Result<Capture, PcapError> {
        let (received, sent) = files(&config.directory, interface);
        let open = |path: PathBuf| PcapWriter::create(&path, config.limit).map(Some);
        Ok(Capture { received: open(received)?, sent: open(sent)? })
    }

    /// A frame came in. `false` if it is not in the file.
    pub fn received(&mut self, frame: &[u8]) -> bool {
        write(&mut self.received, frame)
    }

    /// A frame went out. `false` if it is not in the file.
    pub fn sent(&mut self, frame: &[u8]) -> bool {
        write(&mut self.sent, frame)
    }

    /// Hands what was captured to the system.
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

/// A disk that is full must not stop the switch: the capture ends, and says so once.
fn disable(file: &mut Option<PcapWriter>, error: &std::io::Error) {
    tracing::warn!(%error, "capture ends");
    *file = None;
}
