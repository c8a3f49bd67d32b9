//! Two sides of a fabric, if no two processes of one side are neighbours: in a fat-tree, for example, hosts and aggregation
//! switches are one side, edge and core switches the other.
//!
//! Frames come from the other side only, and take at least the lookahead. So while one side stands still, the other can run
//! from the lookahead before that time to the lookahead after it: twice as long as all processes together can. Whenever a
//! process runs, its tables are brought into the caches, which half as many runs do half as often.

/// Returns the processes of each side, in the order of `all`: of two sides, or of one if neighbours cannot be told apart.
/// `neighbours` has those of each process.
pub(crate) fn bipartition(all: &[u32], neighbours: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut side = vec![None; all.len()];
    for &first in all {
        if side[first as usize].is_some() {
            continue;
        }
        side[first as usize] = Some(false);
        let mut waiting = vec![(first, false)];
        while let Some((next, own)) = waiting.pop() {
            for &there in &neighbours[next as usize] {
                match side[there as usize].replace(!own) {
                    None => waiting.push((there, !own)),
                    Some(known) if known == own => return vec![all.to_vec()],
                    Some(_) => {}
                }
            }
        }
    }
    let (second, first) = all.iter().partition(|&&number| side[number as usize] == Some(true));
    vec![first, second]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locality_order::neighbours;

    #[test]
    fn neighbours_are_on_different_sides() {
        let path = [(3, 1), (1, 0), (0, 2)];
        assert_eq!(bipartition(&[0, 1, 2, 3], &neighbours(4, path.into_iter())), [vec![0, 3], vec![1, 2]]);
        assert_eq!(bipartition(&[3, 2, 1, 0], &neighbours(4, path.into_iter())), [vec![3, 0], vec![2, 1]]);
        let with_triangle = path.into_iter().chain([(3, 0), (2, 2)]);
        assert_eq!(bipartition(&[0, 1, 2, 3], &neighbours(4, with_triangle)), [vec![0, 1, 2, 3]]);
        assert_eq!(bipartition(&[0, 1], &neighbours(2, [].into_iter())), [vec![0, 1], vec![]]);
    }
}
