//! Provides the version with the commit: `0.1.0 (3807f88a1b2c)`, or `0.1.0 (3807f88a1b2c, modified)` if tracked files differ
//! from it. Without a git checkout, as in a published crate, it is the version alone.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The directories whose files are part of the program, relative to the repository.
const SOURCES: [&str; 9] =
    ["Cargo.lock", "Cargo.toml", "controller", "host", "lab", "p4src/build", "proto", "switch", "units"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let commit = commit().unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let version = if commit.is_empty() { version.to_owned() } else { format!("{version} ({commit})") };
    println!("cargo::rustc-env=WEIR_COMMIT={commit}");
    println!("cargo::rustc-env=WEIR_VERSION={version}");
}

fn commit() -> Option<String> {
    let repository = Path::new("..");
    // A crate may lie in another project's repository; only in Weir's own does `..` have both.
    if !repository.join(".git").exists() || !repository.join("p4src/build").is_dir() {
        return None;
    }
    let hash = git(&["rev-parse", "--short=12", "HEAD"])?;
    // A commit, a checkout and a reset all append to this log.
    for name in ["logs/HEAD", "HEAD"] {
        let path = PathBuf::from(git(&["rev-parse", "--git-path", name])?);
        let path = if path.is_absolute() { path } else { repository.join(path) };
        if path.exists() {
            println!("cargo::rerun-if-changed={}", path.display());
        }
    }
    for source in SOURCES {
        println!("cargo::rerun-if-changed=../{source}");
    }
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=assets");
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--", "weir/src", "weir/assets"];
    status.extend(SOURCES);
    let is_modified = !git(&status)?.is_empty();
    Some(if is_modified { format!("{hash}, modified") } else { hash })
}

/// Returns the output of a git command in the repository, or `None` if it failed.
fn git(arguments: &[&str]) -> Option<String> {
    // Does not write the index, because a build must not change the checkout.
    let output =
        Command::new("git").env("GIT_OPTIONAL_LOCKS", "0").current_dir("..").args(arguments).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
