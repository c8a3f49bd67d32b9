//! The result of a test.

use super::ast::Pattern;
use crate::engine::SwitchCounters;
use crate::trace::PacketTrace;
use std::fmt;

/// A frame that the switch sent.
#[derive(Clone, Debug)]
pub struct ReceivedFrame {
    pub bytes: Vec<u8>,
    /// Line number of the last packet that was sent to the switch before the frame left.
    pub packet_line: usize,
    /// The headers that the deparser emitted, with their lengths in bytes; empty if the test was not traced.
    pub headers: Vec<(String, usize)>,
}

/// A difference between expectation and result. Displays with a hex diff.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Line number of the expectation.
    pub line: usize,
    pub kind: FailureKind,
}

/// The kind of a difference.
#[derive(Clone, Debug)]
pub enum FailureKind {
    /// The next frame at the port differs from the expected one.
    Differs { port: u16, expected: Pattern, received: ReceivedFrame },
    /// The port sent no further frame.
    Missing {
        port: u16,
        /// The expected frame; `None` if any frame was expected.
        expected: Option<Pattern>,
    },
    /// The port sent a frame that was not expected.
    Unexpected { port: u16, received: ReceivedFrame },
    /// A counter or register has another value; the text names the actual and the expected one.
    Value(String),
    /// An `assert` or `assume` of the program failed; the text is its location or action. The line is that of the
    /// packet.
    Assertion(String),
}

/// The result of a test. Displays as a report.
#[derive(Clone, Debug)]
pub struct TestOutcome {
    /// Packets sent to the switch.
    pub packets: usize,
    /// Frames that the switch sent.
    pub frames: usize,
    /// Values that the test read: `line: object = value`.
    pub notes: Vec<String>,
    /// All differences, by port and order.
    pub failures: Vec<Failure>,
    /// The traces of the packets, each with the line number of its packet; empty if the test was not traced.
    pub traces: Vec<(usize, PacketTrace)>,
    /// The switch's counters at the end of the test, including drops by reason.
    pub counters: SwitchCounters,
}

impl TestOutcome {
    /// Returns whether there are no differences.
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }
}

impl TestOutcome {
    /// Adds the headers and traces of a second run, in the interpreter, to the failures of this one.
    pub(super) fn explain(mut self, traced: TestOutcome) -> TestOutcome {
        let mut same_count = 0;
        for failure in &mut self.failures {
            if let Some(same) = traced.failures.iter().find(|other| other.is_same(failure)) {
                failure.clone_from(same);
                same_count += 1;
            }
        }
        if same_count < self.failures.len().max(traced.failures.len()) {
            let result = if traced.passed() { "passes this test" } else { "fails in another way" };
            self.notes.push(format!(
                "the interpreter, which recorded the traces, {result}: the engines differ, which is a bug in Weir"
            ));
        }
        TestOutcome { traces: traced.traces, ..self }
    }
}

impl Failure {
    /// Returns whether the other failure is the same, except for the headers of its frame.
    fn is_same(&self, other: &Failure) -> bool {
        use FailureKind::{Assertion, Differs, Missing, Unexpected, Value};
        let is_same_kind = match (&self.kind, &other.kind) {
            (Differs { received, .. }, Differs { received: other, .. })
            | (Unexpected { received, .. }, Unexpected { received: other, .. }) => {
                (received.packet_line, &received.bytes) == (other.packet_line, &other.bytes)
            }
            (Value(what), Value(other)) | (Assertion(what), Assertion(other)) => what == other,
            (Missing { .. }, Missing { .. }) => true,
            _ => false,
        };
        self.line == other.line && is_same_kind
    }
}

impl Pattern {
    /// Returns the first byte at which `frame` differs, if any.
    pub(super) fn first_difference(&self, frame: &[u8]) -> Option<usize> {
        let digits = frame.iter().flat_map(|&byte| [byte >> 4, byte & 0xf]);
        let mut received = digits.clone();
        for (index, expected) in self.nibbles.iter().enumerate() {
            match received.next() {
                Some(digit) if expected.is_none_or(|expected| expected == digit) => {}
                _ => return Some(index / 2),
            }
        }
        (self.is_exact && received.next().is_some()).then_some(self.nibbles.len() / 2)
    }

    /// Returns the length in bytes, rounded up.
    fn len(&self) -> usize {
        self.nibbles.len().div_ceil(2)
    }

    /// Formats a byte with `*` for ignored digits; blanks after the end.
    fn format_byte(&self, index: usize) -> String {
        let digit = |nibble: Option<&Option<u8>>| match nibble {
            None => ' ',
            Some(None) => '*',
            Some(Some(digit)) => char::from_digit(u32::from(*digit), 16).unwrap_or('?'),
        };
        [2 * index, 2 * index + 1].map(|nibble| digit(self.nibbles.get(nibble))).iter().collect()
    }

    /// Returns whether a byte of the frame matches; `None`: the frame ends before it.
    fn accepts(&self, index: usize, byte: Option<&u8>) -> bool {
        let expected = [2 * index, 2 * index + 1].map(|nibble| self.nibbles.get(nibble));
        match byte {
            None => expected[0].is_none(),
            Some(_) if expected[0].is_none() => !self.is_exact,
            Some(byte) => {
                let digits = [byte >> 4, byte & 0xf];
                expected.iter().zip(digits).all(|(expected, digit)| {
                    expected.is_none_or(|nibble| nibble.is_none_or(|nibble| nibble == digit))
                })
            }
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for index in 0..self.len() {
            f.write_str(self.format_byte(index).trim_end())?;
        }
        if self.is_exact { f.write_str("$") } else { Ok(()) }
    }
}

/// Number of bytes per row of the diff.
const ROW_BYTES: usize = 16;

/// Writes the rows that differ, with marks below the differing bytes.
fn write_diff(f: &mut fmt::Formatter<'_>, expected: &Pattern, received: &[u8]) -> fmt::Result {
    let rows = expected.len().max(received.len()).div_ceil(ROW_BYTES);
    for row in 0..rows {
        let range = row * ROW_BYTES..(row + 1) * ROW_BYTES;
        let differs: Vec<bool> =
            range.clone().map(|index| !expected.accepts(index, received.get(index))).collect();
        if !differs.contains(&true) {
            continue;
        }
        let line = |byte: &dyn Fn(usize) -> String| {
            range.clone().map(byte).collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        let received_byte =
            |index: usize| received.get(index).map_or("  ".to_owned(), |byte| format!("{byte:02x}"));
        let mark =
            |index: usize| if differs[index - row * ROW_BYTES] { "^^".to_owned() } else { "  ".to_owned() };
        writeln!(f, "    {:04x} expected {}", row * ROW_BYTES, line(&|index| expected.format_byte(index)))?;
        writeln!(f, "         received {}", line(&received_byte))?;
        writeln!(f, "                  {}", line(&mark))?;
    }
    Ok(())
}

impl ReceivedFrame {
    /// Returns the header to which a byte belongs, and its offset in it.
    fn header_at(&self, byte: usize) -> Option<(&str, usize)> {
        let mut start = 0;
        for (name, len) in &self.headers {
            if byte < start + len {
                return Some((name, byte - start));
            }
            start += len;
        }
        None
    }

    fn hex(&self) -> String {
        self.bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let line = self.line;
        match &self.kind {
            FailureKind::Differs { port, expected, received } => {
                let offset = expected.first_difference(&received.bytes).unwrap_or_default();
                write!(
                    f,
                    "line {line}: the frame at port {port}, after the packet of line {}, ",
                    received.packet_line
                )?;
                match received.header_at(offset) {
                    _ if offset >= received.bytes.len() => {
                        writeln!(f, "ends after {} bytes", received.bytes.len())?;
                    }
                    _ if offset >= expected.len() => writeln!(f, "goes on after byte {offset}")?,
                    Some((header, byte)) => {
                        writeln!(f, "differs at byte {offset}: byte {byte} of header {header}")?;
                    }
                    None if received.headers.is_empty() => writeln!(f, "differs at byte {offset}")?,
                    None => writeln!(f, "differs at byte {offset}, in the payload")?,
                }
                write_diff(f, expected, &received.bytes)
            }
            FailureKind::Missing { port, expected: None } => {
                writeln!(f, "line {line}: no frame came out at port {port}")
            }
            FailureKind::Missing { port, expected: Some(expected) } => {
                writeln!(f, "line {line}: no frame came out at port {port}; expected {expected}")
            }
            FailureKind::Unexpected { port, received } => {
                writeln!(f, "line {line}: after this packet an unexpected frame came out at port {port}")?;
                writeln!(f, "         received {}", received.hex())
            }
            FailureKind::Value(what) => writeln!(f, "line {line}: {what}"),
            FailureKind::Assertion(what) => {
                writeln!(f, "line {line}: an assertion failed for this packet: {what}")
            }
        }
    }
}

impl fmt::Display for TestOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        for failure in &self.failures {
            write!(f, "{failure}")?;
        }
        let verdict = if self.passed() { "passed" } else { "FAILED" };
        write!(f, "{verdict}: {} packets in, {} frames out", self.packets, self.frames)?;
        for (reason, tally) in self.counters.dropped.iter() {
            write!(f, ", {} {}", tally.packets, reason.name())?;
        }
        writeln!(f)
    }
}
