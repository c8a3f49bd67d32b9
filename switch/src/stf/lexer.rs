//! The lexer: words, names and numbers of one line.

use super::error::{Position, PositionedError};

/// A line that is read from left to right.
#[derive(Clone, Debug)]
pub(super) struct LineLexer<'a> {
    text: &'a str,
    line: usize,
    /// Byte offset of the part that is not consumed yet. It never starts with a blank.
    offset: usize,
}

/// A name with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub text: String,
    pub position: Position,
}

/// A number as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Number {
    /// Big-endian, without leading zero bytes; a number with `*` keeps all digits.
    pub value: Vec<u8>,
    /// Same length as `value`: zeros where a digit was `*`. `None` if there was no `*`.
    pub mask: Option<Vec<u8>>,
    pub position: Position,
}

impl Number {
    /// Returns the number as an integer, if it fits and has no `*`.
    pub(super) fn to_u64(&self) -> Option<u64> {
        let fits = self.value.len() <= 8 && self.mask.is_none();
        fits.then(|| self.value.iter().fold(0, |n, &byte| n << 8 | u64::from(byte)))
    }
}

impl<'a> LineLexer<'a> {
    /// Creates a lexer for line number `line`. A comment at its end is ignored.
    pub(super) fn new(text: &'a str, line: usize) -> LineLexer<'a> {
        let mut in_quotes = false;
        let comment = text.find(|c| {
            in_quotes ^= c == '"';
            c == '#' && !in_quotes
        });
        let text = &text[..comment.unwrap_or(text.len())];
        let mut line = LineLexer { text: text.trim_end(), line, offset: 0 };
        line.skip_blanks();
        line
    }

    fn skip_blanks(&mut self) {
        self.offset += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'a str {
        &self.text[self.offset..]
    }

    pub(super) fn position(&self) -> Position {
        Position { line: self.line, column: self.text[..self.offset].chars().count() + 1 }
    }

    pub(super) fn is_done(&self) -> bool {
        self.rest().is_empty()
    }

    /// Returns an error at the current position, with a note if the line ends there.
    pub(super) fn error(&self, message: impl Into<String>) -> PositionedError {
        let message = message.into();
        let message = if self.is_done() { format!("the line ends too early: {message}") } else { message };
        (self.position(), message)
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consumes a token such as `(` or `==`. Returns whether it came next.
    pub(super) fn consume(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.offset += token.len();
            self.skip_blanks();
        }
        found
    }

    /// Consumes a token. Fails if it does not come next; `context` ends the message.
    pub(super) fn expect(&mut self, token: &str, context: &str) -> Result<(), PositionedError> {
        if self.consume(token) { Ok(()) } else { Err(self.error(format!("`{token}` is missing {context}"))) }
    }

    /// Fails unless the whole line was consumed.
    pub(super) fn end(&self) -> Result<(), PositionedError> {
        if self.is_done() {
            return Ok(());
        }
        Err(self.error(format!("unexpected \"{}\" at the end of the command", self.rest())))
    }

    /// Consumes everything up to the next blank.
    pub(super) fn word(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        let word = rest.split_whitespace().next()?;
        self.offset += word.len();
        self.skip_blanks();
        Some(word)
    }

    /// Consumes a name: an identifier with dots, indices and `$`, or any text in quotes.
    ///
    /// # Errors
    ///
    /// No name comes next, or its closing quote is missing. `what` describes the name in the message.
    pub(super) fn name(&mut self, what: &str) -> Result<Name, PositionedError> {
        let position = self.position();
        if let Some(quoted) = self.rest().strip_prefix('"') {
            let Some(end) = quoted.find('"') else {
                return Err(self.error(format!("{what} has no closing quote")));
            };
            self.offset += end + 2;
            self.skip_blanks();
            return Ok(Name { text: quoted[..end].to_owned(), position });
        }
        let is_name_char =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '[' | ']' | '-');
        let end = self.rest().find(|c| !is_name_char(c)).unwrap_or(self.rest().len());
        let text = &self.rest()[..end];
        if !text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$')) {
            return Err(self.error(format!("{what} is expected here")));
        }
        self.offset += end;
        self.skip_blanks();
        Ok(Name { text: text.to_owned(), position })
    }

    /// Returns whether a number comes next.
    pub(super) fn next_is_number(&self) -> bool {
        self.peek().is_some_and(|c| c.is_ascii_digit())
    }

    /// Consumes a number: decimal, `0x` or `0b`; the latter two may have `*` for digits that are ignored.
    ///
    /// # Errors
    ///
    /// No number comes next. `what` describes it in the message.
    pub(super) fn number(&mut self, what: &str) -> Result<Number, PositionedError> {
        let position = self.position();
        let rest = self.rest();
        let end = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '*')).unwrap_or(rest.len());
        let text = &rest[..end];
        let lower = text.to_ascii_lowercase();
        let number = if let Some(digits) = lower.strip_prefix("0x") {
            parse_digits(digits, 4)
        } else if let Some(digits) = lower.strip_prefix("0b") {
            parse_digits(digits, 1)
        } else {
            parse_decimal(&lower).map(|value| (value, None))
        };
        let Some((value, mask)) = number else {
            let mut message = format!("{what} is expected here, like 7, 0x1f or 0b101");
            if !text.is_empty() {
                message += &format!(", not {text:?}");
            }
            return Err(self.error(message));
        };
        self.offset += end;
        self.skip_blanks();
        Ok(Number { value, mask, position })
    }

    /// Consumes a number that fits `T`.
    ///
    /// # Errors
    ///
    /// No number comes next, or it is too large.
    pub(super) fn integer<T: TryFrom<u64>>(&mut self, what: &str) -> Result<T, PositionedError> {
        let number = self.number(what)?;
        let value = number.to_u64().and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| (number.position, format!("{what} is too large here")))
    }
}

/// Parses digits of `bits` bits each, with `*` for any digit. Returns value and mask, see [`Number`].
fn parse_digits(digits: &str, bits: usize) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    if digits.is_empty() {
        return None;
    }
    let (mut value, mut mask) = (vec![0u8; (digits.len() * bits).div_ceil(8)], Vec::new());
    mask.resize(value.len(), 0xffu8);
    for (index, digit) in digits.bytes().rev().enumerate() {
        let (byte, shift) = (value.len() - 1 - index * bits / 8, index * bits % 8);
        match digit {
            b'*' => mask[byte] &= !(((1u8 << bits) - 1) << shift),
            _ => {
                let digit = (digit as char).to_digit(1 << bits)?;
                value[byte] |= (digit as u8) << shift;
            }
        }
    }
    let has_wildcards = digits.contains('*');
    if !has_wildcards {
        trim_leading_zeros(&mut value);
    }
    Some((value, has_wildcards.then_some(mask)))
}

/// Parses a decimal number of any length.
fn parse_decimal(digits: &str) -> Option<Vec<u8>> {
    if digits.is_empty() || !digits.bytes().all(|c| c.is_ascii_digit()) {
        return None;
    }
    let mut value = vec![0u8];
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in value.iter_mut().rev() {
            carry += u16::from(*byte) * 10;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            value.insert(0, carry as u8);
        }
    }
    trim_leading_zeros(&mut value);
    Some(value)
}

/// Removes leading zero bytes, but keeps at least one byte.
fn trim_leading_zeros(value: &mut Vec<u8>) {
    let zeros = value.iter().take_while(|&&byte| byte == 0).count().min(value.len().saturating_sub(1));
    value.drain(..zeros);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        LineLexer::new(text, 1).number("a value").unwrap()
    }

    #[test]
    fn numbers_of_any_base_and_length() {
        assert_eq!(number("258").value, [1, 2]);
        assert_eq!(number("0").value, [0]);
        assert_eq!(number("18446744073709551616").value, [1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(number("0x00A1b").value, [0x0a, 0x1b]);
        assert_eq!(number("0b1_").value, [1]);
        assert_eq!(number("0b101000001").to_u64(), Some(0x141));
        let wild = number("0x****0101");
        assert_eq!((wild.value, wild.mask), (vec![0, 0, 1, 1], Some(vec![0, 0, 0xff, 0xff])));
        let wild = number("0b1*01");
        assert_eq!((wild.value, wild.mask), (vec![0b1001], Some(vec![0b1111_1011])));
    }

    #[test]
    fn names_and_comments() {
        let mut line = LineLexer::new("  hdr.stack[2].$valid$:0x1 \"a # b\"  # more", 4);
        assert_eq!(line.name("a key").unwrap().text, "hdr.stack[2].$valid$");
        assert!(line.consume(":") && line.next_is_number());
        line.number("a value").unwrap();
        let quoted = line.name("an action").unwrap();
        assert_eq!((quoted.text.as_str(), quoted.position), ("a # b", Position { line: 4, column: 28 }));
        assert_eq!(line.end(), Ok(()));
    }

    #[test]
    fn errors_have_a_position_and_report_a_short_line() {
        let error = LineLexer::new("  ", 1).number("a port").unwrap_err().1;
        assert_eq!(error, "the line ends too early: a port is expected here, like 7, 0x1f or 0b101");
        let error = LineLexer::new("12x", 1).number("a port").unwrap_err().1;
        assert_eq!(error, "a port is expected here, like 7, 0x1f or 0b101, not \"12x\"");
        let error = LineLexer::new("300", 1).integer::<u8>("a priority").unwrap_err();
        assert_eq!(error, (Position { line: 1, column: 1 }, "a priority is too large here".to_owned()));
    }
}
