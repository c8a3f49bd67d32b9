//! Sets of path hashes for which all switches make the same choices.
//!
//! A switch uses a hash only as `number % size`, where `number` is the hash itself or a *slice* of it, that is, CRC-16
//! over `hash >> shift`. Hashes with the same remainders, a *residue class*, take the same path. A walk over residue
//! classes therefore covers all 2^32 hashes: each choice constrains the number, and later choices by the same number
//! are limited to the remaining residues.

use crate::hash::PathHash;
use smallvec::SmallVec;

/// The number from which a table selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Selector {
    /// CRC-16 over `hash >> shift` with this shift ([`PathHash::slice`]): selects the member of an ECMP group.
    Slice(u8),
    /// The hash itself: selects the spanning tree.
    FullHash,
}

impl Selector {
    /// Returns the number that the selector derives from a hash.
    fn number(self, hash: PathHash) -> u64 {
        match self {
            Selector::Slice(slice) => hash.slice(slice).into(),
            Selector::FullHash => hash.0.into(),
        }
    }
    /// Returns how many values the number can have.
    fn cardinality(self) -> u64 {
        match self {
            Selector::Slice(_) => 1 << u16::BITS,
            Selector::FullHash => 1 << u32::BITS,
        }
    }
}

/// The constraint `number % modulus == residue` on the number of a selector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Congruence {
    selector: Selector,
    modulus: u64,
    residue: u64,
}

/// Constraints on the path hash that result from the choices on a path so far; empty: any hash. Four are stored inline,
/// enough for a fat-tree, because a proof of the route verifier (`crate::verify`) creates millions of these sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct HashConstraints(SmallVec<[Congruence; 4]>);

impl HashConstraints {
    /// Returns the indices below `size` that the constraints allow, each with the constraints after that choice.
    pub(crate) fn choices(
        &self,
        selector: Selector,
        size: u64,
    ) -> impl Iterator<Item = (usize, HashConstraints)> + '_ {
        let known = self.constraint_on(selector);
        let step = gcd(known.modulus, size);
        (known.residue % step..size).step_by(step as usize).filter_map(move |index| {
            let next = intersect(known, size, index)?;
            let mut all = SmallVec::from_slice(&self.0);
            all.retain(|congruence: &mut Congruence| congruence.selector != selector);
            all.push(next);
            Some((index as usize, HashConstraints(all)))
        })
    }

    /// Returns only the indices of [`choices`](Self::choices).
    pub(crate) fn indices(&self, selector: Selector, size: u64) -> impl Iterator<Item = usize> + use<> {
        let known = self.constraint_on(selector);
        let step = gcd(known.modulus, size);
        (known.residue % step..size)
            .step_by(step as usize)
            .filter(move |&index| intersect(known, size, index).is_some())
            .map(|index| index as usize)
    }

    /// Searches for a hash that satisfies all constraints. There may be none: all numbers derive from the same 32 bits,
    /// and the constraint on each is tracked separately.
    pub(crate) fn witness(&self) -> Option<PathHash> {
        /// Far more than the product of the group sizes on one path.
        const MAX_ATTEMPTS: u32 = 1 << 20;
        /// 2^32 / golden ratio: multiples of it are evenly distributed.
        const STRIDE: u32 = 0x9e37_79b1;
        (0..MAX_ATTEMPTS).map(|i| PathHash(i.wrapping_mul(STRIDE))).find(|&hash| {
            self.0.iter().all(|known| known.selector.number(hash) % known.modulus == known.residue)
        })
    }

    /// Returns the constraint on the number of this selector; modulus 1 if there is none.
    fn constraint_on(&self, selector: Selector) -> Congruence {
        let unconstrained = Congruence { selector, modulus: 1, residue: 0 };
        self.0.iter().copied().find(|known| known.selector == selector).unwrap_or(unconstrained)
    }
}

/// Adds the constraint `number % size == index` by the Chinese remainder theorem. Returns `None` if no number of the
/// selector satisfies both.
fn intersect(known: Congruence, size: u64, index: u64) -> Option<Congruence> {
    let Congruence { selector, modulus, residue } = known;
    let space = selector.cardinality();
    if modulus >= space {
        // The constraints fix the number completely, and the combined modulus could exceed the number space: only
        // check.
        return (residue % size == index).then_some(known);
    }
    if modulus == 1 && size <= space {
        // No constraint on this number so far.
        return Some(Congruence { selector, modulus: size, residue: index });
    }
    // Both factors are at most 2^32, so that the product fits in u64.
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
    fn a_choice_constrains_later_choices_of_the_same_selector() {
        let four = after(&[(SLICE, 4, 3)]).unwrap();
        assert_eq!(four.indices(SLICE, 2).collect::<Vec<_>>(), [1]);
        assert_eq!(four.indices(SLICE, 8).collect::<Vec<_>>(), [3, 7]);
        assert_eq!(four.indices(SLICE, 3).collect::<Vec<_>>(), [0, 1, 2]);
        // Another slice is not constrained.
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
    fn constraints_may_fix_the_number_completely() {
        // 499 * 500 > 2^16: at most one number remains, and some pairs of indices have none.
        let exact = after(&[(SLICE, 499, 7), (SLICE, 500, 12)]);
        let number = (0..1u64 << 16).find(|n| n % 499 == 7 && n % 500 == 12);
        assert_eq!(exact.is_some(), number.is_some());
        let fixed = after(&[(SLICE, 499, 1), (SLICE, 500, 1)]).unwrap();
        assert_eq!(fixed.indices(SLICE, 77).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_witness_satisfies_all_constraints() {
        let all = after(&[(SLICE, 8, 5), (Selector::Slice(8), 8, 2), (Selector::FullHash, 3, 1)]).unwrap();
        let hash = all.witness().unwrap();
        assert_eq!((hash.member(0, 8), hash.member(8, 8), hash.tree(3)), (5, 2, 1));
    }
}
