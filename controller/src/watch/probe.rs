//! The frame that tests one direction of a link. Its layout: Ethernet header, `MAGIC`, version (1 byte), `is_forward`
//! (1), `run_id` (8), `link` (4), `sequence` (4), padding. Numbers are big-endian.

/// IEEE Std 802 local experimental ethertype 1 (`ETHERTYPE_PROBE` in `p4src/include/constants.p4`).
pub const ETHERTYPE: u16 = 0x88b5;

/// Destination MAC of probes: locally administered, with "WEIR" in its bytes. No device has this address; switches
/// forward probes only to their controller.
const DST: [u8; 6] = [0x02, 0x57, 0x45, 0x49, 0x52, 0x01];
/// Source MAC of probes.
const SRC: [u8; 6] = [0x02, 0x57, 0x45, 0x49, 0x52, 0x00];
/// First bytes of the payload.
const MAGIC: [u8; 4] = *b"WEIR";
const VERSION: u8 = 1;
/// Minimum size of an Ethernet frame, without FCS.
const FRAME_LEN: usize = 60;
const HEADER_LEN: usize = 14;

/// A probe of one direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkProbe {
    /// Random number that distinguishes the probes of this run from those of other controllers and runs.
    pub run_id: u64,
    /// Index of the link in the topology.
    pub link: u32,
    /// True from end `a` to end `b` of the link.
    pub is_forward: bool,
    /// Low 32 bits of the probe round.
    pub sequence: u32,
}

impl LinkProbe {
    /// Returns the probe as an Ethernet frame.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = Vec::with_capacity(FRAME_LEN);
        frame.extend(DST);
        frame.extend(SRC);
        frame.extend(ETHERTYPE.to_be_bytes());
        frame.extend(MAGIC);
        frame.push(VERSION);
        frame.push(self.is_forward.into());
        frame.extend(self.run_id.to_be_bytes());
        frame.extend(self.link.to_be_bytes());
        frame.extend(self.sequence.to_be_bytes());
        frame.resize(FRAME_LEN, 0);
        frame
    }

    /// Parses an Ethernet frame. Returns `None` if it is not a probe.
    pub fn parse(frame: &[u8]) -> Option<LinkProbe> {
        let (header, payload) = frame.split_at_checked(HEADER_LEN)?;
        if header[HEADER_LEN - 2..] != ETHERTYPE.to_be_bytes() {
            return None;
        }
        let (magic, rest) = payload.split_first_chunk::<4>()?;
        let (&[version, is_forward], rest) = rest.split_first_chunk::<2>()?;
        let (run_id, rest) = rest.split_first_chunk::<8>()?;
        let (link, rest) = rest.split_first_chunk::<4>()?;
        let (sequence, _) = rest.split_first_chunk::<4>()?;
        if *magic != MAGIC || version != VERSION || is_forward > 1 {
            return None;
        }
        Some(LinkProbe {
            run_id: u64::from_be_bytes(*run_id),
            link: u32::from_be_bytes(*link),
            is_forward: is_forward == 1,
            sequence: u32::from_be_bytes(*sequence),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_probe_reads_back(run_id: u64, link: u32, is_forward: bool, sequence: u32) {
            let probe = LinkProbe { run_id, link, is_forward, sequence };
            prop_assert_eq!(LinkProbe::parse(&probe.frame()), Some(probe));
        }

        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, cut in 0usize..60) {
            prop_assert_eq!(LinkProbe::parse(&bytes), None);
            let frame = LinkProbe { run_id: 1, link: 2, is_forward: true, sequence: 3 }.frame();
            let short = LinkProbe::parse(&frame[..cut]);
            // 14 bytes of Ethernet header and 22 bytes of probe; the rest is padding.
            prop_assert_eq!(short.is_some(), cut >= 36);
        }
    }

    #[test]
    fn the_ethertype_is_that_of_p4src() {
        let constants = include_str!("../../../p4src/include/constants.p4");
        let line =
            constants.lines().find(|line| line.contains("ETHERTYPE_PROBE")).expect("constants.p4 defines it");
        assert!(line.to_lowercase().contains(&format!("{ETHERTYPE:#06x}")), "{line}");
    }
}
