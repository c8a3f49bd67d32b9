//! Compresses the compiled P4 programs, which are 2.5 MB of text, to a twentieth: they are part of every binary.

use miniz_oxide::deflate::compress_to_vec;
use std::path::Path;
use std::{env, fs};

fn main() {
    let programs = Path::new("assets/p4");
    println!("cargo::rerun-if-changed={}", programs.display());
    let out = env::var_os("OUT_DIR").expect("cargo sets it");
    for entry in fs::read_dir(programs).expect("the compiled programs") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|ending| ending == "json" || ending == "txtpb") {
            let text = fs::read(&path).expect("a compiled program");
            let name = path.file_name().expect("it has a name");
            fs::write(Path::new(&out).join(name), compress_to_vec(&text, 9)).expect("written");
        }
    }
}
