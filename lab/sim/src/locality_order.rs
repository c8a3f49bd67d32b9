//! An order of the processes in which neighbours are near each other.
//!
//! Threads that each have a part of it hand over few frames to one another: a frame that another core has written is in no
//! cache of this one.

use std::collections::VecDeque;

/// Returns the neighbours of each process. `links` are pairs of processes.
pub(crate) fn neighbours(count: usize, links: impl Iterator<Item = (u32, u32)>) -> Vec<Vec<u32>> {
    let mut neighbours = vec![Vec::new(); count];
    for (a, b) in links.filter(|(a, b)| a != b) {
        neighbours[a as usize].push(b);
        neighbours[b as usize].push(a);
    }
    neighbours
}

/// Returns the processes as a walk visits them that goes on to a neighbour as long as there is one that it has not visited,
/// those nearest to a host first: a pod of a fat-tree is done before the next one begins.
pub(crate) fn depth_first_order(mut neighbours: Vec<Vec<u32>>, with_hosts: &[u32]) -> Vec<u32> {
    let count = neighbours.len();
    let distance = distances(&neighbours, with_hosts);
    for list in &mut neighbours {
        list.sort_by_key(|&it| (distance[it as usize], it));
    }
    let (mut visited, mut order) = (vec![false; count], Vec::with_capacity(count));
    // The last one is next.
    let mut waiting: Vec<u32> = (0..count as u32).rev().collect();
    while let Some(next) = waiting.pop() {
        if !std::mem::replace(&mut visited[next as usize], true) {
            order.push(next);
            let there = &neighbours[next as usize];
            waiting.extend(there.iter().rev().filter(|it| !visited[**it as usize]));
        }
    }
    order
}

/// Returns the number of links between each process and the nearest of those `from` which they are counted.
fn distances(neighbours: &[Vec<u32>], from: &[u32]) -> Vec<u32> {
    let mut distance = vec![u32::MAX; neighbours.len()];
    from.iter().for_each(|&it| distance[it as usize] = 0);
    let mut waiting: VecDeque<u32> = from.iter().copied().collect();
    while let Some(next) = waiting.pop_front() {
        for &there in &neighbours[next as usize] {
            if distance[there as usize] == u32::MAX {
                distance[there as usize] = distance[next as usize] + 1;
                waiting.push_back(there);
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
