//! Parsing and building headers: stacks, unions, variable fields, lookahead, errors, checksums.

use crate::one_packet::{pipeline, run, send};
use weir_switch::pipeline::SideEffects;
use weir_switch::{Packet, PacketPool};

fn process(frame: &[u8]) -> Vec<u8> {
    send(&mut pipeline("headers"), frame, &mut SideEffects::default()).expect("this program drops no packet")
}

fn label(number: u32, bottom: bool, ttl: u8) -> [u8; 4] {
    (number << 12 | u32::from(bottom) << 8 | u32::from(ttl)).to_be_bytes()
}

const A: u32 = 0x11111;
const B: u32 = 0x22222;

fn labels(n: u8, labels: &[[u8; 4]]) -> Vec<u8> {
    [&[1, n][..], &labels.concat(), b"rest"].concat()
}

#[test]
fn stacks_are_pushed_popped_and_indexed() {
    let two = [label(A, false, 5), label(B, true, 6)];
    assert_eq!(process(&labels(0, &two)), labels(0, &two));
    // push_front: the packet grows.
    assert_eq!(process(&labels(1, &two)), labels(1, &[label(0xabcde, false, 64), two[0], two[1]]));
    let three = [two[0], two[0], two[1]];
    assert_eq!(process(&labels(1, &three)), labels(1, &[label(0xabcde, false, 64), two[0], two[0]]));
    assert_eq!(process(&labels(2, &two)), labels(2, &two[1..]));
    // Assignment of headers, and an invalid header within the stack.
    assert_eq!(process(&labels(3, &two)), labels(3, &[two[0], two[0]]));
    // An index that is known only at run time; one out of range has no effect.
    assert_eq!(process(&labels(17, &two)), labels(17, &[two[0], label(B, true, 5)]));
    assert_eq!(process(&labels(19, &two)), labels(19, &two));
}

/// Prepends the result header: error number, bad checksum, length in egress.
fn with_error(error: u32, bad_checksum: u8, frame: &[u8]) -> Vec<u8> {
    let mut bytes = error.to_be_bytes().to_vec();
    bytes.push(bad_checksum);
    bytes.extend((frame.len() as u32 + 9).to_be_bytes());
    bytes.extend(frame);
    bytes
}

const TOO_SHORT: u32 = 1;
const OUT_OF_BOUNDS: u32 = 3;
const HEADER_TOO_SHORT: u32 = 4;
const INVALID_ARGUMENT: u32 = 6;
const BAD_VERSION: u32 = 7;

#[test]
fn parser_errors_are_reported() {
    let failing =
        |error, frame: &[u8]| assert_eq!(process(frame), with_error(error, 0, frame), "{frame:02x?}");
    failing(TOO_SHORT, &[]);
    failing(TOO_SHORT, &[1]);
    failing(TOO_SHORT, &labels(0, &[])[..5]);
    let four = [label(A, false, 1); 4];
    failing(OUT_OF_BOUNDS, &labels(0, &four));
    // Variable fields: 41 bytes exceed the maximum of 40; of 40 bytes, only 30 follow.
    failing(HEADER_TOO_SHORT, &[&[2, 41, 0][..], &[7; 60]].concat());
    failing(TOO_SHORT, &[&[2, 40, 0][..], &[7; 30]].concat());
    // A length that is not a multiple of 8 bits.
    failing(INVALID_ARGUMENT, &[5, 4, 0, 0, 0, 0]);
    failing(TOO_SHORT, &[5, 240, 0, 0]);
    // No case of the select matches.
    assert_eq!(process(&[7, 0, 1, 2]), [7, 0, 1, 2]);
}

#[test]
fn variable_fields_are_extracted_and_emitted() {
    for len in [0u8, 1, 7, 8, 9, 40] {
        let frame = [&[2, len, 0xaa][..], &(0..len).collect::<Vec<_>>(), &[0xbb], b"rest"].concat();
        assert_eq!(process(&frame), frame, "{len}");
    }
}

fn sum(bytes: &[u8]) -> u16 {
    let words =
        bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn ipv4(ttl: u8, version: u8) -> [u8; 20] {
    let mut header = [version << 4 | 5, 0, 0, 60, 1, 2, 0x40, 0, ttl, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let checksum = sum(&header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

#[test]
fn checksums_are_verified_and_updated() {
    let frame = |n: u8, header: &[u8]| [&[3, n][..], header, b"payload"].concat();
    assert_eq!(process(&frame(0, &ipv4(64, 4))), frame(0, &ipv4(63, 4)));
    let mut wrong = ipv4(64, 4);
    wrong[11] ^= 1;
    // The wrong checksum is reported, and corrected when the packet leaves.
    assert_eq!(process(&frame(0, &wrong)), with_error(0, 1, &frame(0, &ipv4(63, 4))));
    // A header that fails `verify` was extracted; its checksum is correct.
    assert_eq!(process(&frame(0, &ipv4(64, 5))), with_error(BAD_VERSION, 0, &frame(0, &ipv4(63, 5))));
    // A checksum over the source address and the payload.
    let sent = process(&frame(9, &ipv4(64, 4)));
    assert_eq!(sent[6..8], sum(&[&[10, 0, 0, 1], &b"payload"[..]].concat()).to_be_bytes());
}

#[test]
fn unions_have_one_valid_member() {
    // Member `one` is replaced by `two`: the packet grows by a byte.
    assert_eq!(process(&[4, 0, 1, 0x55]), [4, 0, 9, 8, 0x55]);
    assert_eq!(process(&[4, 0, 2, 3, 0x55]), [4, 0, 2, 3, 0x55]);
    assert_eq!(process(&[4, 1, 2, 3, 0x55]), [4, 1, 0x55]);
}

#[test]
fn fields_across_word_boundaries_are_modified() {
    let pack = |b: u64, d: u128| {
        // 7 + 64 + 1 + 100 + 4 bits
        let high = u128::from(0x55u8) << 65 | u128::from(b) << 1 | 1;
        let mut bytes = high.to_be_bytes()[7..].to_vec();
        bytes.extend(&(d << 4 | 0xa).to_be_bytes()[3..]);
        bytes
    };
    let d = 0x9_8765_4321_0fed_cba9_8765_4321_u128;
    for b in [0, 0x0123_4567_89ab_cdef, u64::MAX] {
        let given = [&[6, 0][..], &pack(b, d), b"rest"].concat();
        let expected = [&[6, 0][..], &pack(b.wrapping_add(1), d << 1 & ((1 << 100) - 1)), b"rest"].concat();
        assert_eq!(process(&given), expected);
    }
    // The same through a value set.
    let mut pipeline = pipeline("headers");
    let given = [&[0x40, 0][..], &pack(1, 1)].concat();
    assert_eq!(send(&mut pipeline, &given, &mut SideEffects::default()).unwrap(), given);
    pipeline.value_set_insert("special", &[0x40]).unwrap();
    let expected = [&[0x40, 0][..], &pack(2, 2)].concat();
    assert_eq!(send(&mut pipeline, &given, &mut SideEffects::default()).unwrap(), expected);
}

#[test]
fn headers_reach_into_the_virtual_tail() {
    let (mut pipeline, mut packet) = (pipeline("headers"), PacketPool::new().get());
    packet.set_bytes(&[6, 0, 0xff]);
    packet.set_virtual_len(100);
    let sent = run(&mut pipeline, &mut packet, &mut SideEffects::default()).unwrap();
    assert_eq!((sent.len(), packet.len()), (103, 103));
    let plain = [&[6, 0, 0xff][..], &[0; 100]].concat();
    assert_eq!(sent, process(&plain));
    let _: &Packet = &packet;
}
