//! Orders the logical processes of a fabric such that neighbours are near each other.
//!
//! Threads that run contiguous parts of this order exchange few frames. A frame from another thread costs a cache
//! miss, because another core has written it.

use std::collections::VecDeque;

/// Returns the neighbours of each of `count` processes. `links` are pairs of processes; links within a process are
/// ignored.
pub(crate) fn neighbours(count: usize, links: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let mut neighbours = vec![Vec::new(); count];
    for (a, b) in links.filter(|(a, b)| a != b) {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    neighbours
}

/// Returns the processes in depth-first order, where neighbours with the least distance to a host are visited first.
/// In a fat-tree this visits one pod after the other.
pub(crate) fn depth_first_order(mut neighbours: Vec<Vec<u32>>, with_hosts: &[u32]) -> Vec<u32> {
    let count = neighbours.len();
    let distance = distances(&neighbours, with_hosts);
    for list in &mut neighbours {
        list.sort_by_key(|&number| (distance[number as usize], number));
    }
    let (mut visited, mut order) = (vec![false; count], Vec::with_capacity(count));
    // A stack: the last element is visited next.
    let mut waiting: Vec<u32> = (0..count as u32).rev().collect();
    while let Some(next) = waiting.pop() {
        if !std::mem::replace(&mut visited[next as usize], true) {
            order.push(next);
            let list = &neighbours[next as usize];
            waiting.extend(list.iter().rev().filter(|number| !visited[**number as usize]));
        }
    }
    order
}

/// Returns the number of links between each process and the nearest process in `from`.
fn distances(neighbours: &[Vec<u32>], from: &[u32]) -> Vec<u32> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    from.iter().for_each(|&process| distance[process as usize] = 0);
    let mut waiting: VecDeque<u32> = from.iter().copied().collect();
    while let Some(next) = waiting.pop_front() {
        for &neighbour in &neighbours[next as usize] {
            if distance[neighbour as usize] == u32::MAX {
                distance[neighbour as usize] = distance[next as usize] + 1;
                waiting.push_back(neighbour);
            }
        }
    }
    distance
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two spines, three leaves with two hosts each: every leaf is next to its hosts.
    #[test]
    fn a_leaf_is_followed_by_its_hosts() {
        let leaves = [2, 3, 4];
        let up = leaves.into_iter().flat_map(|leaf| [(leaf, 0), (leaf, 1)]);
        let down = leaves.into_iter().flat_map(|leaf| [(leaf, 2 * leaf + 1), (leaf, 2 * leaf + 2)]);
        let hosts: Vec<u32> = (5..11).collect();
        let order = depth_first_order(neighbours(12, up.chain(down)), &hosts);
        assert_eq!(order, [0, 2, 5, 6, 1, 3, 7, 8, 4, 9, 10, 11]);
    }
}
