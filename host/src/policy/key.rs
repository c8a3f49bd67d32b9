use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;

/// Length of a signature in bytes: a full HMAC-SHA256 (RFC 2104).
pub(super) const MAC_LEN: usize = 32;
/// Minimum length of a key in bytes. NIST SP 800-107 §5.3.4: at least the security strength, here 128 bits.
pub const MIN_KEY_LEN: usize = 16;

/// The key that all hosts of a network share, for signing policies.
#[derive(Clone, PartialEq, Eq)]
pub struct PolicyKey(Box<[u8]>);

impl PolicyKey {
    /// Creates a key from at least [`MIN_KEY_LEN`] bytes.
    ///
    /// # Errors
    ///
    /// The key is too short.
    pub fn new(bytes: &[u8]) -> Result<PolicyKey, KeyError> {
        match bytes.len() >= MIN_KEY_LEN {
            true => Ok(PolicyKey(bytes.into())),
            false => Err(KeyError { bytes: bytes.len() }),
        }
    }

    /// Returns the HMAC state after the concatenation of `parts`.
    fn mac_over(&self, parts: &[&[u8]]) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        parts.iter().for_each(|part| mac.update(part));
        Some(mac)
    }

    /// Returns the signature of the concatenation of `parts`.
    pub(super) fn sign(&self, parts: &[&[u8]]) -> [u8; MAC_LEN] {
        // HMAC accepts keys of any length, so the default is never used.
        self.mac_over(parts).map_or([0; MAC_LEN], |mac| mac.finalize().into_bytes().into())
    }

    /// Returns whether `signature` is the signature of `parts`. Runs in constant time.
    pub(super) fn verify(&self, parts: &[&[u8]], signature: &[u8]) -> bool {
        self.mac_over(parts).is_some_and(|mac| mac.verify_slice(signature).is_ok())
    }
}

/// Prints the length only, so that the key does not end up in logs.
impl fmt::Debug for PolicyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PolicyKey({} bytes)", self.0.len())
    }
}

/// The key is too short.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("policy key of {bytes} bytes is too short, use at least {MIN_KEY_LEN}")]
pub struct KeyError {
    /// Length of the key.
    pub bytes: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4231 test case 6: a key of 131 bytes 0xaa.
    #[test]
    fn signs_as_rfc_4231() {
        let key = PolicyKey::new(&[0xaa; 131]).unwrap();
        let signature = key.sign(&[b"Test Using Larger Than Block-Size", b" Key - Hash Key First"]);
        let hex: String = signature.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
        assert!(key.verify(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &signature));
        assert!(!key.verify(&[b"Test"], &signature));
        assert!(!key.verify(&[b"Test Using Larger Than Block-Size Key - Hash Key First"], &signature[..31]));
    }

    #[test]
    fn short_keys_are_refused_and_debug_hides_the_key() {
        assert_eq!(
            PolicyKey::new(b"secret").unwrap_err().to_string(),
            "policy key of 6 bytes is too short, use at least 16"
        );
        let key = PolicyKey::new(b"a secret that all hosts share").unwrap();
        assert_eq!(format!("{key:?}"), "PolicyKey(29 bytes)");
    }
}
