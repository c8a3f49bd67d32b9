//! The encoding of a policy, behind the headers of a POLICY packet. Big-endian.
//!
//! ```text
//! bytes  field
//!     1  format, 2
//!     1  0
//!     2  length of the body
//!     8  timestamp: the sender's clock in ns; increases with every packet
//!     8  age: time in ps since the policy was set, as known to the sender
//!        body:
//!     8    version; 0: no policy was ever set
//!     4    writer: address of the host where it was set
//!     8    digest of the policy from which it was edited
//!     8    lifetime in ps; 0: none
//!     8    T in ps; 0: each host's own
//!     8    Imin in ps; 0: each host's own
//!     1    number of doublings to Imax, plus 1; 0: each host's own
//!     8    k (0 for infinity), plus 1; 0: each host's own
//!     s    ECN thresholds; "": the scheme's own
//!     s    scheme
//!     1    number of parameters
//!   2*s    name and value of each parameter, sorted by name, without duplicates
//!    32  HMAC-SHA256 over "weir policy 2", the IPv4 source address and all of the above
//! ```
//!
//! `s` is a length of one byte and as many bytes of UTF-8. Equal policies have equal bodies: a body that is not the
//! canonical encoding of a policy is malformed. A host that forwards a policy signs the packet itself, with its own
//! timestamp and age.

use super::key::{MAC_LEN, PolicyKey};
use super::{Policy, PolicyError, TrickleOverrides};
use crate::parameter::ParameterValue;
use crate::scheme::EcnThresholds;
use crate::trickle::MAX_DOUBLINGS;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::net::Ipv4Addr;
use weir_units::Time;

const FORMAT: u8 = 2;
/// Keeps a signature of another use of the key, such as the saved state, from being valid here.
const DOMAIN_SEPARATOR: &[u8] = b"weir policy 2";
/// Length in bytes of the fields in front of the body.
const HEADER_LEN: usize = 20;
/// Maximum length of a packet in bytes, without the frame's headers. Weir's choice: the policy of every scheme takes
/// less than two thirds, and it fits every Ethernet MTU.
pub const MAX_POLICY_PACKET: usize = 1_024;

/// Identifies a policy. A newer policy has a higher version; of two with the same version, which were set
/// concurrently, the one with the higher writer wins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PolicyId {
    /// Version: 1 for the first policy that was set, 0 if none was.
    pub version: u64,
    /// Address of the host where the policy was set, as a number.
    pub writer: u32,
}

impl PolicyId {
    /// Returns the address of the host where the policy was set.
    pub fn writer(self) -> Ipv4Addr {
        Ipv4Addr::from(self.writer)
    }
}

/// Writes for example `3 by 10.0.0.1`.
impl fmt::Display for PolicyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            0 => f.write_str("none"),
            version => write!(f, "{version} by {}", self.writer()),
        }
    }
}

/// The first 8 bytes of the SHA-256 of a policy's body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 8]);

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// The content of a packet's body.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Body {
    pub id: PolicyId,
    /// Digest of the policy from which it was edited.
    pub parent: Digest,
    /// The content; `None` exactly if the version is 0.
    pub policy: Option<Policy>,
}

impl Body {
    /// Returns the body that a host sends before it holds any policy.
    pub(super) fn none() -> Body {
        Body { id: PolicyId::default(), parent: Digest::default(), policy: None }
    }

    /// Encodes the body of a packet.
    ///
    /// # Errors
    ///
    /// The policy exceeds a limit of the format.
    pub(super) fn encode(&self) -> Result<Vec<u8>, PolicyError> {
        let mut out = Vec::with_capacity(MAX_POLICY_PACKET);
        out.extend(self.id.version.to_be_bytes());
        out.extend(self.id.writer.to_be_bytes());
        out.extend(self.parent.0);
        let policy = self.policy.as_ref();
        let times = [policy.and_then(|policy| policy.lifetime), policy.and_then(|policy| policy.base_rtt)];
        times.iter().for_each(|time| out.extend(time.map_or(0, Time::as_ps).to_be_bytes()));
        let timer = policy.map_or(TrickleOverrides::default(), |policy| policy.timer);
        out.extend(timer.imin.map_or(0, Time::as_ps).to_be_bytes());
        out.push(timer.doublings.map_or(0, |doublings| doublings.min(MAX_DOUBLINGS) as u8 + 1));
        out.extend(timer.k.map_or(0, |k| u64::from(k) + 1).to_be_bytes());
        let ecn = policy.and_then(|policy| policy.ecn);
        write_string(&mut out, &ecn.map_or_else(String::new, EcnThresholds::to_text))?;
        write_string(&mut out, policy.map_or("", |policy| &policy.scheme))?;
        let no_parameters = BTreeMap::new();
        let parameters = policy.map_or(&no_parameters, |policy| &policy.parameters);
        let too_many = PolicyError::TooLong { size: parameters.len(), max: usize::from(u8::MAX) };
        out.push(u8::try_from(parameters.len()).map_err(|_| too_many)?);
        for (name, value) in parameters {
            write_string(&mut out, name)?;
            write_string(&mut out, value)?;
        }
        let size = sealed_len(&out);
        match size <= MAX_POLICY_PACKET {
            true => Ok(out),
            false => Err(PolicyError::TooLong { size, max: MAX_POLICY_PACKET }),
        }
    }

    /// Decodes the body of a packet; `None` unless the bytes are exactly what [`encode`](Self::encode) writes.
    pub(super) fn decode(bytes: &[u8]) -> Option<Body> {
        let mut rest = bytes;
        let id = PolicyId { version: read_u64(&mut rest)?, writer: u32::from_be_bytes(read(&mut rest)?) };
        let parent = Digest(read(&mut rest)?);
        let (lifetime, base_rtt) = (read_time(&mut rest)?, read_time(&mut rest)?);
        let imin = read_time(&mut rest)?;
        let [lifetime, base_rtt, imin] =
            [lifetime, base_rtt, imin].map(|time| (time > Time::ZERO).then_some(time));
        let ([doublings], k) = (read(&mut rest)?, read_u64(&mut rest)?);
        let k = k.checked_sub(1).map(u32::try_from).transpose().ok()?;
        let timer = TrickleOverrides { imin, doublings: doublings.checked_sub(1).map(u32::from), k };
        timer.check().ok()?;
        let ecn = match read_string(&mut rest)? {
            "" => None,
            text => Some(EcnThresholds::parse(text).ok()?),
        };
        let scheme = read_string(&mut rest)?.to_owned();
        let [count] = read(&mut rest)?;
        let mut parameters = BTreeMap::new();
        for _ in 0..count {
            let (name, value) = (read_string(&mut rest)?, read_string(&mut rest)?);
            parameters.insert(name.to_owned(), value.to_owned());
        }
        let policy =
            (id.version > 0).then_some(Policy { scheme, parameters, base_rtt, ecn, timer, lifetime });
        let body = Body { id, parent, policy };
        // Accepts only the canonical encoding: sorted parameters, no trailing bytes, and no content with version 0.
        // Digests of equal policies are then equal.
        (body.encode().ok()? == bytes).then_some(body)
    }
}

/// Returns the digest of an encoded body.
pub(super) fn digest(body: &[u8]) -> Digest {
    let hash: [u8; 32] = Sha256::digest(body).into();
    let mut digest = Digest::default();
    digest.0.copy_from_slice(&hash[..8]);
    digest
}

/// Appends a string of at most 255 bytes with its length.
fn write_string(out: &mut Vec<u8>, text: &str) -> Result<(), PolicyError> {
    let max = usize::from(u8::MAX);
    let len = u8::try_from(text.len()).map_err(|_| PolicyError::TooLong { size: text.len(), max })?;
    out.push(len);
    out.extend(text.as_bytes());
    Ok(())
}

/// Removes the first `N` bytes of `rest` and returns them; `None` if there are fewer.
pub(super) fn read<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, remaining) = rest.split_first_chunk::<N>()?;
    *rest = remaining;
    Some(*first)
}

pub(super) fn read_u64(rest: &mut &[u8]) -> Option<u64> {
    read(rest).map(u64::from_be_bytes)
}

pub(super) fn read_time(rest: &mut &[u8]) -> Option<Time> {
    read_u64(rest).map(Time::from_ps)
}

pub(super) fn read_slice<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, remaining) = rest.split_at_checked(len)?;
    *rest = remaining;
    Some(first)
}

fn read_string<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    let [len] = read(rest)?;
    std::str::from_utf8(read_slice(rest, usize::from(len))?).ok()
}

/// The fields in front of the body that are not part of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Envelope {
    /// The sender's clock in ns.
    pub stamp: u64,
    /// Time since the policy was set, as known to the sender.
    pub age: Time,
}

/// Appends a signed packet from `source` to `out`.
pub(super) fn seal(envelope: Envelope, body: &[u8], source: Ipv4Addr, key: &PolicyKey, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend([FORMAT, 0]);
    out.extend((body.len() as u16).to_be_bytes());
    out.extend(envelope.stamp.to_be_bytes());
    out.extend(envelope.age.as_ps().to_be_bytes());
    out.extend(body);
    let signature = key.sign(&[DOMAIN_SEPARATOR, &source.octets(), &out[start..]]);
    out.extend(signature);
}

/// Returns the length in bytes of a packet with this body.
pub(super) fn sealed_len(body: &[u8]) -> usize {
    HEADER_LEN + body.len() + MAC_LEN
}

/// The reason why a packet is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnsealError {
    Malformed,
    /// The signature does not match key, source address and content.
    Forged,
}

/// Checks format and signature of a packet from `source`, and returns its envelope and body.
pub(super) fn unseal<'a>(
    packet: &'a [u8],
    source: Ipv4Addr,
    key: &PolicyKey,
) -> Result<(Envelope, &'a [u8]), UnsealError> {
    let mut rest = packet;
    let parse = |rest: &mut &'a [u8]| {
        let [format, zero] = read(rest)?;
        let len = usize::from(u16::from_be_bytes(read(rest)?));
        let envelope = Envelope { stamp: read_u64(rest)?, age: read_time(rest)? };
        let body = read_slice(rest, len)?;
        let signature: [u8; MAC_LEN] = read(rest)?;
        (format == FORMAT && zero == 0 && rest.is_empty()).then_some((envelope, body, signature))
    };
    let (envelope, body, signature) = parse(&mut rest).ok_or(UnsealError::Malformed)?;
    let signed = &packet[..HEADER_LEN + body.len()];
    match key.verify(&[DOMAIN_SEPARATOR, &source.octets(), signed], &signature) {
        true => Ok((envelope, body)),
        false => Err(UnsealError::Forged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::Registry;
    use proptest::prelude::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn key() -> PolicyKey {
        PolicyKey::new(b"sixteen bytes...").unwrap()
    }

    fn body(scheme: &str) -> Body {
        let policy = Policy::of(&*Registry::builtin().get(scheme).unwrap());
        let edits = [
            ("T", "13us"),
            ("lifetime", "1min"),
            ("ecn_thresholds", "100KB-400KB:0.2/25Gbps"),
            ("imin", "1ms"),
            ("imax", "0"),
            ("k", "0"),
        ];
        let policy = policy.edit(&Registry::builtin(), &edits).unwrap();
        Body { id: PolicyId { version: 7, writer: 9 }, parent: Digest([5; 8]), policy: Some(policy) }
    }

    /// The policy of every scheme takes at most two thirds of a packet, which leaves room for longer values.
    #[test]
    fn every_policy_fits_a_packet_and_decodes_to_itself() {
        for scheme in Registry::builtin().schemes() {
            let body = body(scheme.name());
            let bytes = body.encode().unwrap();
            assert!(
                HEADER_LEN + bytes.len() + MAC_LEN <= MAX_POLICY_PACKET * 2 / 3,
                "{} {}",
                scheme.name(),
                bytes.len()
            );
            assert_eq!(Body::decode(&bytes), Some(body));
        }
        assert_eq!(Body::decode(&Body::none().encode().unwrap()), Some(Body::none()));
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let mut long = body("hpcc");
        let parameters = &mut long.policy.as_mut().unwrap().parameters;
        parameters.insert("eta".to_owned(), "9".repeat(256));
        assert!(matches!(long.encode(), Err(PolicyError::TooLong { size: 256, max: 255 })));
        let parameters = &mut long.policy.as_mut().unwrap().parameters;
        for parameter in parameters.values_mut() {
            *parameter = "9".repeat(200);
        }
        assert!(matches!(long.encode(), Err(PolicyError::TooLong { max: MAX_POLICY_PACKET, .. })));
    }

    /// Detects a change of any byte, truncation at any byte, another key and another sender.
    #[test]
    fn a_changed_packet_is_rejected() {
        let (key, body) = (key(), body("fncc").encode().unwrap());
        let mut packet = Vec::new();
        let envelope = Envelope { stamp: 5, age: Time::from_ps(6) };
        seal(envelope, &body, SOURCE, &key, &mut packet);
        assert_eq!(unseal(&packet, SOURCE, &key), Ok((envelope, &body[..])));
        for index in 0..packet.len() {
            let mut changed = packet.clone();
            changed[index] ^= 1;
            assert!(unseal(&changed, SOURCE, &key).is_err(), "byte {index}");
            assert_eq!(unseal(&packet[..index], SOURCE, &key), Err(UnsealError::Malformed), "{index} bytes");
        }
        let other = PolicyKey::new(b"another 16 bytes").unwrap();
        assert_eq!(unseal(&packet, SOURCE, &other), Err(UnsealError::Forged));
        assert_eq!(unseal(&packet, Ipv4Addr::new(10, 0, 0, 2), &key), Err(UnsealError::Forged));
        packet.push(0);
        assert_eq!(unseal(&packet, SOURCE, &key), Err(UnsealError::Malformed));
    }

    #[test]
    fn only_the_canonical_encoding_is_decoded() {
        let good = body("hpcc").encode().unwrap();
        let mut trailing = good.clone();
        trailing.push(0);
        assert_eq!(Body::decode(&trailing), None);
        // Version 0 with content.
        let mut version_0 = good.clone();
        version_0[..8].fill(0);
        assert_eq!(Body::decode(&version_0), None);
        // Parameters in another order, or twice.
        let base = Body {
            policy: Some(Policy { parameters: BTreeMap::new(), ..body("hpcc").policy.unwrap() }),
            ..body("hpcc")
        };
        for names in [["b", "a"], ["a", "a"]] {
            let mut bytes = base.encode().unwrap();
            *bytes.last_mut().unwrap() = 2;
            for name in names {
                write_string(&mut bytes, name).unwrap();
                write_string(&mut bytes, "1").unwrap();
            }
            assert_eq!(Body::decode(&bytes), None, "{names:?}");
        }
    }

    proptest! {
        /// Arbitrary bytes do not cause a panic, and accepted bytes are those that `encode` writes.
        #[test]
        fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(unseal(&bytes, SOURCE, &key()).is_err());
            if let Some(body) = Body::decode(&bytes) {
                prop_assert_eq!(body.encode().unwrap(), bytes);
            }
        }

        /// The same for a valid body with one byte changed.
        #[test]
        fn a_changed_byte_does_not_panic(index in 0usize..400, value: u8) {
            let mut bytes = body("dcqcn").encode().unwrap();
            let index = index % bytes.len();
            bytes[index] = value;
            if let Some(body) = Body::decode(&bytes) {
                prop_assert_eq!(body.encode().unwrap(), bytes);
            }
        }
    }
}
