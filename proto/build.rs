//! Compiles the .proto files with protox, which needs no protoc. Also writes their descriptors, which the text format
//! of P4Info and the check against the published files read.

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
    #[cfg(feature = "client")]
    config.service_generator(tonic_prost_build::configure().build_server(false).service_generator());
    #[cfg(feature = "server")]
    server(descriptors.clone(), &Path::new(&out).join("server"))?;
    config.compile_fds(descriptors)?;
    Ok(())
}

/// Generates the server side of the service. Requests and the entities of read responses stay encoded; all other
/// messages are those of the crate.
#[cfg(feature = "server")]
fn server(descriptors: prost_types::FileDescriptorSet, out: &Path) -> Result<(), Box<dyn Error>> {
    let mut config = prost_build::Config::new();
    for package in ["p4.v1", "p4.config.v1", "google.rpc"] {
        config.extern_path(format!(".{package}"), format!("crate::{}", package.replace('.', "::")));
    }
    let services = descriptors.file.iter().flat_map(|file| &file.service);
    for method in services.flat_map(|service| &service.method) {
        let request = method.input_type().replace('.', "::");
        config.extern_path(method.input_type(), format!("crate::received::Received<crate{request}>"));
    }
    config.extern_path(".p4.v1.ReadResponse", "crate::received::EncodedReadResponse");
    // Methods that a server does not implement return UNIMPLEMENTED.
    let server = tonic_prost_build::configure().build_client(false).generate_default_stubs(true);
    let server = server.codec_path("crate::received::ReceivedCodec");
    fs::create_dir_all(out)?;
    config.service_generator(server.service_generator()).out_dir(out).compile_fds(descriptors)?;
    Ok(())
}
