//! Reads YAML with serde, and reports errors with line, column and key path.

use crate::file::Override;
use crate::{yaml_path, yaml_syntax};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle};
use serde::de::DeserializeOwned;
use serde_yaml::Value;
use std::collections::HashMap;
use std::fmt;
use weir_host::suggest::{closest_match, did_you_mean};

/// Maximum nesting of lists and maps. Experiment files need a few levels; serde_yaml takes minutes for texts that are nested
/// thousands of levels deep.
const MAX_NESTING: usize = 64;

/// A position in a text. Displays as `line:column`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

impl From<Marker> for Position {
    fn from(marker: Marker) -> Position {
        Position { line: marker.line(), column: marker.col() + 1 }
    }
}

/// The part of an entry to which an error refers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryPart {
    /// The key itself, which is unknown.
    Key,
    /// The value of the key.
    Value,
}

/// An error about a key. Displays as `3:7: workload.size: size "256" has no unit`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    /// `None` if the value is from the command line.
    pub position: Option<Position>,
    /// Key path; empty for the whole text.
    pub key_path: String,
    pub reason: String,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let position = self.position.map_or_else(String::new, |position| format!("{position}: "));
        write!(f, "{position}{}{}", path_prefix(&self.key_path), self.reason)
    }
}

/// Returns `path: `, or an empty text for the root.
pub(crate) fn path_prefix(key_path: &str) -> String {
    if key_path.is_empty() { String::new() } else { format!("{key_path}: ") }
}

/// Parses a text.
///
/// # Errors
///
/// If the text is not YAML, is nested too deeply, or does not match `T`.
pub fn read<T: DeserializeOwned>(text: &str) -> Result<T, KeyError> {
    read_with_positions(text, &Positions::from_text(text)?)
}

/// Parses a text with known `positions`.
///
/// # Errors
///
/// If the text does not match `T`.
pub(crate) fn read_with_positions<T: DeserializeOwned>(
    text: &str,
    positions: &Positions,
) -> Result<T, KeyError> {
    let value = serde_yaml::Deserializer::from_str(text);
    serde_path_to_error::deserialize(value).map_err(|error| {
        let parser_position =
            error.inner().location().map(|found| Position { line: found.line(), column: found.column() });
        // The other parser accepts a tab after the dash of a list entry.
        let tab = parser_position.and_then(|at| {
            let column = text.lines().nth(at.line.checked_sub(1)?)?.chars().position(|c| c == '\t')? + 1;
            Some(Position { column, ..at })
        });
        if tab.is_some() && error.inner().to_string().contains("found character that cannot start any token")
        {
            let reason = "a tab; write a space instead".to_owned();
            return KeyError { position: tab, key_path: String::new(), reason };
        }
        let below = serde_yaml::from_str(text)
            .map_or_else(|_| String::new(), |root| yaml_path::below::<T>(root, error.path()));
        let error = to_key_error(error, &below, positions);
        KeyError { position: error.position.or(parser_position), ..error }
    })
}

/// Converts a YAML value. `positions` are those of the text from which the value was read.
///
/// # Errors
///
/// If the value does not match `T`.
pub fn read_value<T: DeserializeOwned>(value: Value, positions: &Positions) -> Result<T, KeyError> {
    serde_path_to_error::deserialize(&value).map_err(|error| {
        let below = yaml_path::below::<T>(value.clone(), error.path());
        to_key_error(error, &below, positions)
    })
}

/// Reads the keys of a workload or topology. An error has the path of the key, empty for the whole map, and the reason.
pub(crate) fn read_keys<T: DeserializeOwned>(keys: Value) -> Result<T, (String, String)> {
    read_value(keys, &Positions::default()).map_err(|error| (error.key_path, error.reason))
}

/// Converts an error of serde about the value `below` the path that serde reports. For an unknown key, the path is that of the
/// unknown key itself (serde reports its parent), and the message suggests the nearest known key.
fn to_key_error(
    error: serde_path_to_error::Error<serde_yaml::Error>,
    below: &str,
    positions: &Positions,
) -> KeyError {
    let path = error.path().to_string();
    let mut key_path = match path.as_str() {
        "." => below.trim_start_matches('.').to_owned(),
        path => format!("{path}{below}"),
    };
    let message = error.into_inner().to_string();
    // Remove path and position from the message. The position of serde_yaml is not exact: in an internally tagged enum it is that
    // of the enclosing map.
    let reason = message.rfind(" at line ").map_or(&*message, |end| &message[..end]);
    let reason = reason
        .split_once(": ")
        .filter(|(path, _)| key_path.starts_with(path.trim_start_matches('.')))
        .map_or(reason, |(_, reason)| reason);
    // The first quoted word is the unknown or missing name, the others are the known ones.
    let mut words = reason.split('`').skip(1).step_by(2);
    let Some(word) = words.next() else {
        return positions.error(key_path, without_rust_types(reason));
    };
    if reason.starts_with("unknown field") {
        if key_path != word && !key_path.ends_with(&format!(".{word}")) {
            key_path = join_path(&key_path, word);
        }
        let known: Vec<&str> = words.collect();
        let meant = did_you_mean(word, known.iter().copied());
        // The keys of a scheme in the long form.
        let is_parameter = meant.is_empty() && known.starts_with(&["scheme", "label", "set"]);
        // `{load:0.4}` is a key without a value.
        let colon = word.split_once(':').filter(|(key, _)| known.contains(key));
        let hint = match colon {
            Some((key, value)) => format!("; write `{key}: {value}`, with a space after the colon"),
            None if is_parameter => {
                format!("; parameters of a scheme stand under `set`: {{scheme: ..., set: {{{word}: ...}}}}")
            }
            None => meant,
        };
        let reason = positions.with_assignment(&key_path, EntryPart::Key, format!("{reason}{hint}"));
        return KeyError { position: positions.part(&key_path, EntryPart::Key), key_path, reason };
    }
    if reason.starts_with("missing field")
        && let Some(misspelt) = positions.misspelt_key(&key_path, word)
    {
        let question = match misspelt.split_once(':') {
            Some((key, value)) => format!("write `{key}: {value}`, with a space after the colon"),
            None => format!("is `{misspelt}` a misspelling?"),
        };
        let reason = format!("{reason}; {question}");
        return KeyError {
            position: positions.part(&join_path(&key_path, &misspelt), EntryPart::Key),
            key_path,
            reason,
        };
    }
    let suggestion =
        if reason.starts_with("unknown variant") { did_you_mean(word, words) } else { String::new() };
    positions.error(key_path, format!("{}{suggestion}", without_rust_types(reason)))
}

/// Replaces the names of Rust types in a message of serde by terms of YAML.
pub(crate) fn without_rust_types(reason: &str) -> String {
    let reason = reason.replacen("invalid type: sequence", "invalid type: list", 1);
    // serde reads a list where a map with a `kind` is expected.
    let reason = if reason.starts_with("invalid length ")
        && (reason.contains("tagged enum") || reason.contains("struct "))
    {
        "invalid type: list, expected a map of keys".to_owned()
    } else {
        reason
    };
    // serde_yaml keeps integers of 64 bits.
    if let Some(number) =
        reason.strip_suffix("` as u128, expected any YAML value").and_then(|text| text.split('`').nth(1))
    {
        return format!("{number} is too large for a whole number; the largest is {}", u64::MAX);
    }
    let is_empty = reason.starts_with("invalid type: unit value");
    let reason = reason.replacen("invalid type: unit value", "no value", 1);
    let Some((before, word)) = reason.rsplit_once("expected ") else { return reason };
    let (is_nonzero, integer) = word.strip_prefix("a nonzero ").map_or((false, word), |word| (true, word));
    // `64-bit` and wider: no file needs a number near their maximum.
    let max = match integer {
        "u8" => Some(Some(u64::from(u8::MAX))),
        "u16" => Some(Some(u64::from(u16::MAX))),
        "u32" => Some(Some(u64::from(u32::MAX))),
        "u64" | "usize" => Some(None),
        _ => None,
    };
    // Of a text or a fraction, the type is what is wrong and not the range.
    if let Some(max) = max.filter(|_| reason.contains(": integer `")) {
        let min = u64::from(is_nonzero);
        let range = max.map_or_else(|| format!("{min} or more"), |max| format!("{min} to {max}"));
        return format!("{before}expected a whole number, {range}");
    }
    let word = match word {
        "u8" | "u16" | "u32" | "u64" | "usize" | "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "a map" => "a map such as {key: value}",
        "a sequence" => "a list such as [a, b]",
        "variant identifier" | "a Value::Tagged enum" | "a YAML tag starting with '!'" => {
            "one of the allowed values"
        }
        "map with a single key" => "a map with one key",
        _ if word.starts_with("struct ") || word.starts_with("internally tagged enum ") => "a map of keys",
        _ if is_nonzero => "a whole number above 0",
        word => word,
    };
    // `topology:` alone, with its keys in the column of `topology`.
    let remedy = if is_empty && word == "a map of keys" { "; indent its keys below it" } else { "" };
    format!("{before}expected {word}{remedy}")
}

/// The positions of all keys and list entries of a text, by path: `workloads[1].size`.
#[derive(Default)]
pub struct Positions {
    entries: HashMap<String, KeyEntry>,
    /// Paths whose values are from the command line, with origin and assignment: `topology.hosts`, `--set` and
    /// `topology.hosts=4`.
    overrides: Vec<(String, String, String)>,
}

/// A key or a list entry of a text.
#[derive(Default)]
struct KeyEntry {
    /// Position of the value, or of the key if the value is a list or map; `None` if the value is from the command line.
    position: Option<Position>,
    /// Position of the key; `None` for list entries.
    key: Option<Position>,
    /// Columns of value and key in the assignment from the command line.
    assigned: Option<(usize, Option<usize>)>,
}

impl KeyEntry {
    fn at(position: Position) -> KeyEntry {
        KeyEntry { position: Some(position), ..KeyEntry::default() }
    }
}

/// A map or list whose end has not been read.
struct OpenCollection {
    path: String,
    next: NextNode,
}

/// The meaning of the next node in a map or list.
enum NextNode {
    Key,
    /// The value of the key at this path.
    Value(String),
    /// The list entry with this index.
    Entry(usize),
}

impl Positions {
    /// Finds the positions of all keys and list entries.
    ///
    /// # Errors
    ///
    /// If the text is not YAML, is nested too deeply, or has a duplicate key.
    pub fn from_text(text: &str) -> Result<Positions, KeyError> {
        let error_at =
            |position, reason| KeyError { position: Some(position), key_path: String::new(), reason };
        let mut positions: HashMap<String, KeyEntry> = HashMap::new();
        let mut open: Vec<OpenCollection> = Vec::new();
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|error| {
                let Position { line, column } = (*error.marker()).into();
                let (line, column, reason) = yaml_syntax::explain(text, line, column, error.info());
                error_at(Position { line, column }, reason)
            })?;
            let position = Position::from(span.start);
            match event {
                Event::Scalar(scalar, style, ..) => match open.last_mut() {
                    Some(OpenCollection { next: next @ NextNode::Key, path }) => {
                        let key = join_path(path, &scalar);
                        let entry = KeyEntry { key: Some(position), ..KeyEntry::at(position) };
                        if let Some(KeyEntry { key: Some(first), .. }) = positions.insert(key.clone(), entry)
                        {
                            let reason = format!("duplicate key; first defined in line {}", first.line);
                            return Err(KeyError { position: Some(position), key_path: key, reason });
                        }
                        *next = NextNode::Value(key);
                    }
                    _ => {
                        let is_entry =
                            open.last().is_some_and(|open| matches!(open.next, NextNode::Entry(_)));
                        let path = path_of_next_value(&mut open);
                        if is_entry && style == ScalarStyle::Plain && scalar.contains(" - ") {
                            let (first, last) = (span.start.line(), span.end.line());
                            if let Some((line, column, reason)) =
                                yaml_syntax::continued_entry(text, first, last)
                            {
                                let position = Some(Position { line, column });
                                return Err(KeyError { position, key_path: path, reason });
                            }
                        }
                        let key = positions.get(&path).and_then(|entry: &KeyEntry| entry.key);
                        let entry = KeyEntry { key, ..KeyEntry::at(position) };
                        positions.insert(path, entry);
                    }
                },
                Event::Alias(_) => drop(path_of_next_value(&mut open)),
                Event::SequenceStart(..) | Event::MappingStart(..) => {
                    if open.len() == MAX_NESTING {
                        return Err(error_at(
                            position,
                            format!("lists and maps are nested more than {MAX_NESTING} levels deep"),
                        ));
                    }
                    let path = path_of_next_value(&mut open);
                    positions.entry(path.clone()).or_insert(KeyEntry::at(position));
                    let is_map = matches!(event, Event::MappingStart(..));
                    open.push(OpenCollection {
                        path,
                        next: if is_map { NextNode::Key } else { NextNode::Entry(0) },
                    });
                }
                Event::SequenceEnd | Event::MappingEnd => drop(open.pop()),
                _ => {}
            }
        }
        Ok(Positions { entries: positions, overrides: Vec::new() })
    }

    /// Marks the value at `path` as given on the command line, by an assignment such as `flows.1.start=200us`: errors about it
    /// quote the assignment and have no position.
    pub(crate) fn mark_overridden(&mut self, path: &str, given: Override<'_>) {
        let assignment = given.assignment;
        self.entries.retain(|key, _| !is_within(key, path));
        let value = assignment.split_once('=').map_or("", |(_, value)| value);
        let start = assignment.chars().count() - value.chars().count();
        let column = |position: Position| (position.line == 1).then_some(start + position.column);
        // A value that is not YAML is reported when it is applied.
        let values = Positions::from_text(value).map(|positions| positions.entries).unwrap_or_default();
        // That of the last key in `topology.hosts=4`.
        let key_column =
            assignment.chars().take(start).collect::<String>().rfind('.').map_or(1, |dot| dot + 2);
        for (key, KeyEntry { position, key: key_position, .. }) in values {
            let key = if key.starts_with('[') { format!("{path}{key}") } else { join_path(path, &key) };
            let own_key = (key == path).then_some(key_column);
            let assigned =
                position.and_then(column).map(|value| (value, key_position.and_then(column).or(own_key)));
            self.entries.insert(key, KeyEntry { assigned, ..KeyEntry::default() });
        }
        let whole = KeyEntry { assigned: Some((start + 1, Some(key_column))), ..KeyEntry::default() };
        self.entries.entry(path.to_owned()).or_insert(whole);
        self.overrides.push((path.to_owned(), given.origin.to_owned(), assignment.to_owned()));
    }

    /// Appends the assignment and the column in it to a message about the value at `key_path`, if the value is from the command
    /// line.
    pub(crate) fn with_assignment(&self, key_path: &str, part: EntryPart, reason: String) -> String {
        // A map that the text does not have was made by the assignment of one of its keys.
        let is_new = !key_path.is_empty() && !self.entries.contains_key(key_path);
        let is_about = |path: &str| is_within(key_path, path) || is_new && is_within(path, key_path);
        let mut overrides = self.overrides.iter().rev();
        let Some((path, origin, assignment)) = overrides.find(|(path, ..)| is_about(path)) else {
            return reason;
        };
        let entry = self.entries.get(key_path).or_else(|| self.entries.get(path));
        let column = entry.and_then(|entry| entry.assigned).map(|(value, key)| match part {
            EntryPart::Key => key.unwrap_or(value),
            EntryPart::Value => value,
        });
        in_assignment(&reason, Override { assignment, origin }, column)
    }

    /// Returns an error about the value of a key.
    pub fn error(&self, key_path: String, reason: String) -> KeyError {
        KeyError {
            position: self.get(&key_path),
            reason: self.with_assignment(&key_path, EntryPart::Value, reason),
            key_path,
        }
    }

    /// Returns the position of the key or of the value at `path`; for list entries always that of the value.
    pub(crate) fn part(&self, path: &str, part: EntryPart) -> Option<Position> {
        let key = self.entries.get(path).and_then(|entry| entry.key).filter(|_| part == EntryPart::Key);
        key.or_else(|| self.get(path))
    }

    /// Returns whether the text or the command line has the key at `path`, or a key in it.
    pub(crate) fn has(&self, path: &str) -> bool {
        self.entries.keys().any(|key| is_within(key, path))
    }

    /// Returns the key of the map at `key_path` that is probably a misspelling of `missing`.
    fn misspelt_key(&self, key_path: &str, missing: &str) -> Option<String> {
        let keys = self.entries.keys().filter_map(|path| match key_path {
            "" => Some(path.as_str()),
            _ => path.strip_prefix(key_path)?.strip_prefix('.'),
        });
        let keys: Vec<&str> = keys.filter(|key| !key.contains('[')).collect();
        // `{kind:poisson}` is a key without a value.
        let without_space = |key: &&&str| key.strip_prefix(missing).is_some_and(|rest| rest.starts_with(':'));
        let colon = keys.iter().find(without_space).copied();
        colon
            .or_else(|| closest_match(missing, keys.iter().copied().filter(|key| !key.contains('.'))))
            .map(str::to_owned)
    }

    /// Returns the position of the value at `path`, or of the key if the value is a list or map. For a path that is not in the
    /// text, returns the position of the innermost enclosing list or map.
    pub fn get(&self, path: &str) -> Option<Position> {
        let mut path = path;
        loop {
            match self.entries.get(path) {
                Some(entry) => return entry.position,
                None => path = &path[..path.rfind(['.', '['])?],
            }
        }
    }
}

/// Returns a message as `file:line:column: message`, a format that editors recognise. The message begins with its position
/// (`3:7: not JSON`) or with the path of a key or list entry in `text`.
pub fn with_file_position(file: &str, text: &str, message: &str) -> String {
    let prefix = message.split_once(": ").map_or("", |(prefix, _)| prefix);
    if prefix.split(':').count() == 2 && prefix.bytes().all(|byte| byte.is_ascii_digit() || byte == b':') {
        return format!("{file}:{message}");
    }
    let positions = if prefix.contains(' ') { None } else { Positions::from_text(text).ok() };
    match positions.and_then(|positions| positions.entries.get(prefix)?.position) {
        Some(position) => format!("{file}:{position}: {message}"),
        None => format!("{file}: {message}"),
    }
}

/// Appends an assignment from the command line to a message, and the column (from 1) in it.
pub(crate) fn in_assignment(reason: &str, given: Override<'_>, column: Option<usize>) -> String {
    match column {
        Some(column) => format!("{reason} ({given}, column {column})"),
        None => format!("{reason} ({given})"),
    }
}

/// Returns whether `path` is `outer` or the path of a key or list entry in it. The root has an empty path.
pub(crate) fn is_within(path: &str, outer: &str) -> bool {
    outer.is_empty()
        || path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// Returns the path of the value that starts now, and advances to the next key or entry.
fn path_of_next_value(open: &mut [OpenCollection]) -> String {
    let Some(OpenCollection { path, next }) = open.last_mut() else { return String::new() };
    match std::mem::replace(next, NextNode::Key) {
        NextNode::Value(path) => path,
        // The key is a list or map. Such keys have no path; a placeholder keeps the parser in step.
        NextNode::Key => {
            *next = NextNode::Value(format!("{path}?"));
            format!("{path}?")
        }
        NextNode::Entry(index) => {
            *next = NextNode::Entry(index + 1);
            format!("{path}[{index}]")
        }
    }
}

/// Joins two key paths with a dot; either may be empty.
pub fn join_path(key_path: &str, key: &str) -> String {
    match (key_path, key) {
        ("", path) | (path, "") => path.to_owned(),
        _ => format!("{key_path}.{key}"),
    }
}

#[cfg(test)]
mod tests;
