//! Idle timeouts: finds the entries that no packet has matched for the length of their timeout.

use super::Pipeline;
use super::api_types::{EntryHandle, TableError};
use crate::program::TableId;
use std::time::Duration;

const NS_PER_SECOND: u128 = 1_000_000_000;

impl Pipeline {
    /// Converts a duration to ticks, rounded down.
    pub fn ticks(&self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() * u128::from(self.state.ticks_per_second) / NS_PER_SECOND;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }

    /// Converts ticks to a duration, rounded down to nanoseconds.
    pub fn duration(&self, ticks: u64) -> Duration {
        let ns = u128::from(ticks) * NS_PER_SECOND / u128::from(self.state.ticks_per_second);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }

    /// Returns the entries that have timed out by `now`, in ticks, and restarts their timeouts: an entry that
    /// stays idle is returned again after each further timeout (P4Runtime §16.4).
    pub fn take_timed_out(&mut self, now: u64) -> Vec<(TableId, EntryHandle)> {
        let mut expired = Vec::new();
        for (index, state) in self.state.tables.iter_mut().enumerate() {
            for (entry, (last_hit, info)) in
                state.extras.last_hit.iter().zip(&mut state.extras.entries).enumerate()
            {
                let Some(info) = info else { continue };
                let idle = now.saturating_sub((*last_hit).max(info.timer));
                if info.idle_timeout > 0 && idle >= info.idle_timeout {
                    info.timer = now;
                    expired.push((TableId(index as u16), EntryHandle(entry as u32 - 1)));
                }
            }
        }
        expired
    }

    /// Returns the ticks since an entry was last matched, or since it was added if it never was; `None` if
    /// the table does not support idle timeouts.
    ///
    /// # Errors
    ///
    /// Unknown table or entry.
    pub fn ticks_since_hit(&self, table: TableId, entry: EntryHandle) -> Result<Option<u64>, TableError> {
        let index = self.entry(table, entry)?;
        let state = &self.state.tables[table];
        let last_hit = state.extras.last_hit.get(index as usize);
        Ok(last_hit.map(|last_hit| self.state.now.saturating_sub(*last_hit)))
    }

    /// Restarts all idle timeouts at the current time. Call it before a pipeline with existing entries receives
    /// its first packet.
    pub fn restart_timeouts(&mut self) {
        let now = self.state.now;
        for state in self.state.tables.iter_mut() {
            state.extras.last_hit.fill(now);
            state.extras.entries.iter_mut().flatten().for_each(|info| info.timer = now);
        }
    }
}
