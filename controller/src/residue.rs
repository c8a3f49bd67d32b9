//! Sets of path hashes that no table tells apart.
//!
//! A switch looks at a hash only through `number % size`, where the number is one slice of the hash or
//! the hash itself. So instead of 2^32 hashes it is enough to follow residues: each choice narrows what
//! is left, and the next choice on the same number is free only as far as the first one left it open.

use crate::hash::PathHash;
use smallvec::SmallVec;

/// The number that a choice is made by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Selector {
    /// CRC-16 of the hash shifted right: an ECMP group's member.
    Slice(u8),
    /// The hash itself: the spanning tree.
    FullHash,
}

impl Selector {
    fn number(self, hash: PathHash) -> u64 {
        match self {
            Selector::Slice(slice) => hash.slice(slice).into(),
            Selector::FullHash => hash.0.into(),
        }
    }
    /// Returns the count of numbers.
    fn cardinality(self) -> u64 {
        match self {
            Selector::Slice(_) => 1 << u16::BITS,
            Selector::FullHash => 1 << u32::BITS,
        }
    }
}

/// `number % modulus == residue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Congruence {
    selector: Selector,
    modulus: u64,
    residue: u64,
}

/// Knowledge about a hash after some choices. Empty: any hash. It has no memory of its own for as many selectors as a
/// fat-tree has tiers: a proof makes millions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct HashConstraints(SmallVec<[Congruence; 4]>);

impl HashConstraints {
    /// Returns the indices below `size` that the hash may still choose, each with what is known after it.
    pub fn choices(
        &self,
        selector: Selector,
        size: u64,
    ) -> impl Iterator<Item = (usize, HashConstraints)> + '_ {
        let known = self.of(selector);
        let step = gcd(known.modulus, size);
        (known.residue % step..size).step_by(step as usize).filter_map(move |index| {
            let next = intersect(known, size, index)?;
            let mut all = SmallVec::from_slice(&self.0);
            all.retain(|k: &mut Congruence| k.selector != selector);
            all.push(next);
            Some((index as usize, HashConstraints(all)))
        })
    }

    /// Returns the indices alone.
    pub fn indices(&self, selector: Selector, size: u64) -> impl Iterator<Item = usize> + use<> {
        let known = self.of(selector);
        let step = gcd(known.modulus, size);
        (known.residue % step..size)
            .step_by(step as usize)
            .filter(move |&index| intersect(known, size, index).is_some())
            .map(|index| index as usize)
    }

    /// Returns a hash for which all this is true, if one is found soon. A hash is 32 bits and slices of it overlap,
    /// so there may be none.
    pub fn witness(&self) -> Option<PathHash> {
        /// Tries: far more than the product of group sizes on one path.
        const MAX_ATTEMPTS: u32 = 1 << 20;
        /// 2^32 / golden ratio: visits the hashes evenly.
        const STRIDE: u32 = 0x9e37_79b1;
        (0..MAX_ATTEMPTS)
            .map(|i| PathHash(i.wrapping_mul(STRIDE)))
            .find(|&hash| self.0.iter().all(|k| k.selector.number(hash) % k.modulus == k.residue))
    }

    fn of(&self, selector: Selector) -> Congruence {
        let anything = Congruence { selector, modulus: 1, residue: 0 };
        self.0.iter().copied().find(|k| k.selector == selector).unwrap_or(anything)
    }
}

/// Both what is known and `number % size == index`: the Chinese remainder theorem. `None` if no number of
/// the selector's space satisfies both.
fn intersect(known: Congruence, size: u64, index: u64) -> Option<Congruence> {
    let Congruence { selector, modulus, residue } = known;
    let space = selector.cardinality();
    if modulus >= space {
        // The number itself is known.
        return (residue % size == index).then_some(known);
    }
    if modulus == 1 && size <= space {
        // Nothing was known.
        return Some(Congruence { selector, modulus: size, residue: index });
    }
    let modulus_of_both = modulus / gcd(modulus, size) * size;
    let residue =
        (residue..modulus_of_both.min(space)).step_by(modulus as usize).find(|n| n % size == index)?;
    Some(Congruence { selector, modulus: modulus_of_both, residue })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLICE: Selector = Selector::Slice(0);

    fn after(choices: &[(Selector, u64, usize)]) -> Option<HashConstraints> {
        choices.iter().try_fold(HashConstraints::default(), |all, &(selector, size, index)| {
            all.choices(selector, size).find(|(i, _)| *i == index).map(|(_, next)| next)
        })
    }

    #[test]
    fn a_second_choice_is_free_only_as_far_as_the_first_left_it() {
        let four = after(&[(SLICE, 4, 3)]).unwrap();
        assert_eq!(four.indices(SLICE, 2).collect::<Vec<_>>(), [1]);
        assert_eq!(four.indices(SLICE, 8).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(four.indices(SLICE, 3).collect::<Vec<_>>(), [0, 1, 2]);
        // another slice knows nothing of it
        assert_eq!(four.indices(Selector::Slice(8), 2).count(), 2);
        assert_eq!(after(&[(SLICE, 4, 3), (SLICE, 2, 0)]), None);
    }

    #[test]
    fn choices_match_an_exhaustive_enumeration() {
        for (first, second) in [(6, 4), (4, 6), (5, 7), (8, 12), (1, 3), (500, 499)] {
            for index in (0..first).step_by(3) {
                let all = after(&[(SLICE, first, index as usize)]).unwrap();
                let mut seen: Vec<usize> =
                    (0..1 << 16).filter(|n| n % first == index).map(|n| (n % second) as usize).collect();
                seen.sort_unstable();
                seen.dedup();
                assert_eq!(all.indices(SLICE, second).collect::<Vec<_>>(), seen, "{first} {index} {second}");
            }
        }
    }

    #[test]
    fn the_number_itself_is_known_in_the_end() {
        // 499 * 500 > 2^16: at most one number is left, and some pairs of indices have none.
        let exact = after(&[(SLICE, 499, 7), (SLICE, 500, 12)]);
        let number = (0..1u64 << 16).find(|n| n % 499 == 7 && n % 500 == 12);
        assert_eq!(exact.is_some(), number.is_some());
        let sure = after(&[(SLICE, 499, 1), (SLICE, 500, 1)]).unwrap();
        assert_eq!(sure.indices(SLICE, 77).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn an_example_is_one() {
        let all = after(&[(SLICE, 8, 5), (Selector::Slice(8), 8, 2), (Selector::FullHash, 3, 1)]).unwrap();
        let hash = all.witness().unwrap();
        assert_eq!((hash.member(0, 8), hash.member(8, 8), hash.tree(3)), (5, 2, 1));
    }
}
