//! The TLS configuration of a server.

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, UnixTime};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tonic::transport::{Certificate, Identity, ServerTlsConfig};
use webpki::{EndEntityCert, Error, KeyUsage};

/// Certificates and key, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsConfig {
    /// Server certificate, followed by intermediate certificates.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// If set, every client must present a certificate issued by one of these CAs.
    pub client_roots: Option<Vec<u8>>,
}

impl TlsConfig {
    pub(super) fn server(&self) -> ServerTlsConfig {
        let config = ServerTlsConfig::new().identity(Identity::from_pem(&self.certificate, &self.key));
        match &self.client_roots {
            Some(roots) => config.client_ca_root(Certificate::from_pem(roots)),
            None => config,
        }
    }

    /// Describes a certificate of the chain that has expired or is not yet valid, such as "it expired 3 days ago".
    /// Returns `None` if all are valid at `now`. Unreadable certificates are ignored here; the server reports them
    /// when it starts.
    pub fn validity_problem(&self, now: SystemTime) -> Option<String> {
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).ok()?);
        let between = |from: UnixTime, to: UnixTime| {
            format_duration(Duration::from_secs(to.as_secs().saturating_sub(from.as_secs())))
        };
        CertificateDer::pem_slice_iter(&self.certificate).flatten().find_map(|certificate| {
            let certificate = EndEntityCert::try_from(&certificate).ok()?;
            // Dates are verified first. Verification always fails, since no trust anchor is given; only the kind of
            // error matters.
            let usage = KeyUsage::server_auth();
            match certificate.verify_for_usage(&[], &[], &[], now, usage, None, None).err()? {
                Error::CertExpired { not_after, .. } => {
                    Some(format!("it expired {} ago", between(not_after, now)))
                }
                Error::CertNotValidYet { not_before, .. } => {
                    Some(format!("it is not valid before another {}", between(now, not_before)))
                }
                _ => None,
            }
        })
    }
}

/// Formats a duration in hours or days.
fn format_duration(time: Duration) -> String {
    let hours = time.as_secs() / 3600;
    match hours {
        0 => "hour or less".into(),
        1..48 => format!("{hours} hours"),
        _ => format!("{} days", hours / 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    fn certificate(from: i32, to: i32) -> String {
        let mut params = CertificateParams::new(vec!["switch.test".into()]).unwrap();
        (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    #[test]
    fn dates_in_the_past_and_in_the_future_are_reported() {
        // 2024-01-03.
        let now = UNIX_EPOCH + Duration::from_secs(1_704_240_000);
        let problem = |pem: String| {
            TlsConfig { certificate: pem.into(), key: Vec::new(), client_roots: None }.validity_problem(now)
        };
        assert_eq!(problem(certificate(2020, 2030)), None);
        assert_eq!(problem(certificate(2020, 2024)).as_deref(), Some("it expired 2 days ago"));
        let future = problem(certificate(2025, 2030)).unwrap();
        assert_eq!(future, "it is not valid before another 364 days");
        let chain = certificate(2020, 2030) + &certificate(2020, 2023);
        assert_eq!(problem(chain).as_deref(), Some("it expired 367 days ago"));
        assert_eq!(problem("no pem".into()), None);
    }
}
