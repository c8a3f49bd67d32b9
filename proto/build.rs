//! Compiles the .proto files with protox, which needs no protoc, and keeps their descriptors beside the
//! generated code: the text format of P4Info and the check against the published files read them.

use prost::Message;
use std::{env, error::Error, fs, path::Path};

const ROOT: &str = "protos";
const FILES: [&str; 2] = ["p4/v1/p4runtime.proto", "google/rpc/code.proto"];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let descriptors = protox::compile(FILES, [ROOT])?;
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = prost_build::Config::new();
    config.enable_type_names();
    #[cfg(feature = "grpc")]
    config.service_generator(tonic_prost_build::configure().service_generator());
    config.compile_fds(descriptors)?;
    Ok(())
}
