//! The classic pcap format (draft-ietf-opsawg-pcap). Files are read in both byte orders and both time
//! resolutions, and written in little-endian with microseconds, as libpcap does for BMv2.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Magic number of files with timestamps in microseconds.
const MAGIC_US: u32 = 0xa1b2_c3d4;
/// Magic number of files with timestamps in nanoseconds.
const MAGIC_NS: u32 = 0xa1b2_3c4d;
/// Major and minor version of the format since 1998.
const VERSION: (u16, u16) = (2, 4);
/// Length of the file header in bytes: magic 4, version 2 + 2, time zone 4, accuracy 4, snap length 4, link type 4.
const FILE_HEADER_LEN: usize = 24;
/// Length of a record header in bytes: seconds 4, fraction 4, bytes stored 4, bytes on the wire 4.
const RECORD_HEADER_LEN: usize = 16;
/// The link type of Ethernet frames in the file header.
const LINKTYPE_ETHERNET: u32 = 1;
/// Maximum frame length, libpcap's MAXIMUM_SNAPLEN. A longer record means a broken file.
const MAX_FRAME_LEN: u32 = 262_144;

/// The error of reading or writing a pcap file.
#[derive(Debug, Error)]
pub enum PcapError {
    /// The file cannot be opened, read or written.
    #[error("{path}: {source}")]
    Io { path: PathBuf, source: io::Error },
    /// The file has another format.
    #[error("{0}: not a pcap file; pcapng files need `editcap -F pcap` first")]
    NotPcap(PathBuf),
    /// A record violates the format.
    #[error("{path}: record {record} {what}")]
    Record {
        path: PathBuf,
        /// Number of the record, from 1.
        record: u64,
        /// The violated rule, as the end of the message.
        what: &'static str,
    },
}

/// Reads a pcap file record by record.
#[derive(Debug)]
pub struct PcapReader {
    path: PathBuf,
    file: BufReader<File>,
    is_big_endian: bool,
    /// Whether timestamps have nanoseconds instead of microseconds.
    has_nanoseconds: bool,
    /// Number of records read.
    record: u64,
}

impl PcapReader {
    /// Opens a file and checks its header.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or is not a pcap file.
    pub fn open(path: &Path) -> Result<PcapReader, PcapError> {
        let io_error = |source| PcapError::Io { path: path.into(), source };
        let mut file = BufReader::new(File::open(path).map_err(io_error)?);
        let mut header = [0; FILE_HEADER_LEN];
        match file.read_exact(&mut header) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(PcapError::NotPcap(path.into()));
            }
            other => other.map_err(io_error)?,
        }
        let magic = [header[0], header[1], header[2], header[3]];
        let (is_big_endian, has_nanoseconds) = match (u32::from_le_bytes(magic), u32::from_be_bytes(magic)) {
            (MAGIC_US, _) => (false, false),
            (MAGIC_NS, _) => (false, true),
            (_, MAGIC_US) => (true, false),
            (_, MAGIC_NS) => (true, true),
            _ => return Err(PcapError::NotPcap(path.into())),
        };
        Ok(PcapReader { path: path.into(), file, is_big_endian, has_nanoseconds, record: 0 })
    }

    /// Reads the next frame into `frame`. Returns its timestamp since 1970; `None` at the end of the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the record is malformed.
    pub fn read(&mut self, frame: &mut Vec<u8>) -> Result<Option<Duration>, PcapError> {
        let mut header = [0; RECORD_HEADER_LEN];
        // Not `read_exact`: a file may end before a record, but not within one.
        let mut filled = 0;
        while filled < RECORD_HEADER_LEN {
            match self.file.read(&mut header[filled..]) {
                Ok(0) if filled == 0 => return Ok(None),
                Ok(0) => return Err(self.malformed("is truncated")),
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(PcapError::Io { path: self.path.clone(), source }),
            }
        }
        self.record += 1;
        let word = |offset: usize| {
            let bytes = [header[offset], header[offset + 1], header[offset + 2], header[offset + 3]];
            if self.is_big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
        };
        let (seconds, fraction, stored_len, wire_len) = (word(0), word(4), word(8), word(12));
        if stored_len > MAX_FRAME_LEN {
            return Err(self.malformed("exceeds the maximum frame length of 262144 bytes"));
        }
        if stored_len != wire_len {
            return Err(
                self.malformed("is truncated by the snap length; capture whole frames (tcpdump -s 0)")
            );
        }
        frame.resize(stored_len as usize, 0);
        match self.file.read_exact(frame) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
                return Err(self.malformed("is truncated"));
            }
            other => other.map_err(|source| PcapError::Io { path: self.path.clone(), source })?,
        }
        let fraction = u64::from(fraction);
        let fraction = if self.has_nanoseconds {
            Duration::from_nanos(fraction)
        } else {
            Duration::from_micros(fraction)
        };
        Ok(Some(Duration::from_secs(u64::from(seconds)) + fraction))
    }

    fn malformed(&self, what: &'static str) -> PcapError {
        PcapError::Record { path: self.path.clone(), record: self.record.max(1), what }
    }
}

/// Writes a pcap file up to a limit.
#[derive(Debug)]
pub struct PcapWriter {
    file: BufWriter<File>,
    /// Bytes that may still be written.
    bytes_left: u64,
    /// Whether the buffer has bytes that were not flushed.
    is_dirty: bool,
}

impl PcapWriter {
    /// Creates a file of at most `limit` bytes, or truncates an existing one.
    ///
    /// # Errors
    ///
    /// The file cannot be written, or is a symbolic link.
    pub fn create(path: &Path, limit: u64) -> Result<PcapWriter, PcapError> {
        let io_error = |source| PcapError::Io { path: path.into(), source };
        let mut header = Vec::with_capacity(FILE_HEADER_LEN);
        header.extend(MAGIC_US.to_le_bytes());
        header.extend(VERSION.0.to_le_bytes());
        header.extend(VERSION.1.to_le_bytes());
        // Time zone and accuracy, always 0.
        header.extend([0; 8]);
        header.extend(MAX_FRAME_LEN.to_le_bytes());
        header.extend(LINKTYPE_ETHERNET.to_le_bytes());
        // The directory may be writable by other users, and the file name is predictable: following a link would let
        // them overwrite any file of this user.
        let mut options = File::options();
        options.write(true).create(true).truncate(true).custom_flags(libc::O_NOFOLLOW);
        let file = options.open(path).map_err(|error| match path.is_symlink() {
            true => io::Error::new(error.kind(), "refusing to follow a symbolic link; remove it"),
            false => error,
        });
        let mut file = BufWriter::new(file.map_err(io_error)?);
        file.write_all(&header).and_then(|()| file.flush()).map_err(io_error)?;
        Ok(PcapWriter { file, bytes_left: limit.saturating_sub(FILE_HEADER_LEN as u64), is_dirty: false })
    }

    /// Writes a frame with its time since 1970. Returns `false` if this frame or an earlier one exceeds the
    /// limit.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&mut self, time: Duration, frame: &[u8]) -> io::Result<bool> {
        let size = (RECORD_HEADER_LEN + frame.len()) as u64;
        if size > self.bytes_left {
            // No shorter frame may follow, so that the file has the first frames without gaps.
            self.bytes_left = 0;
            return Ok(false);
        }
        self.bytes_left -= size;
        self.is_dirty = true;
        let len = (frame.len() as u32).to_le_bytes();
        self.file.write_all(&(time.as_secs() as u32).to_le_bytes())?;
        self.file.write_all(&time.subsec_micros().to_le_bytes())?;
        self.file.write_all(&len)?;
        self.file.write_all(&len)?;
        self.file.write_all(frame)?;
        Ok(true)
    }

    /// Flushes the buffer to the operating system.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.is_dirty) { self.file.flush() } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str) -> PathBuf {
        std::env::temp_dir().join(format!("weir-pcap-{}-{name}", std::process::id()))
    }

    #[test]
    fn reads_its_own_files_and_stops_at_the_limit() {
        let path = path("limit");
        let limit = FILE_HEADER_LEN + 2 * RECORD_HEADER_LEN + 60 + 14;
        let mut writer = PcapWriter::create(&path, limit as u64).unwrap();
        let time = Duration::new(1_700_000_000, 123_456_000);
        assert!(writer.write(time, &[7; 60]).unwrap());
        assert!(!writer.write(time, &[8; 15]).unwrap());
        assert!(!writer.write(time, &[9; 14]).unwrap(), "a shorter frame does not follow an omitted one");
        writer.flush().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (limit - RECORD_HEADER_LEN - 14) as u64);
        let mut reader = PcapReader::open(&path).unwrap();
        let mut frame = Vec::new();
        assert_eq!(reader.read(&mut frame).unwrap(), Some(time));
        assert_eq!(frame, [7; 60]);
        assert_eq!(reader.read(&mut frame).unwrap(), None);
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let (victim, link) = (path("victim"), path("link"));
        std::fs::write(&victim, "important").unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        let error = PcapWriter::create(&link, 1 << 20).unwrap_err().to_string();
        assert!(error.contains("a symbolic link"), "{error}");
        assert_eq!(std::fs::read(&victim).unwrap(), b"important");
        std::fs::remove_file(link).unwrap();
        std::fs::remove_file(victim).unwrap();
    }

    #[test]
    fn reads_other_byte_orders_and_rejects_other_files() {
        let path = path("foreign");
        let mut bytes = Vec::new();
        bytes.extend(MAGIC_NS.to_be_bytes());
        bytes.extend([0; FILE_HEADER_LEN - 4]);
        for word in [5u32, 7, 2, 2] {
            bytes.extend(word.to_be_bytes());
        }
        bytes.extend([0xab, 0xcd]);
        std::fs::write(&path, &bytes).unwrap();
        let mut frame = Vec::new();
        let time = PcapReader::open(&path).unwrap().read(&mut frame).unwrap();
        assert_eq!((time, &frame[..]), (Some(Duration::new(5, 7)), &[0xab, 0xcd][..]));

        let mut error = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            PcapReader::open(&path).and_then(|mut file| file.read(&mut frame)).unwrap_err().to_string()
        };
        assert!(error(&bytes[..bytes.len() - 1]).ends_with("record 1 is truncated"));
        assert!(error(&bytes[..FILE_HEADER_LEN + 3]).ends_with("record 1 is truncated"));
        assert!(error(b"hello").contains("not a pcap file"));
        assert!(error(&[0x0a; 40]).contains("editcap"));
        bytes[FILE_HEADER_LEN + 15] = 3;
        assert!(error(&bytes).contains("snap length"));
        bytes[FILE_HEADER_LEN + 8] = 0xff;
        assert!(error(&bytes).contains("exceeds the maximum frame length"));
        std::fs::remove_file(path).unwrap();
    }
}
