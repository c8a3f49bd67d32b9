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
    let mut text = String::new();
    File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("is larger than {} MiB", MAX_BYTES >> 20)));
    }
    Ok(text)
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
}
