//! Builds random regular graphs for Jellyfish (Singla et al., NSDI 2012, §3).

use crate::split_mix::SplitMix64;
use petgraph::unionfind::UnionFind;
use std::collections::BTreeSet;

/// Maximum number of graphs tried. At degree 3 and above nearly every one is connected.
const MAX_ATTEMPTS: u64 = 64;

/// Returns the links of a connected graph of `nodes` nodes in which each has `degree` distinct neighbours; if both
/// numbers are odd, one node has one less. Links are sorted. Returns `None` if no such graph was found.
pub(super) fn random_regular(nodes: usize, degree: usize, seed: u64) -> Option<Vec<(usize, usize)>> {
    (0..MAX_ATTEMPTS).find_map(|attempt| {
        let mut random = SplitMix64::new(seed ^ attempt.wrapping_mul(0xd134_2543_de82_ef95));
        try_build(nodes, degree, &mut random).filter(|links| is_connected(nodes, links))
    })
}

/// Links random pairs of nodes with free ports as long as possible. If free ports remain whose nodes cannot be
/// linked, a random link is replaced by two links from its ends to these nodes.
fn try_build(nodes: usize, degree: usize, random: &mut SplitMix64) -> Option<Vec<(usize, usize)>> {
    let mut links: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut free = vec![degree; nodes];
    let pair = |a: usize, b: usize| (a.min(b), a.max(b));
    loop {
        let open: Vec<usize> = (0..nodes).filter(|&node| free[node] > 0).collect();
        let linkable =
            |links: &BTreeSet<(usize, usize)>, a: usize, b: usize| a != b && !links.contains(&pair(a, b));
        // Most random draws succeed. When they fail, few nodes are left, and a full search is cheap.
        let random_pair = (0..open.len()).find_map(|_| {
            let (a, b) = (open[random.below(open.len())], open[random.below(open.len())]);
            linkable(&links, a, b).then_some((a, b))
        });
        let found = random_pair.or_else(|| {
            let all = open.iter().flat_map(|&a| open.iter().map(move |&b| (a, b)));
            all.into_iter().find(|&(a, b)| linkable(&links, a, b))
        });
        if let Some((a, b)) = found {
            links.insert(pair(a, b));
            free[a] -= 1;
            free[b] -= 1;
            continue;
        }
        // What remains is one node with at least two free ports, or nodes that are already neighbours.
        let (a, b) = match open[..] {
            [] => break,
            [last] if free[last] == 1 => break,
            [last] => (last, last),
            [first, second, ..] => (first, second),
        };
        let candidates: Vec<(usize, usize)> = links
            .iter()
            .flat_map(|&(x, y)| [(x, y), (y, x)])
            .filter(|&(x, y)| linkable(&links, a, x) && linkable(&links, b, y))
            .collect();
        if candidates.is_empty() {
            return None;
        }
        let (x, y) = candidates[random.below(candidates.len())];
        links.remove(&pair(x, y));
        links.insert(pair(a, x));
        links.insert(pair(b, y));
        free[a] -= 1;
        free[b] -= 1;
    }
    Some(links.into_iter().collect())
}

fn is_connected(nodes: usize, links: &[(usize, usize)]) -> bool {
    let mut components = UnionFind::<usize>::new(nodes);
    for &(a, b) in links {
        components.union(a, b);
    }
    (1..nodes).all(|node| components.equiv(0, node))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_regular_and_connected() {
        for (nodes, degree) in [(2, 1), (4, 3), (5, 4), (20, 3), (20, 7), (64, 5), (245, 14)] {
            for seed in 1..6 {
                let links = random_regular(nodes, degree, seed).expect("a graph exists");
                let mut count = vec![0; nodes];
                for &(a, b) in &links {
                    assert!(a < b);
                    count[a] += 1;
                    count[b] += 1;
                }
                assert!(count.iter().all(|&n| n == degree), "{nodes} {degree} {count:?}");
                assert!(is_connected(nodes, &links));
            }
        }
    }

    #[test]
    fn an_odd_port_stays_free_and_the_seed_selects_the_graph() {
        let links = random_regular(7, 3, 1).unwrap();
        assert_eq!(links.len(), 10, "21 ports make ten links");
        assert_eq!(random_regular(20, 4, 9), random_regular(20, 4, 9));
        assert_ne!(random_regular(20, 4, 9), random_regular(20, 4, 10));
        assert_eq!(random_regular(4, 1, 1), None, "two pairs are not connected");
    }
}
