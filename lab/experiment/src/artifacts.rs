//! Compiled P4 programs: those of `p4src/build`, which are embedded in the binary, and those of users.

use crate::input::read_file;
use crate::yaml::with_file_position;
use p4runtime::p4info::Index;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use weir_host::capabilities::{Capability, Declaration, TELEMETRY_ANNOTATION};
use weir_host::custom_record::{RECORD_HEADER, RecordLayout};
use weir_host::scheme::SwitchProgram;
use weir_host::switch_profile::SwitchProfile;
use weir_switch::program::{Engine, Program};

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Name of the P4 file without its extension; for programs of users, the path of the BMv2 JSON.
    pub name: Cow<'static, str>,
    /// BMv2 JSON.
    pub json: Cow<'static, str>,
    /// P4Info in text format.
    pub p4info: Cow<'static, str>,
}

/// Returns the embedded artifact with this name. Each text is a `static`, because a constant would be duplicated in
/// every crate that uses it. `build.rs` compresses them, and they are decompressed on first use.
macro_rules! builtin {
    ($name:literal) => {{
        static JSON: LazyLock<String> = decompressed!($name, ".json");
        static P4INFO: LazyLock<String> = decompressed!($name, ".p4info.txtpb");
        Artifact {
            name: Cow::Borrowed($name),
            json: Cow::Borrowed(&**JSON),
            p4info: Cow::Borrowed(&**P4INFO),
        }
    }};
}

macro_rules! decompressed {
    ($name:literal, $extension:literal) => {
        LazyLock::new(|| decompress(include_bytes!(concat!(env!("OUT_DIR"), "/", $name, $extension))))
    };
}

fn decompress(bytes: &[u8]) -> String {
    let text =
        miniz_oxide::inflate::decompress_to_vec(bytes).ok().and_then(|text| String::from_utf8(text).ok());
    // Cannot fail for embedded texts: a test decompresses all of them.
    text.unwrap_or_default()
}

impl Artifact {
    /// Returns the embedded artifact of a program of `p4src`.
    pub fn builtin(program: SwitchProgram) -> Artifact {
        match program {
            SwitchProgram::Hpcc => builtin!("hpcc"),
            SwitchProgram::HpccPlus => builtin!("hpcc_plus"),
            SwitchProgram::Fncc => builtin!("fncc"),
            SwitchProgram::Ecn => builtin!("ecn"),
            SwitchProgram::Rocc => builtin!("rocc"),
            SwitchProgram::Rcp => builtin!("rcp"),
            SwitchProgram::Dart => builtin!("dart"),
            SwitchProgram::Xpass => builtin!("xpass"),
            SwitchProgram::Weir => builtin!("weir"),
        }
    }

    /// Reads the BMv2 JSON and the P4Info of a program compiled by p4c. If `p4info` is `None`, uses the P4Info
    /// [next to the JSON](find_p4info).
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is not supported by the switch or the controller. The text has the file's name.
    pub fn read(json: &Path, p4info: Option<&Path>) -> Result<Artifact, String> {
        let read = |path: &Path| {
            let text = read_file(path).map_err(|e| format!("{}: {e}", path.display()))?;
            Ok::<_, String>(Cow::Owned(text))
        };
        let program = read(json)?;
        let p4info = p4info.map_or_else(|| find_p4info(json), |path| Ok(path.to_owned()))?;
        let name = Cow::Owned(json.display().to_string());
        let artifact = Artifact { name, json: program, p4info: read(&p4info)? };
        let locate = |path: &Path, text: &str, error: String| {
            with_file_position(&path.display().to_string(), text, &error)
        };
        Program::from_json(&artifact.json).map_err(|e| locate(json, &artifact.json, e.to_string()))?;
        Index::from_text(&artifact.p4info).map_err(|e| locate(&p4info, &artifact.p4info, e.to_string()))?;
        Ok(artifact)
    }

    /// Returns the name for messages: `weir.p4`, or the path of a user's JSON.
    pub fn title(&self) -> String {
        if self.name.ends_with(".json") { self.name.to_string() } else { format!("{}.p4", self.name) }
    }

    /// Returns the program, loaded for switches with this engine, and its P4Info.
    ///
    /// # Errors
    ///
    /// If either is invalid.
    pub fn load(&self, engine: Engine) -> Result<(Arc<Program>, Arc<Index>), String> {
        let program = Program::load(&self.json, engine).map_err(|e| format!("{}: {e}", self.name))?;
        Ok((program, Arc::new(self.index()?)))
    }

    /// Parses the P4Info.
    ///
    /// # Errors
    ///
    /// If it is invalid.
    pub fn index(&self) -> Result<Index, String> {
        Index::from_text(&self.p4info).map_err(|e| format!("{}: P4Info: {e}", self.name))
    }
}

/// Returns the path of the P4Info next to a program: for `build/x.json`, `build/x.p4info.txtpb`, or
/// `build/x.p4.p4info.txtpb` as written by the Makefile of the p4 tutorials. Older versions of p4c write `.txt`.
///
/// # Errors
///
/// If none of these files exists. The text has the expected path.
pub fn find_p4info(program: &Path) -> Result<PathBuf, String> {
    const EXTENSIONS: [&str; 4] = ["p4info.txtpb", "p4.p4info.txtpb", "p4info.txt", "p4.p4info.txt"];
    let mut candidates = EXTENSIONS.iter().map(|extension| program.with_extension(extension));
    candidates.find(|path| path.is_file()).ok_or_else(|| {
        let expected = program.with_extension(EXTENSIONS[0]);
        format!("P4Info not found: {}; specify it with `p4info`", expected.display())
    })
}

/// Returns the capabilities that a program declares in its P4Info.
///
/// # Errors
///
/// If the telemetry record has an unsupported length or field, or `ticks` in `@weir_telemetry` is not a number in
/// range. The text has the name of the object.
pub fn switch_profile(p4info: &Index) -> Result<SwitchProfile, String> {
    let declares = |capability: &Capability| match capability.declaration() {
        Declaration::Table(table) => p4info.tables.named(table).is_ok(),
        Declaration::Telemetry(word) => telemetry_words(p4info).any(|declared| declared == word),
    };
    let record = p4info.controller_headers.named(RECORD_HEADER).ok().map(|header| {
        let fields = header.metadata.iter();
        RecordLayout::new(
            fields.map(|field| (field.name.as_str(), u32::try_from(field.bitwidth).unwrap_or(0))),
        )
    });
    // Clock ticks per unit of the records' timestamps, from `@weir_telemetry("data, ticks=8")`.
    let ticks = telemetry_words(p4info).find_map(|word| word.strip_prefix("ticks=")).map(|number| {
        let ticks = number.parse().ok().filter(|ticks| (1..=1_000_000).contains(ticks));
        ticks.ok_or_else(|| {
            format!("@{TELEMETRY_ANNOTATION}: ticks={number}: expected a number from 1 to 1000000")
        })
    });
    Ok(SwitchProfile {
        capabilities: Capability::ALL.into_iter().filter(declares).collect(),
        record: record.transpose().map_err(|error| error.to_string())?,
        ticks_per_unit: ticks.transpose()?.unwrap_or(1),
    })
}

/// Returns the comma-separated words of `@weir_telemetry("data, acks")`.
fn telemetry_words(p4info: &Index) -> impl Iterator<Item = &str> {
    fn words(annotation: &str) -> Option<&str> {
        annotation
            .strip_prefix('@')?
            .strip_prefix(TELEMETRY_ANNOTATION)?
            .strip_prefix("(\"")?
            .strip_suffix("\")")
    }
    let lists = p4info.pkg_info.annotations.iter().filter_map(|annotation| words(annotation));
    lists.flat_map(|list| list.split(',')).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builtin_programs_declare_their_capabilities() {
        for program in SwitchProgram::ALL {
            let artifact = Artifact::builtin(program);
            assert_eq!(artifact.name, program.name());
            let (_, p4info) = artifact.load(Engine::default()).unwrap();
            assert_eq!(switch_profile(&p4info), Ok(program.capabilities().into()), "{program}");
        }
    }
}
