//! The flow size classes of `observe.size_classes`. A class has the flows above one bound and up to the next; the last has
//! no upper bound. Without bounds there is one class, of all flows.

use weir_units::Bytes;

/// Returns the bounds of all classes in ascending order: exclusive lower bound and inclusive upper bound.
pub fn ranges(bounds: &[Bytes]) -> impl Iterator<Item = (Bytes, Option<Bytes>)> {
    let lower = [Bytes::ZERO].into_iter().chain(bounds.iter().copied());
    lower.zip(bounds.iter().copied().map(Some).chain([None]))
}

/// Returns the index of the class of a flow of this size.
pub fn class_of(size: Bytes, bounds: &[Bytes]) -> usize {
    bounds.partition_point(|&bound| bound < size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_in_the_range_of_its_class_and_in_no_other() {
        let bounds = [2_000, 4_000, 8_000].map(Bytes::new);
        for size in [1, 1_999, 2_000, 2_001, 4_000, 4_001, 8_000, 8_001, 1 << 40].map(Bytes::new) {
            let containing_ranges: Vec<usize> = ranges(&bounds)
                .enumerate()
                .filter(|(_, (over, upto))| size > *over && upto.is_none_or(|upto| size <= upto))
                .map(|(class, _)| class)
                .collect();
            assert_eq!(containing_ranges, [class_of(size, &bounds)], "{size}");
        }
        assert_eq!(ranges(&[]).collect::<Vec<_>>(), [(Bytes::ZERO, None)]);
        assert_eq!(class_of(Bytes::new(7), &[]), 0);
    }
}
