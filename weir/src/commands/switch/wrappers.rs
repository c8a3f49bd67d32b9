//! `weir switch --install-as`: wrapper scripts with the names of BMv2's switches, for tools that start them
//! by name.

use crate::commands::files::create_dir;
use crate::console::{Console, Failure};
use std::fs;
use std::io::Write;
use std::path::Path;
use weir_report::files::{MODE_EXECUTABLE, write_atomic};

/// Comment in each wrapper, by which [`install`] recognises files that it may overwrite.
const MARK: &str = "# Runs `weir switch` in place of BMv2's program of this name.";

/// Writes the wrappers to a directory. Fails if a file exists that is not a wrapper.
pub(super) fn install(directory: &Path, console: &mut Console) -> Result<(), Failure> {
    let weir = std::env::current_exe()?;
    let weir = format!("'{}'", weir.to_string_lossy().replace('\'', r"'\''"));
    let directory = create_dir(directory)?;
    // simple_switch has no P4Runtime server, and several may run on one machine, so the wrapper uses any free
    // port.
    let any_port = "--grpc-server-addr 127.0.0.1:0";
    let scripts = [
        ("simple_switch_grpc", format!("exec {weir} switch \"$@\"\n")),
        (
            "simple_switch",
            format!(
                "case \" $* \" in\n*\" -- \"*) exec {weir} switch \"$@\" {any_port} ;;\n*) exec {weir} switch \"$@\" -- {any_port} ;;\nesac\n"
            ),
        ),
    ];
    let files: Vec<_> = scripts.iter().map(|(name, _)| directory.join(name)).collect();
    for file in &files {
        let has_mark =
            || fs::read(file).is_ok_and(|content| String::from_utf8_lossy(&content).contains(MARK));
        let is_replaceable = match fs::symlink_metadata(file) {
            Ok(metadata) => metadata.is_file() && has_mark(),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_replaceable {
            return Err(Failure::Input(format!(
                "{} already exists and was not written by this command; choose another directory",
                file.display()
            )));
        }
    }
    for (file, (_, script)) in files.iter().zip(&scripts) {
        write_atomic(file, format!("#!/bin/sh\n{MARK}\n{script}").as_bytes(), MODE_EXECUTABLE)
            .map_err(|error| Failure::Work(format!("{}: {error}", file.display())))?;
    }
    for file in &files {
        writeln!(console.out, "Wrapper {}", file.display())?;
    }
    Ok(writeln!(console.out, "To use them, set PATH={}:$PATH", directory.display())?)
}
