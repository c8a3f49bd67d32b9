//! Arithmetic on numbers wider than a slot (a 64-bit word of the header vector), which take several slots. Programs
//! rarely need it, so the code is simple rather than fast.

use crate::program::{WideOp, WideOpcode, WideSlot, low_mask};
use std::cmp::Ordering;

/// Limbs of the widest number that a program can have, including its sign.
const LIMBS: usize = 130;

/// Width for [`store`] that keeps every bit: for results that are already in range or sign-extended.
const ALL_BITS: u32 = u32::MAX;

/// A number in two's complement, as 64-bit limbs, the lowest first.
#[derive(Clone, Copy)]
struct Wide([u64; LIMBS]);

impl Wide {
    const ZERO: Wide = Wide([0; LIMBS]);

    fn load(slots: &[u64], from: WideSlot) -> Wide {
        let mut wide = Wide::ZERO;
        let limbs = usize::from(from.limbs).min(LIMBS);
        wide.0[..limbs].copy_from_slice(&slots[usize::from(from.slot)..][..limbs]);
        let is_negative = from.signed && limbs > 0 && wide.0[limbs - 1] >> 63 == 1;
        if is_negative {
            wide.0[limbs..].fill(u64::MAX);
        }
        wide
    }

    fn is_negative(&self) -> bool {
        self.0[LIMBS - 1] >> 63 == 1
    }

    fn zip_with(mut self, other: Wide, op: impl Fn(u64, u64) -> u64) -> Wide {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            *a = op(*a, b);
        }
        self
    }

    fn not(self) -> Wide {
        self.zip_with(Wide::ZERO, |a, _| !a)
    }

    fn add(self, other: Wide) -> Wide {
        self.add_with_carry(other, false)
    }

    fn add_with_carry(mut self, other: Wide, mut carry: bool) -> Wide {
        for (a, b) in self.0.iter_mut().zip(other.0) {
            let sum = u128::from(*a) + u128::from(b) + u128::from(carry);
            (*a, carry) = (sum as u64, sum >> 64 != 0);
        }
        self
    }

    fn sub(self, other: Wide) -> Wide {
        // Two's complement: -x = !x + 1.
        self.add_with_carry(other.not(), true)
    }

    fn mul(self, other: Wide) -> Wide {
        let mut product = Wide::ZERO;
        for (i, a) in self.0.iter().enumerate().filter(|(_, a)| **a != 0) {
            let mut carry = 0u128;
            for (b, out) in other.0.iter().zip(&mut product.0[i..]) {
                let sum = u128::from(*a) * u128::from(*b) + u128::from(*out) + carry;
                (*out, carry) = (sum as u64, sum >> 64);
            }
        }
        product
    }

    fn shl(self, by: u64) -> Wide {
        let (limbs, bits) = ((by / 64) as usize, by % 64);
        let mut out = Wide::ZERO;
        for i in limbs..LIMBS {
            let low = if bits > 0 && i > limbs { self.0[i - limbs - 1] >> (64 - bits) } else { 0 };
            out.0[i] = self.0[i - limbs] << bits | low;
        }
        out
    }

    fn shr(self, by: u64) -> Wide {
        let (limbs, bits) = ((by / 64) as usize, by % 64);
        let fill = if self.is_negative() { u64::MAX } else { 0 };
        let limb = |i: usize| self.0.get(i).copied().unwrap_or(fill);
        let mut out = Wide::ZERO;
        for (i, value) in out.0.iter_mut().enumerate() {
            let high = if bits > 0 { limb((i + limbs).saturating_add(1)) << (64 - bits) } else { 0 };
            *value = limb(i + limbs) >> bits | high;
        }
        out
    }

    fn cmp(&self, other: &Wide) -> Ordering {
        let flip = |wide: &Wide| wide.0[LIMBS - 1] ^ 1 << 63;
        flip(self).cmp(&flip(other)).then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
    }

    /// Returns a number whose lowest `bits` bits are set.
    fn ones(bits: u32) -> Wide {
        let mut out = Wide::ZERO;
        for (i, limb) in out.0.iter_mut().enumerate() {
            *limb = low_mask(bits.saturating_sub(64 * i as u32));
        }
        out
    }

    /// Returns quotient and remainder of non-negative numbers; zeros if the divisor is 0.
    fn div_mod(self, divisor: Wide) -> (Wide, Wide) {
        let (mut quotient, mut remainder) = (Wide::ZERO, Wide::ZERO);
        if divisor.0 == Wide::ZERO.0 {
            return (quotient, remainder);
        }
        let used = self.0.iter().rposition(|limb| *limb != 0).map_or(0, |top| top + 1);
        for bit in (0..used * 64).rev() {
            remainder = remainder.shl(1);
            remainder.0[0] |= self.0[bit / 64] >> (bit % 64) & 1;
            if remainder.cmp(&divisor).is_ge() {
                remainder = remainder.sub(divisor);
                quotient.0[bit / 64] |= 1 << (bit % 64);
            }
        }
        (quotient, remainder)
    }
}

/// Runs an operation. Returns `false`, and does nothing, for a register access: the caller has the registers.
pub(super) fn run(op: &WideOp, slots: &mut [u64]) -> bool {
    let (a, b) = (|| Wide::load(slots, op.a), || Wide::load(slots, op.b));
    // Operand `b` as a number of one slot: a condition, a shift or the first slot of a header.
    let single = || slots[usize::from(op.b.slot)];
    // Larger shifts give the same result as this maximum.
    let shift = || single().min(LIMBS as u64 * 64);
    let from_bool = |value: bool| Wide::ZERO.add_with_carry(Wide::ZERO, value);
    let result = match op.kind {
        WideOpcode::Mov => a(),
        WideOpcode::MovIf => match single() {
            0 => return true,
            _ => a(),
        },
        WideOpcode::Add => a().add(b()),
        WideOpcode::Sub => a().sub(b()),
        WideOpcode::Mul => a().mul(b()),
        WideOpcode::Div => a().div_mod(b()).0,
        WideOpcode::Mod => a().div_mod(b()).1,
        WideOpcode::And => a().zip_with(b(), |a, b| a & b),
        WideOpcode::Or => a().zip_with(b(), |a, b| a | b),
        WideOpcode::Xor => a().zip_with(b(), |a, b| a ^ b),
        WideOpcode::Not => a().not(),
        WideOpcode::Shl => a().shl(shift()),
        WideOpcode::Shr => a().shr(shift()),
        WideOpcode::Sext => {
            let value = a().zip_with(Wide::ones(op.bits), |a, mask| a & mask);
            let sign = op.bits - 1;
            match value.0[(sign / 64) as usize] >> (sign % 64) & 1 {
                0 => store(op, slots, value, ALL_BITS),
                _ => store(op, slots, value.zip_with(Wide::ones(op.bits), |a, mask| a | !mask), ALL_BITS),
            }
            return true;
        }
        WideOpcode::SatU | WideOpcode::SatS => {
            let (low, high) = match op.kind {
                WideOpcode::SatU => (Wide::ZERO, Wide::ones(op.bits)),
                _ => (Wide::ones(op.bits - 1).not(), Wide::ones(op.bits - 1)),
            };
            let value = a();
            let clamped = if value.cmp(&low).is_lt() { low } else { value };
            let clamped = if clamped.cmp(&high).is_gt() { high } else { clamped };
            store(op, slots, clamped, ALL_BITS);
            return true;
        }
        WideOpcode::Eq => from_bool(a().cmp(&b()).is_eq()),
        WideOpcode::Ne => from_bool(a().cmp(&b()).is_ne()),
        WideOpcode::Lt => from_bool(a().cmp(&b()).is_lt()),
        WideOpcode::Le => from_bool(a().cmp(&b()).is_le()),
        WideOpcode::LoadAt(offset) => {
            let from = single() as usize + usize::from(offset);
            let to = usize::from(op.d.slot);
            slots.copy_within(from..from + usize::from(op.d.limbs), to);
            return true;
        }
        WideOpcode::StoreAt(offset) => {
            let to = single() as usize + usize::from(offset);
            let from = usize::from(op.a.slot);
            slots.copy_within(from..from + usize::from(op.a.limbs), to);
            return true;
        }
        WideOpcode::CopySlots => {
            let from = usize::from(op.a.slot);
            slots.copy_within(from..from + usize::from(op.a.limbs), usize::from(op.d.slot));
            return true;
        }
        WideOpcode::EqSlots => {
            let range = |operand: WideSlot| &slots[usize::from(operand.slot)..][..usize::from(operand.limbs)];
            from_bool(range(op.a) == range(op.b))
        }
        WideOpcode::EqHeader(size) => {
            let base = |from: WideSlot| slots[usize::from(from.slot)] as usize;
            let block = |base: usize| &slots[base..base + usize::from(size)];
            let (left, right) = (block(base(op.a)), block(base(op.b)));
            // The first slot of a block is its validity, the second its frame offset.
            from_bool(left[0] != 0 && right[0] != 0 && left[2..] == right[2..])
        }
        WideOpcode::RegRead(_) | WideOpcode::RegWrite(_) => return false,
    };
    store(op, slots, result, op.bits);
    true
}

/// Stores the lowest `bits` bits of a result in the destination; its other bits become 0.
fn store(op: &WideOp, slots: &mut [u64], value: Wide, bits: u32) {
    let to = &mut slots[usize::from(op.d.slot)..][..usize::from(op.d.limbs)];
    for (i, (slot, limb)) in to.iter_mut().zip(value.0).enumerate() {
        *slot = limb & low_mask(bits.saturating_sub(64 * i as u32));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn binary(kind: WideOpcode, a: i128, b: i128) -> i128 {
        let operand = |slot, limbs| WideSlot { slot, limbs, signed: true };
        let mut slots = [0u64; 6];
        slots[..2].copy_from_slice(&[a as u64, (a >> 64) as u64]);
        slots[2..4].copy_from_slice(&[b as u64, (b >> 64) as u64]);
        let op = WideOp { kind, bits: 128, d: operand(4, 2), a: operand(0, 2), b: operand(2, 2) };
        assert!(run(&op, &mut slots));
        (i128::from(slots[5]) << 64) | i128::from(slots[4])
    }

    proptest! {
        #[test]
        fn arithmetic_equals_that_of_i128(a: i128, b: i128, by in 0u32..200) {
            prop_assert_eq!(binary(WideOpcode::Add, a, b), a.wrapping_add(b));
            prop_assert_eq!(binary(WideOpcode::Sub, a, b), a.wrapping_sub(b));
            prop_assert_eq!(binary(WideOpcode::Mul, a, b), a.wrapping_mul(b));
            prop_assert_eq!(binary(WideOpcode::Lt, a, b), i128::from(a < b));
            prop_assert_eq!(binary(WideOpcode::Le, a, a), 1);
            prop_assert_eq!(binary(WideOpcode::Shl, a, i128::from(by)), a.checked_shl(by).unwrap_or(0));
            prop_assert_eq!(binary(WideOpcode::Shr, a, i128::from(by)), a >> by.min(127));
            let (a, b) = (a & i128::MAX, b & i128::MAX >> 40 | 1);
            prop_assert_eq!(binary(WideOpcode::Div, a, b), a / b);
            prop_assert_eq!(binary(WideOpcode::Mod, a, b), a % b);
        }
    }

    #[test]
    fn division_by_zero_gives_zero() {
        assert_eq!((binary(WideOpcode::Div, 5, 0), binary(WideOpcode::Mod, 5, 0)), (0, 0));
    }
}
