//! TLS options for connections to switches: trusted CAs, and the controller's own certificate.

use std::fmt;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

/// Certificates and key, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Trusted CA certificates.
    pub roots: Vec<u8>,
    /// Certificate and private key of the controller, for switches that require client authentication.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// Expected name in the switches' certificates; `None`: the host part of each address.
    pub server_name: Option<String>,
}

impl ClientTls {
    pub(super) fn config(&self) -> ClientTlsConfig {
        let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.roots));
        if let Some((certificate, key)) = &self.identity {
            config = config.identity(Identity::from_pem(certificate, key));
        }
        match &self.server_name {
            Some(name) => config.domain_name(name),
            None => config,
        }
    }

    /// Checks that the certificates and the key can be parsed.
    ///
    /// # Errors
    ///
    /// Fails with the chain of causes.
    pub fn check(&self) -> Result<(), String> {
        let endpoint = Endpoint::from_static("https://127.0.0.1:1").tls_config(self.config());
        let causes = |error: tonic::transport::Error| {
            let error: &dyn std::error::Error = &error;
            let causes = std::iter::successors(Some(error), |error| error.source());
            causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
        };
        endpoint.map(drop).map_err(causes)
    }
}

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.server_name;
        f.debug_struct("ClientTls").field("server_name", name).finish_non_exhaustive()
    }
}
