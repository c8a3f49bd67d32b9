//! Reads files that users specify, with a limit: a device or an endless pipe must not exhaust memory.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Maximum size of a file in bytes; enough for a flow file of 5 million flows.
const MAX_BYTES: u64 = 256 << 20;

/// Reads a text that is specified on the command line: a file, or a pipe such as the shell's `<(...)`.
///
/// # Errors
///
/// If the file is too large, is not UTF-8, or cannot be read.
pub fn read_text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("is larger than {} MiB", MAX_BYTES >> 20)));
    }
    // A byte order mark, which some editors write, is not part of the text.
    if bytes.starts_with(b"\xef\xbb\xbf") {
        bytes.drain(..3);
    }
    String::from_utf8(bytes)
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, not_utf8(error.as_bytes())))
}

/// Says where a text stops being UTF-8.
fn not_utf8(bytes: &[u8]) -> String {
    if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
        return "is UTF-16; save it as UTF-8".to_owned();
    }
    let chunk = bytes.utf8_chunks().find(|chunk| !chunk.invalid().is_empty());
    let valid = chunk.as_ref().map_or("", |chunk| chunk.valid());
    let byte = chunk.and_then(|chunk| chunk.invalid().first().copied()).unwrap_or_default();
    let line = 1 + valid.matches('\n').count();
    let column = 1 + valid.rsplit('\n').next().map_or(0, |last| last.chars().count());
    let offset = valid.len();
    format!(
        "line {line}, column {column}: byte 0x{byte:02x} at offset {offset} is not UTF-8; save the file as UTF-8"
    )
}

/// Reads a text to which another file refers. It may be read again, so it must be a regular file.
///
/// # Errors
///
/// Those of [`read_text`]; also if the file is not a regular file.
pub fn read_file(path: &Path) -> io::Result<String> {
    // Checked before opening, because opening a pipe blocks until it has a writer.
    if !path.metadata()?.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    read_text(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_order_mark_is_skipped() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.yaml");
        std::fs::write(&path, "\u{feff}name: x\n").unwrap();
        assert_eq!(read_text(&path).unwrap(), "name: x\n");
    }

    #[test]
    fn only_files_of_bounded_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (small, large) = (dir.path().join("small"), dir.path().join("large"));
        std::fs::write(&small, "text").unwrap();
        // A hole: no bytes on the disk.
        File::create(&large).unwrap().set_len(MAX_BYTES + 1).unwrap();
        assert_eq!(read_file(&small).unwrap(), "text");
        let error = |path: &str| read_file(path.as_ref()).unwrap_err().to_string();
        assert_eq!(error(large.to_str().unwrap()), "is larger than 256 MiB");
        assert_eq!(error("/dev/zero"), "is not a regular file");
        assert_eq!(error(dir.path().to_str().unwrap()), "is not a regular file");
    }

    #[test]
    fn the_first_byte_that_is_not_utf8_has_a_position() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x");
        let error = |bytes: &[u8]| {
            std::fs::write(&file, bytes).unwrap();
            read_text(&file).unwrap_err().to_string()
        };
        let latin1 = error(
            "a: é\nb: Z".as_bytes().iter().chain(b"\xfcrich\xfc").copied().collect::<Vec<_>>().as_slice(),
        );
        assert_eq!(latin1, "line 2, column 5: byte 0xfc at offset 10 is not UTF-8; save the file as UTF-8");
        assert!(error(b"\xff\xfea\0").starts_with("is UTF-16"));
        assert!(error(b"\xe2\x82").starts_with("line 1, column 1: byte 0xe2 at offset 0"));
    }
}
