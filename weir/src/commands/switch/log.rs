//! The log of a switch in BMv2's format: off by default, and limited in size.

use super::checks::warn;
use super::options::{LogLevel, Options};
use crate::console::Failure;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use tracing::{Event, Level, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use weir_report::files::{create, is_special};

/// Prefix of the event targets of this workspace's crates.
const TARGET_PREFIX: &str = "weir";

/// Starts the log that the options select. Returns true if the path of every packet is logged.
pub(super) fn start(options: &Options) -> Result<bool, Failure> {
    let level = match options.log_level {
        LogLevel::Trace => LevelFilter::TRACE,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Off => LevelFilter::OFF,
    };
    // Only warnings and errors of dependencies are logged: the HTTP/2 library would log each frame.
    let targets = Targets::new().with_target(TARGET_PREFIX, level).with_default(level.min(LevelFilter::WARN));
    let builder =
        || tracing_subscriber::fmt().with_max_level(level).with_ansi(false).event_format(Bmv2Format);
    if let Some(file) = &options.log_file {
        let file = RotatingFile::open(file, options)
            .map_err(|error| Failure::Input(format!("--log-file {}: {error}", file.display())))?;
        builder().with_writer(Mutex::new(file)).finish().with(targets).init();
    } else if options.log_console {
        // `io::stdout()` would deadlock: the console holds its lock while the command runs.
        let console = File::from(io::stdout().as_fd().try_clone_to_owned()?);
        builder().with_writer(Mutex::new(console)).finish().with(targets).init();
    } else {
        return Ok(false);
    }
    Ok(level == LevelFilter::TRACE)
}

/// Formats events as `[hh:mm:ss.mmm] [weir] [L] [thread name] text`, with BMv2's letters for levels. Times
/// are UTC.
struct Bmv2Format;

impl<S, N> FormatEvent<S, N> for Bmv2Format
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut out: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, millis) = (time.as_secs(), time.subsec_millis());
        let (hours, minutes) = (seconds / 3600 % 24, seconds / 60 % 60);
        let letter = match *event.metadata().level() {
            Level::TRACE => 'T',
            Level::DEBUG => 'D',
            Level::INFO => 'I',
            Level::WARN => 'W',
            Level::ERROR => 'E',
        };
        let thread = std::thread::current();
        let thread = thread.name().unwrap_or("-");
        let seconds = seconds % 60;
        write!(
            out,
            "[{hours:02}:{minutes:02}:{seconds:02}.{millis:03}] [weir] [{letter}] [thread {thread}] "
        )?;
        context.field_format().format_fields(out.by_ref(), event)?;
        writeln!(out)
    }
}

/// A log file that is rotated when it reaches its maximum size. As in BMv2, the current file is `<name>.txt`,
/// and the full ones are `<name>.1.txt` (the newest), `<name>.2.txt` and so on.
struct RotatingFile {
    name: PathBuf,
    /// The current file; `None` after a write error.
    file: Option<File>,
    /// Bytes written to the current file.
    written: u64,
    /// Maximum size of a file in bytes.
    limit: u64,
    max_rotated: usize,
}

impl RotatingFile {
    fn open(name: &Path, options: &Options) -> io::Result<RotatingFile> {
        let file = create(&numbered_path(name, 0))?;
        // A device or a pipe is not rotated.
        let limit = if file.metadata()?.is_file() { options.log_file_max_size } else { u64::MAX };
        let (name, max_rotated) = (name.to_owned(), options.log_file_max_files);
        Ok(RotatingFile { name, file: Some(file), written: 0, limit, max_rotated })
    }

    fn rotate(&mut self) -> io::Result<()> {
        let names: Vec<PathBuf> =
            (0..=self.max_rotated).map(|number| numbered_path(&self.name, number)).collect();
        for name in &names {
            if is_special(name)? {
                return Err(io::Error::other(format!("{}: not a regular file", name.display())));
            }
        }
        // From the oldest, so that a file is moved before the newer one takes its name.
        for pair in names.windows(2).rev().filter(|pair| pair[0].exists()) {
            std::fs::rename(&pair[0], &pair[1])?;
        }
        self.file = Some(create(&numbered_path(&self.name, 0))?);
        self.written = 0;
        Ok(())
    }
}

/// Returns the path of a rotated file; number 0 is the current file.
fn numbered_path(name: &Path, number: usize) -> PathBuf {
    let mut path = name.as_os_str().to_owned();
    match number {
        0 => path.push(".txt"),
        _ => path.push(format!(".{number}.txt")),
    }
    path.into()
}

impl RotatingFile {
    fn append(&mut self, line: &[u8]) -> io::Result<()> {
        if self.file.is_some() && self.written > 0 && self.written + line.len() as u64 > self.limit {
            self.rotate()?;
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        file.write_all(line)?;
        self.written += line.len() as u64;
        Ok(())
    }
}

impl Write for RotatingFile {
    /// Never fails, because the logging library would print every error to standard error, and a full pipe
    /// there would block the switch. The log ends with the first error, for example when the disk is full.
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Err(error) = self.append(line) {
            self.file = None;
            // Without standard error there is no way to report the end of the log.
            let _ = warn(&format!("--log-file {}: {error}; the log ends here", self.name.display()));
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
