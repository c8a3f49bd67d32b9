//! Splits the logical processes of a fabric ([`crate::network`]) into two sides such that no two processes of one side
//! are neighbours. In a fat-tree, for example, hosts and aggregation switches are one side, edge and core switches the
//! other.
//!
//! A process receives frames only from the other side, after at least the lookahead. While one side stands at time t,
//! the other side can therefore run from t - lookahead to t + lookahead, a window twice as long as without sides.
//! Each process then runs half as often, and its tables are loaded into the cache half as often.

/// Returns the processes of each side, in the order of `all`. The result is a single side if the graph, given by the
/// `neighbours` of each process, is not bipartite.
pub(crate) fn bipartition(all: &[u32], neighbours: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let mut side = vec![None; all.len()];
    for &first in all {
        if side[first as usize].is_some() {
            continue;
        }
        side[first as usize] = Some(false);
        let mut waiting = vec![(first, false)];
        while let Some((next, own)) = waiting.pop() {
            for &neighbour in &neighbours[next as usize] {
                match side[neighbour as usize].replace(!own) {
                    None => waiting.push((neighbour, !own)),
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
