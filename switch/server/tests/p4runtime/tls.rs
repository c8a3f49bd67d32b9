//! TLS, with and without certificates of the clients.

use super::bed::*;
use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::CapabilitiesRequest;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};
use weir_server::p4runtime::{ServeError, Server, ServerConfig, TlsConfig};

/// Returns the authority that signs the certificates of both sides.
fn authority() -> CertifiedIssuer<'static, KeyPair> {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Returns a certificate for a name, and its key, as PEM.
fn certificate(authority: &CertifiedIssuer<'_, KeyPair>, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.into()]).unwrap().signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

#[tokio::test]
async fn clients_check_the_switch_and_the_switch_its_clients() {
    let authority = authority();
    let (server, key) = certificate(&authority, "switch.test");
    let (client, client_key) = certificate(&authority, "controller.test");
    for mutual in [false, true] {
        let tls = TlsConfig {
            certificate: server.clone().into(),
            key: key.clone().into(),
            client_roots: mutual.then(|| authority.pem().into()),
        };
        let bed = TestBed::with(ServerConfig { tls: Some(tls), ..ServerConfig::default() }).await;
        let connect = |tls: ClientTlsConfig| {
            let endpoint = Channel::from_shared(format!("https://{}", bed.address)).unwrap();
            async move { endpoint.tls_config(tls.domain_name("switch.test")).unwrap().connect().await }
        };
        let trusting = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(authority.pem()));
        let known = trusting.clone().identity(Identity::from_pem(&client, &client_key));
        let mut accepted = Client::new(connect(known).await.unwrap());
        accepted.bid(1).await;
        assert_eq!(accepted.arbitration().await, (Code::Ok, Some(1)));
        let anonymous = match connect(trusting).await {
            // The server rejects the certificate only after the handshake has succeeded at the client.
            Ok(channel) => {
                Client::new(channel).stub.capabilities(CapabilitiesRequest::default()).await.is_ok()
            }
            Err(_) => false,
        };
        assert_eq!(anonymous, !mutual);
        let stranger = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(self::authority().pem()));
        assert!(connect(stranger).await.is_err(), "the client does not trust this CA");
        let plain = Channel::from_shared(format!("http://{}", bed.address)).unwrap().connect().await;
        let plain_works = match plain {
            Ok(channel) => {
                Client::new(channel).stub.capabilities(CapabilitiesRequest::default()).await.is_ok()
            }
            Err(_) => false,
        };
        assert!(!plain_works, "a connection without TLS");
    }
}

#[test]
fn invalid_certificates_are_rejected_at_the_start() {
    let dataplane = weir_switch::driver::Dataplane::start(Default::default(), None, &[]).unwrap();
    let (one, _) = certificate(&authority(), "a");
    let (_, other_key) = certificate(&authority(), "b");
    let cases =
        [("no pem".to_owned(), "no pem".to_owned()), (one.clone(), "no pem".into()), (one, other_key)];
    for (certificate, key) in cases {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let tls = TlsConfig { certificate: certificate.into(), key: key.into(), client_roots: None };
        let config = ServerConfig { tls: Some(tls), ..ServerConfig::default() };
        let error = Server::start(dataplane.handle(), config, listener).unwrap_err();
        assert!(matches!(error, ServeError::Tls(_)), "{error}");
    }
}
