//! `weir new`: creates projects from the examples.

use crate::console::{Console, Failure};
use clap::Subcommand;
use include_dir::{Dir, include_dir};
use serde_json::json;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use weir_report::files::create;

/// Create a project from a template
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    template: Template,

    /// Print the result as JSON (docs/json.md)
    #[arg(long, global = true, help_heading = "Output")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  weir new p4 sojourn        a P4 program with one control of its own
  weir new scheme mine       a congestion control scheme and its weir
  weir new experiment mine   a workload, a topology and a chart, and their weir
  weir new telemetry mine    telemetry records in P4, and a scheme that reads them

The project is a directory with that name; its README.md describes the next steps.";

#[derive(Debug, Subcommand)]
enum Template {
    /// A P4 program: Weir's headers and controls with one additional control, an experiment and a packet test
    P4 {
        /// Name of the program and of the directory
        #[arg(value_parser = name)]
        name: String,
    },
    /// A congestion control scheme in Rust: a crate with a `weir` program that includes the scheme
    Scheme {
        /// Name of the scheme and of the directory
        #[arg(value_parser = crate_name)]
        name: String,

        /// Weir's source tree [default: the one that contains this program or the current directory]
        #[arg(long, value_name = "DIR")]
        weir: Option<PathBuf>,
    },
    /// Kinds of workloads, topologies and charts in Rust: a crate with a `weir` program that includes them
    Experiment {
        /// Name of the crate and of the directory
        #[arg(value_parser = crate_name)]
        name: String,

        /// Weir's source tree [default: the one that contains this program or the current directory]
        #[arg(long, value_name = "DIR")]
        weir: Option<PathBuf>,
    },
    /// Telemetry records: a P4 program that writes them, and a crate with a scheme that reads them
    Telemetry {
        /// Name of the program, the crate and the directory
        #[arg(value_parser = crate_name)]
        name: String,

        /// Weir's source tree [default: the one that contains this program or the current directory]
        #[arg(long, value_name = "DIR")]
        weir: Option<PathBuf>,
    },
}

static P4_EXAMPLE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets/own-p4");
static P4_INCLUDE: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets/p4-include");
static P4_CONTROLS: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/assets/p4-controls");

/// Lists the files of an example as pairs of path in the project and content. The files are named one by one
/// because a directory could contain cargo's build output. The asset of Cargo.toml is called manifest.toml
/// because cargo excludes directories with a Cargo.toml from a package.
macro_rules! example {
    ($dir:literal: $($file:literal),+) => {
        &[
            ("Cargo.toml", include_str!(concat!("../../assets/", $dir, "/manifest.toml"))),
            $(($file, include_str!(concat!("../../assets/", $dir, "/", $file)))),+
        ]
    };
}

const SCHEME_EXAMPLE: &[(&str, &str)] =
    example!("own-scheme": "README.md", "join.yaml", "src/main.rs", "src/aimd.rs");
const EXPERIMENT_EXAMPLE: &[(&str, &str)] = example!(
    "own-experiment": "README.md", "ring.yaml",
    "src/main.rs", "src/shift.rs", "src/ring.rs", "src/finished.rs"
);

const TELEMETRY_EXAMPLE: &[(&str, &str)] = example!(
    "own-telemetry": "Makefile", "README.md", "own_telemetry.p4", "waits.yaml",
    "src/main.rs", "src/wait.rs", "tests/record.stf",
    "build/own_telemetry.json", "build/own_telemetry.p4info.txtpb"
);

/// Parses a name that is valid for a directory, a crate, a scheme and a P4 program.
fn name(text: &str) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let starts_with_letter = text.chars().next().is_some_and(|c| c.is_ascii_lowercase());
    if !starts_with_letter || !text.chars().all(is_allowed) || text.len() > MAX_NAME_LEN {
        return Err(format!(
            "invalid name: use lower-case letters, digits and underscores, beginning with a letter (at most {MAX_NAME_LEN} \
             characters)"
        ));
    }
    Ok(text.to_owned())
}

/// Parses a name that is also valid for a crate.
fn crate_name(text: &str) -> Result<String, String> {
    match name(text)? {
        name if KEYWORDS.contains(&&*name) => Err(format!("invalid name: {name} is a Rust keyword")),
        name if CARGO_DIRECTORIES.contains(&&*name) => {
            Err(format!("invalid name: {name} is a directory name reserved by cargo"))
        }
        name => Ok(name),
    }
}

/// Keywords that [`name`] would accept (Rust reference, "Keywords": strict and reserved keywords of edition
/// 2024).
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop",
    "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static",
    "struct", "super", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use", "virtual",
    "where", "while", "yield",
];

/// Maximum length of a name.
const MAX_NAME_LEN: usize = 40;

/// Names that cargo does not accept for a binary, because they are directories in its output.
const CARGO_DIRECTORIES: &[&str] = &["build", "deps", "examples", "incremental"];

/// Returns true if the template of a scheme already uses `module` in a path or `type_name` as an item.
fn is_taken(module: &str, type_name: &str) -> bool {
    let code = SCHEME_EXAMPLE.iter().filter(|(path, _)| path.ends_with(".rs"));
    let mut lines = code.flat_map(|(_, text)| text.lines()).filter_map(|line| line.split("//").next());
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // Names that the macros for schemes use.
    ["Option", "Result", "String", "Vec"].contains(&type_name)
        || lines.any(|line| {
            let path = format!("{module}::");
            let is_path = line.match_indices(&path).any(|(index, _)| !line[..index].ends_with(is_word));
            is_path || line.split(|c| !is_word(c)).any(|word| word == type_name)
        })
}

/// Rejects the name of a scheme that this program has: two schemes cannot have the same one.
fn check_scheme_name(name: &str, console: &Console) -> Result<(), Failure> {
    if console.extensions.catalogue.schemes.names().all(|known| known != name) {
        return Ok(());
    }
    Err(Failure::Input(format!(
        "{name} is a scheme of this program (`weir schemes {name}`); choose another name, such as my_{name}"
    )))
}

pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let (name, files) = match &args.template {
        Template::P4 { name } => (name, p4(name)?),
        Template::Scheme { name, weir } => {
            check_scheme_name(name, console)?;
            // The template's own scheme has the name aimd.
            if name != "aimd" && is_taken(name, &to_type_name(name)) {
                let reason = format!("invalid name: the template already uses {name}");
                return Err(Failure::Input(format!("{reason}; choose another name")));
            }
            (name, crate_files(weir.as_deref(), |weir| Ok(scheme(name, weir)))?)
        }
        Template::Experiment { name, weir } => {
            (name, crate_files(weir.as_deref(), |weir| Ok(experiment(name, weir)))?)
        }
        Template::Telemetry { name, weir } => {
            check_scheme_name(name, console)?;
            (name, crate_files(weir.as_deref(), |weir| telemetry(name, weir))?)
        }
    };
    let dir = Path::new(name);
    fs::create_dir(dir).map_err(|error| {
        Failure::Input(match error.kind() {
            ErrorKind::AlreadyExists => format!("{name} already exists; choose another name or remove it"),
            _ => format!("{name}: {error}"),
        })
    })?;
    write(dir, &files).inspect_err(|_| {
        // The write error is returned, not a further one.
        let _ = fs::remove_dir_all(dir);
    })?;
    if args.json {
        let files: Vec<&String> = files.iter().map(|(path, _)| path).collect();
        return console.print_json(&json!({"directory": name, "files": files}));
    }
    writeln!(console.out, "{name}: {} files. Read {name}/README.md.", files.len())?;
    Ok(())
}

/// Returns the files of a crate, with Weir's Cargo.lock, so that dependencies have the tested versions.
fn crate_files(
    weir_dir: Option<&Path>,
    files: impl FnOnce(&Path) -> Result<Vec<File>, Failure>,
) -> Result<Vec<File>, Failure> {
    let weir = source_tree(weir_dir)?;
    let mut files = files(&weir)?;
    if let Ok(lock_file) = fs::read_to_string(weir.join("Cargo.lock")) {
        files.push(("Cargo.lock".to_owned(), lock_file));
    }
    Ok(files)
}

/// Path in the project, and content.
type File = (String, String);

fn write(dir: &Path, files: &[File]) -> Result<(), Failure> {
    for (path, text) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap_or(dir))?;
        create(&path)?.write_all(text.as_bytes())?;
    }
    Ok(())
}

/// Returns the files of a P4 project.
fn p4(name: &str) -> Result<Vec<File>, Failure> {
    let rename = |text: &str| text.replace("own_p4", name);
    let mut files = Vec::new();
    collect(&P4_EXAMPLE, "", &mut files)?;
    let adapt = |(path, text): File| (rename(&path), rename(&text).replace("../../p4src", "weir"));
    files = files.into_iter().map(adapt).collect();
    collect_headers(&mut files)?;
    Ok(files)
}

/// Adds Weir's headers and controls in the directories where the project's Makefile expects them.
fn collect_headers(files: &mut Vec<File>) -> Result<(), Failure> {
    collect(&P4_INCLUDE, "weir/include/", files)?;
    collect(&P4_CONTROLS, "weir/controls/", files)
}

/// Returns the files of a telemetry project, except Cargo.lock.
fn telemetry(name: &str, weir: &Path) -> Result<Vec<File>, Failure> {
    let rename = |text: &str| text.replace("own_telemetry", name).replace("own-telemetry", name);
    let adapt = |text: &str| {
        rename(text).replace("../../p4src", "weir").replace("../..", &weir.display().to_string())
    };
    let mut files = TELEMETRY_EXAMPLE.iter().map(|(path, text)| (rename(path), adapt(text))).collect();
    collect_headers(&mut files)?;
    Ok(files)
}

/// Adds all files of an embedded directory, with `prefix` before their paths.
fn collect(directory: &Dir<'_>, prefix: &str, files: &mut Vec<File>) -> Result<(), Failure> {
    for file in directory.files() {
        let path = format!("{prefix}{}", file.path().display());
        let text = file.contents_utf8().ok_or_else(|| Failure::Work(format!("{path}: not UTF-8")))?;
        files.push((path, text.to_owned()));
    }
    // The directory runs/, written by a run of the example, is not part of the template.
    let subdirs = directory.dirs().filter(|dir| !dir.path().ends_with("runs"));
    subdirs.into_iter().try_for_each(|dir| collect(dir, prefix, files))
}

/// Converts a name to a type name: `fast_start` to `FastStart`.
fn to_type_name(name: &str) -> String {
    let capitalise = |word: &str| word[..1].to_uppercase() + &word[1..];
    name.split('_').filter(|word| !word.is_empty()).map(capitalise).collect()
}

fn scheme(name: &str, weir: &Path) -> Vec<File> {
    let type_name = to_type_name(name);
    let rename = |text: &str| {
        // The example's name is replaced before the other strings, because the new name may contain it.
        let text = text.replace("aimd", name).replace("Aimd", &type_name).replace("AIMD", &type_name);
        text.replace("\"own-scheme\"", &format!("\"{name}\"")).replace("../..", &weir.display().to_string())
    };
    SCHEME_EXAMPLE.iter().map(|(path, text)| (rename(path), rename(text))).collect()
}

fn experiment(name: &str, weir: &Path) -> Vec<File> {
    let rename = |text: &str| {
        text.replace("\"own-experiment\"", &format!("\"{name}\""))
            .replace("../..", &weir.display().to_string())
    };
    EXPERIMENT_EXAMPLE.iter().map(|(path, text)| ((*path).to_owned(), rename(text))).collect()
}

/// Returns the directory of Weir's sources, on whose crates the new crate depends.
fn source_tree(weir_dir: Option<&Path>) -> Result<PathBuf, Failure> {
    let is_weir = |path: &&Path| {
        path.join("host/src/scheme/mod.rs").is_file() && path.join("weir/Cargo.toml").is_file()
    };
    if let Some(dir) = weir_dir {
        let reason = || Failure::Input(format!("--weir {}: not Weir's source tree", dir.display()));
        return Ok(Some(dir).filter(is_weir).ok_or_else(reason)?.canonicalize()?);
    }
    let starts = [std::env::current_exe(), std::env::current_dir()];
    let found = starts.iter().flatten().flat_map(|path| path.ancestors()).find(is_weir);
    let reason = || Failure::input("Weir source tree not found; use --weir DIR");
    found.map(Path::to_owned).ok_or_else(reason)
}
