//! Reports entries whose idle timeout has expired.

use super::error::ControlError;
use super::state::Control;
use crate::Switch;
use p4runtime::p4::v1::TableEntry;
use weir_units::Time;

impl Control {
    /// Returns whether any entry has an idle timeout.
    pub fn has_timeouts(&self) -> bool {
        self.entries_with_timeout > 0
    }

    /// Returns the entries that have timed out by `now`, with key, metadata and timeout but without action, as
    /// in P4Runtime's `IdleTimeoutNotification`. Their timeouts restart.
    ///
    /// # Errors
    ///
    /// INTERNAL: the P4Info does not belong to the running program.
    pub fn take_timed_out(&self, switch: &mut Switch, now: Time) -> Result<Vec<TableEntry>, ControlError> {
        let ticks = switch.clock().ticks(now);
        let expired = switch.pipeline_mut().take_timed_out(ticks);
        let entries = expired.into_iter().filter_map(|(table, handle)| {
            let (&id, _) = self.tables.iter().find(|(_, id)| **id == table)?;
            let (info, _) = self.table(id).ok()?;
            let entry = switch.pipeline().table_entry(table, handle).ok()?;
            Some(self.entry(info, &entry).map(|entry| TableEntry { action: None, ..entry }))
        });
        entries.collect()
    }
}
