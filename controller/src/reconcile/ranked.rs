//! Writes the differences of several switches in the order of ranks.

use super::diff::{Diff, Step};
use p4runtime::p4::v1::Update;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// The updates of several switches, to be written in the order of their ranks, so that no packet loops during the
/// rollout. The caller requests the next rank when all switches have written the previous one. `K` identifies a switch.
#[derive(Clone, Debug)]
pub struct RankedUpdates<K> {
    /// Remaining updates of each switch, in ascending order of rank.
    remaining: BTreeMap<K, VecDeque<Step>>,
}

impl<K: Ord + Clone> RankedUpdates<K> {
    pub fn new(differences: impl IntoIterator<Item = (K, Diff)>) -> RankedUpdates<K> {
        let steps = differences.into_iter().map(|(key, difference)| (key, VecDeque::from(difference.steps)));
        RankedUpdates { remaining: steps.collect() }
    }

    /// Removes and returns the updates of the lowest remaining rank, by switch. Returns `None` if no updates remain.
    pub fn next_rank(&mut self) -> Option<BTreeMap<K, Vec<Update>>> {
        let rank = self.remaining.values().filter_map(|steps| steps.front()).map(|step| step.rank).min()?;
        let mut due = BTreeMap::new();
        for (key, steps) in &mut self.remaining {
            let count = steps.partition_point(|step| step.rank <= rank);
            if count > 0 {
                due.insert(key.clone(), steps.drain(..count).map(|step| step.update).collect());
            }
        }
        Some(due)
    }

    /// Discards the remaining updates of a switch that failed to write its last ones.
    pub fn abandon(&mut self, key: &K) {
        self.remaining.remove(key);
    }

    /// Discards all remaining updates and returns the switches that had some.
    pub fn take_unfinished(&mut self) -> BTreeSet<K> {
        let remaining = std::mem::take(&mut self.remaining);
        remaining.into_iter().filter(|(_, steps)| !steps.is_empty()).map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(ranks: &[u32]) -> Diff {
        let steps = ranks.iter().map(|&rank| Step { rank, update: Update::default() }).collect();
        Diff { steps, unchanged: 0 }
    }

    #[test]
    fn a_rank_follows_the_lower_ranks_of_all_switches() {
        let mut ranked = RankedUpdates::new([("s1", difference(&[1, 1, 3])), ("s2", difference(&[2, 3]))]);
        let mut next = || {
            let due = ranked.next_rank()?;
            Some(due.into_iter().map(|(key, updates)| (key, updates.len())).collect::<Vec<_>>())
        };
        assert_eq!(next(), Some(vec![("s1", 2)]));
        assert_eq!(next(), Some(vec![("s2", 1)]));
        assert_eq!(next(), Some(vec![("s1", 1), ("s2", 1)]));
        assert_eq!(next(), None);
    }

    #[test]
    fn an_abandoned_switch_receives_no_more_updates() {
        let mut ranked = RankedUpdates::new([("s1", difference(&[1, 2])), ("s2", difference(&[3]))]);
        assert!(ranked.next_rank().is_some_and(|due| due.contains_key("s1")));
        ranked.abandon(&"s1");
        assert!(ranked.next_rank().is_some_and(|due| due.contains_key("s2")));
        assert!(ranked.next_rank().is_none());
    }
}
