//! A minimal P4Runtime server: returns its version, and UNIMPLEMENTED for all other calls.
//!
//! ```text
//! cargo run -p p4runtime --features server --example server
//! ```

use p4runtime::p4::v1::{CapabilitiesRequest, CapabilitiesResponse};
use p4runtime::received::Received;
use p4runtime::server::p4_runtime_server::{P4Runtime, P4RuntimeServer};
use tonic::{Request, Response, Status};

struct Switch;

#[tonic::async_trait]
impl P4Runtime for Switch {
    async fn capabilities(
        &self,
        _: Request<Received<CapabilitiesRequest>>,
    ) -> Result<Response<CapabilitiesResponse>, Status> {
        Ok(Response::new(CapabilitiesResponse {
            p4runtime_api_version: "1.5.0".into(),
            ..Default::default()
        }))
    }
}

#[tokio::main]
async fn main() -> Result<(), tonic::transport::Error> {
    let address = ([127, 0, 0, 1], 9559).into();
    tonic::transport::Server::builder().add_service(P4RuntimeServer::new(Switch)).serve(address).await
}
