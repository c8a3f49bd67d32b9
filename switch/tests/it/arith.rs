//! Compares every arithmetic operation with Rust's.

use crate::one_packet::{pipeline, send};
use proptest::prelude::*;
use weir_switch::pipeline::SideEffects;

/// Chooses edge cases often, where errors are likely.
fn with_edge_cases<T: Copy + std::fmt::Debug + 'static>(
    edges: &'static [T],
    any: BoxedStrategy<T>,
) -> BoxedStrategy<T> {
    prop_oneof![prop::sample::select(edges), any].boxed()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn operations_agree_with_rust(
        a in with_edge_cases(&[0u8, 1, 127, 128, 255], any::<u8>().boxed()),
        b in with_edge_cases(&[0u8, 1, 31, 32, 63, 64, 127, 128, 255], any::<u8>().boxed()),
        c: u32, d: u32,
        e in with_edge_cases(&[0u64, u64::MAX, 1 << 63], any::<u64>().boxed()),
        f in with_edge_cases(&[0u64, u64::MAX, 1 << 63], any::<u64>().boxed()),
        g in with_edge_cases(&[0u128, u128::MAX, 1 << 64, u64::MAX as u128], any::<u128>().boxed()),
        h in with_edge_cases(&[0u128, u128::MAX, 1 << 64, u64::MAX as u128], any::<u128>().boxed()),
        i in with_edge_cases(&[0i16, -1, i16::MIN, i16::MAX], any::<i16>().boxed()),
        j in with_edge_cases(&[0i16, -1, i16::MIN, i16::MAX], any::<i16>().boxed()),
        odd in 0u8..8, shift in 0u8..32,
    ) {
        let mut input = vec![a, b];
        input.extend([c, d].map(u32::to_be_bytes).concat());
        input.extend([e, f].map(u64::to_be_bytes).concat());
        input.extend([g, h].map(u128::to_be_bytes).concat());
        input.extend([i, j].map(i16::to_be_bytes).concat());
        input.push(odd << 5 | shift);

        let mut expected = input.clone();
        let saturated = i32::from(i) + i32::from(j);
        let saturated = saturated.clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16;
        expected.extend([
            a.wrapping_add(b), a.wrapping_sub(b), a.wrapping_mul(b), a.saturating_add(b), a.saturating_sub(b),
        ]);
        let shift_by = u32::from(b);
        let words = [
            c.checked_shl(shift_by).unwrap_or(0), c.checked_shr(shift_by).unwrap_or(0), c.wrapping_neg(),
            u32::from(a) << 24 | (d & 0xffff) << 8 | u32::from(b), !(c ^ d) | (c & d),
        ];
        expected.extend(words.map(u32::to_be_bytes).concat());
        let words =
            [e.wrapping_add(f), e.saturating_add(f), e.wrapping_mul(f), e.checked_shl(shift_by).unwrap_or(0)];
        expected.extend(words.map(u64::to_be_bytes).concat());
        let words = [
            g.wrapping_add(h), g.wrapping_sub(h), g & !h, g.checked_shr(shift_by).unwrap_or(0), g.wrapping_mul(h),
        ];
        expected.extend(words.map(u128::to_be_bytes).concat());
        let words = [i.wrapping_add(j), saturated, i >> shift.min(15)];
        expected.extend(words.map(i16::to_be_bytes).concat());
        expected.extend([a < b, i < j, e < f, g < h, g == h].map(u8::from));
        expected.extend(((g >> 60) as u16).to_be_bytes());
        expected.extend(u32::from(a).to_be_bytes());
        expected.extend(i32::from(i).to_be_bytes());
        expected.extend((if odd == 3 { c } else { d }).to_be_bytes());
        expected.push((odd + shift) & 7);

        let sent = send(&mut pipeline("arith"), &input, &mut SideEffects::default());
        prop_assert_eq!(sent, Some(expected));
    }
}
