//! Reads BMv2 JSON. Each value is paired with its path in the JSON, so that every error names its location.

use super::error::LoadError;
use serde_json::Value;
use std::fmt::{self, Write};

/// The first phase of loading: parses the text. As in BMv2, strings may contain control characters, although
/// JSON forbids them: p4c writes the line breaks of P4 literals unescaped.
pub(super) fn parse(text: &str) -> Result<Value, LoadError> {
    let controls = control_offsets(text);
    let (mut escaped, mut copied) = (String::with_capacity(text.len()), 0);
    for offset in &controls {
        let _ = write!(escaped, "{}\\u{:04x}", &text[copied..*offset], text.as_bytes()[*offset]);
        copied = offset + 1;
    }
    escaped.push_str(&text[copied..]);
    serde_json::from_str(&escaped).map_err(|error| {
        let lines = escaped.split_inclusive('\n').take(error.line().saturating_sub(1));
        let offset = lines.map(str::len).sum::<usize>() + error.column();
        // The error is located in `escaped`; subtract the bytes that the escapes before it added to the text.
        let is_before = |(index, control): &(usize, &usize)| **control + ESCAPE_BYTES * index < offset;
        let escapes = controls.iter().enumerate().take_while(is_before).count();
        let offset = offset - (ESCAPE_BYTES - 1) * escapes;
        let before = text.as_bytes().get(..offset).unwrap_or(text.as_bytes());
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|byte| **byte != b'\n').count();
        LoadError { path: format!("{line}:{column}"), message: format!("not JSON: {error}") }
    })
}

/// Length in bytes of an escaped control character, such as `\u000a`.
const ESCAPE_BYTES: usize = 6;

/// Returns the byte offsets of control characters inside strings.
fn control_offsets(text: &str) -> Vec<usize> {
    let (mut offsets, mut in_string, mut is_escaped) = (Vec::new(), false, false);
    for (offset, byte) in text.bytes().enumerate() {
        match byte {
            0..b' ' if in_string => offsets.push(offset),
            b'"' if !is_escaped => in_string = !in_string,
            _ => {}
        }
        is_escaped = in_string && byte == b'\\' && !is_escaped;
    }
    offsets
}

/// A value in the JSON and the path to it.
#[derive(Clone)]
pub(crate) struct JsonNode<'a> {
    pub value: &'a Value,
    path: String,
}

impl<'a> JsonNode<'a> {
    pub(crate) fn root(value: &'a Value) -> JsonNode<'a> {
        JsonNode { value, path: String::new() }
    }

    /// Returns an error at this node.
    pub(crate) fn error(&self, message: impl fmt::Display) -> LoadError {
        let path = if self.path.is_empty() { "the file".to_string() } else { self.path.clone() };
        LoadError { path, message: message.to_string() }
    }
    /// Same as [`JsonNode::error`], wrapped in `Err`.
    pub(crate) fn err<T>(&self, message: impl fmt::Display) -> Result<T, LoadError> {
        Err(self.error(message))
    }

    fn child_path(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_string() } else { format!("{}.{key}", self.path) }
    }

    /// Returns a member of an object; an error if it is missing.
    pub(crate) fn get(&self, key: &str) -> Result<JsonNode<'a>, LoadError> {
        match self.value.as_object() {
            Some(members) => match members.get(key) {
                Some(value) => Ok(JsonNode { value, path: self.child_path(key) }),
                None => self.err(format_args!("{key:?} is missing")),
            },
            None => self.err("expected an object"),
        }
    }
    /// Returns an optional member of an object; `None` if it is missing or null.
    pub(crate) fn get_opt(&self, key: &str) -> Option<JsonNode<'a>> {
        let value = self.value.get(key)?;
        (!value.is_null()).then(|| JsonNode { value, path: self.child_path(key) })
    }
    /// Returns the elements of an optional list; none if it is missing or null.
    pub(crate) fn list(&self, key: &str) -> Result<Vec<JsonNode<'a>>, LoadError> {
        self.get_opt(key).map_or(Ok(Vec::new()), |node| node.items())
    }
    /// Returns the elements of a list.
    pub(crate) fn items(&self) -> Result<Vec<JsonNode<'a>>, LoadError> {
        let Some(items) = self.value.as_array() else { return self.err("expected a list") };
        Ok(items
            .iter()
            .enumerate()
            .map(|(i, value)| JsonNode { value, path: format!("{}[{i}]", self.path) })
            .collect())
    }
    /// Returns the elements of a list of length `N`.
    pub(crate) fn tuple<const N: usize>(&self) -> Result<[JsonNode<'a>; N], LoadError> {
        let items = self.items()?;
        let found = items.len();
        items.try_into().map_err(|_| self.error(format_args!("expected {N} elements, found {found}")))
    }
    /// Returns the members of an object.
    pub(crate) fn entries(&self) -> Result<Vec<(&'a str, JsonNode<'a>)>, LoadError> {
        let Some(members) = self.value.as_object() else { return self.err("expected an object") };
        Ok(members
            .iter()
            .map(|(key, value)| (key.as_str(), JsonNode { value, path: self.child_path(key) }))
            .collect())
    }

    pub(crate) fn str(&self) -> Result<&'a str, LoadError> {
        self.value.as_str().ok_or_else(|| self.error("expected a string"))
    }
    /// Resolves a name with `find`. `kind` names the kind of object in the error.
    pub(crate) fn find<T>(&self, kind: &str, find: impl FnOnce(&str) -> Option<T>) -> Result<T, LoadError> {
        let name = self.str()?;
        find(name).ok_or_else(|| self.error(format_args!("there is no {kind} {name:?}")))
    }
    /// Returns a boolean. The numbers 0 and 1 are accepted too: p4c writes them in some places.
    pub(crate) fn bool(&self) -> Result<bool, LoadError> {
        let number = self.value.as_u64().filter(|number| *number <= 1).map(|number| number == 1);
        self.value.as_bool().or(number).ok_or_else(|| self.error("expected true or false"))
    }
    pub(crate) fn int(&self) -> Result<i64, LoadError> {
        self.value.as_i64().ok_or_else(|| self.error("expected an integer"))
    }
    /// Returns an integer from 0 to `max`.
    pub(crate) fn usize_at_most(&self, max: usize) -> Result<usize, LoadError> {
        match usize::try_from(self.int()?) {
            Ok(value) if value <= max => Ok(value),
            _ => self.err(format_args!("expected a number from 0 to {max}, found {}", self.value)),
        }
    }
    /// Returns an optional boolean member, or `default` if it is missing.
    pub(crate) fn flag(&self, key: &str, default: bool) -> Result<bool, LoadError> {
        self.get_opt(key).map_or(Ok(default), |node| node.bool())
    }
    pub(crate) fn name(&self) -> Result<String, LoadError> {
        Ok(self.get("name")?.str()?.to_string())
    }
    /// Returns a number from a hexadecimal string with optional sign and `0x`.
    pub(crate) fn hex_int(&self) -> Result<BigInt, LoadError> {
        let text = self.str()?;
        BigInt::parse(text).ok_or_else(|| self.error(format_args!("{text:?} is not a hexadecimal number")))
    }
    /// Returns bytes from a hexadecimal string with optional `0x`; an odd number of digits is padded with a
    /// leading 0.
    pub(crate) fn hex_bytes(&self) -> Result<Vec<u8>, LoadError> {
        let text = self.str()?;
        let digits = text.strip_prefix("0x").unwrap_or(text);
        let padded = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits.to_string() };
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
        let bytes: Option<Vec<u8>> = padded.as_bytes().chunks(2).map(byte).collect();
        bytes.ok_or_else(|| self.error(format_args!("{text:?} is not a hexadecimal number")))
    }
}

/// An integer of any width: sign and magnitude. The limbs of the magnitude are 64 bits wide, least significant first.
/// The last limb is not 0, so that equal numbers have equal limbs; 0 has no limbs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct BigInt {
    pub negative: bool,
    pub limbs: Vec<u64>,
}

impl BigInt {
    pub(crate) fn parse(text: &str) -> Option<BigInt> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let limb = |chunk: &[u8]| u64::from_str_radix(std::str::from_utf8(chunk).ok()?, 16).ok();
        const DIGITS_PER_LIMB: usize = 16;
        let limbs: Option<Vec<u64>> = digits.as_bytes().rchunks(DIGITS_PER_LIMB).map(limb).collect();
        let mut big = BigInt { negative, limbs: limbs? };
        big.normalize();
        Some(big)
    }
    pub(crate) fn from_u64(value: u64) -> BigInt {
        let mut big = BigInt { negative: false, limbs: vec![value] };
        big.normalize();
        big
    }
    pub(crate) fn from_limbs(limbs: &[u64]) -> BigInt {
        let mut big = BigInt { negative: false, limbs: limbs.to_vec() };
        big.normalize();
        big
    }
    /// Removes leading zeros, and the sign of 0.
    fn normalize(&mut self) {
        while self.limbs.last() == Some(&0) {
            self.limbs.pop();
        }
        self.negative &= !self.limbs.is_empty();
    }
    /// Returns the number of bits of the magnitude.
    pub(crate) fn bits(&self) -> u32 {
        match self.limbs.last() {
            Some(top) => self.limbs.len() as u32 * 64 - top.leading_zeros(),
            None => 0,
        }
    }
    /// Returns the value if it is not negative and fits in 64 bits.
    pub(crate) fn to_u64(&self) -> Option<u64> {
        match (self.negative, self.limbs.as_slice()) {
            (false, []) => Some(0),
            (false, [value]) => Some(*value),
            _ => None,
        }
    }
    /// Returns the low `count` limbs of the number in two's complement.
    pub(crate) fn twos_complement(&self, count: usize) -> Vec<u64> {
        let mut limbs = self.limbs.clone();
        limbs.resize(count, 0);
        if self.negative {
            // Negation in two's complement: inverted, plus 1.
            let mut carry = true;
            for limb in &mut limbs {
                let (value, overflow) = (!*limb).overflowing_add(u64::from(carry));
                (*limb, carry) = (value, overflow);
            }
        }
        limbs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn big_integers_are_parsed_from_hexadecimal() {
        assert_eq!(BigInt::parse("0x0800").unwrap().to_u64(), Some(0x800));
        assert_eq!(BigInt::parse("-1").unwrap().twos_complement(2), [u64::MAX, u64::MAX]);
        let wide = BigInt::parse("0x1ffffffffffffffff").unwrap();
        assert_eq!((wide.bits(), wide.to_u64(), wide.limbs), (65, None, vec![u64::MAX, 1]));
        assert_eq!(BigInt::parse("-0x0").unwrap(), BigInt::from_u64(0));
        assert_eq!((BigInt::parse("0x"), BigInt::parse("zz"), BigInt::parse("+1")), (None, None, None));
    }

    #[test]
    fn strings_may_have_control_characters() {
        let text = "{\"a\": \"one\ntwo\u{1}\\\"\t\\\\\",\n \"b\": \"\r\"}";
        assert_eq!(parse(text).unwrap(), serde_json::json!({"a": "one\ntwo\u{1}\"\t\\", "b": "\r"}));
        // The location of an error after them is that in the original text.
        let location = |text: &str| parse(text).unwrap_err().path;
        assert_eq!(location("{\"a\": \"one\ntwo\n\", x}"), "3:4");
        assert_eq!(location("{\"a\": \"one two  \", x}"), "1:20");
        assert_eq!(location("{\"a\": \"one\n\",\n\"b\":\n}"), "4:1");
        assert_eq!(location("[\u{1}]"), "1:2");
        assert_eq!(location(""), "1:0");
    }

    #[test]
    fn errors_carry_the_path() {
        let json = serde_json::json!({"pipelines": [{"tables": [{"key": ["x"]}]}]});
        let root = JsonNode::root(&json);
        let table = &root.get("pipelines").unwrap().items().unwrap()[0].list("tables").unwrap()[0];
        let error = table.list("key").unwrap()[0].int().unwrap_err();
        assert_eq!(error.to_string(), "pipelines[0].tables[0].key[0]: expected an integer");
        assert_eq!(root.get("actions").err().unwrap().to_string(), "the file: \"actions\" is missing");
    }
}
