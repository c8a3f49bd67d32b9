//! Compresses the compiled P4 programs, which are embedded in every binary: 2.5 MB of text shrink to a twentieth.

use miniz_oxide::deflate::compress_to_vec;
use std::path::Path;
use std::{env, fs};

fn main() {
    let programs = Path::new("assets/p4");
    println!("cargo::rerun-if-changed={}", programs.display());
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    for entry in fs::read_dir(programs).expect("cannot read assets/p4") {
        let path = entry.expect("cannot read assets/p4").path();
        if path.extension().is_some_and(|extension| extension == "json" || extension == "txtpb") {
            let text = fs::read(&path).expect("cannot read a compiled program");
            let name = path.file_name().expect("directory entries have a name");
            fs::write(Path::new(&out).join(name), compress_to_vec(&text, 9))
                .expect("cannot write to OUT_DIR");
        }
    }
}
