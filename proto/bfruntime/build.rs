//! Compiles bfruntime.proto with protox, which needs no protoc. Also writes its descriptors for the check against
//! the published file.

use prost::Message;
use std::{env, error::Error, fs, path::Path};

const ROOT: &str = "protos";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed={ROOT}");
    let descriptors = protox::compile(["bfruntime.proto"], [ROOT])?;
    let out = env::var("OUT_DIR")?;
    fs::write(Path::new(&out).join("descriptors.bin"), descriptors.encode_to_vec())?;
    let mut config = prost_build::Config::new();
    config.enable_type_names().extern_path(".google.rpc", "::p4runtime::google::rpc");
    #[cfg(any(feature = "client", feature = "server"))]
    {
        let service = tonic_prost_build::configure();
        let service = service.build_client(cfg!(feature = "client")).build_server(cfg!(feature = "server"));
        config.service_generator(service.service_generator());
    }
    config.compile_fds(descriptors)?;
    Ok(())
}
