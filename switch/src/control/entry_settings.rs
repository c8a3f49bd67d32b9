//! What an entry has besides match and action: direct resources, timeout and metadata.

use super::error::ControlError;
use super::externs::{counter_value, meter_rates};
use super::state::{Control, EntryExtras, EntryRef, OneShot};
use crate::Switch;
use crate::pipeline::{CounterValue, EntryHandle, MeterRates, TableError};
use crate::program::TableId;
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::table::IdleTimeoutBehavior;
use p4runtime::p4::config::v1::{DirectMeter, Table};
use p4runtime::p4::v1::TableEntry;
use p4runtime::p4info::Object;
use weir_units::Time;

/// Maximum length of the metadata of an entry in bytes. It bounds the memory, since every entry can have metadata.
const MAX_METADATA_LEN: usize = 4 << 10;

/// The direct resources (counter and meter of the entry) and the timeout of a table write, validated.
pub(super) struct EntrySettings {
    /// `None` leaves the counter unchanged.
    counter: Option<CounterValue>,
    /// `None` if the table has no direct meter; `Some(None)` resets the rates.
    meter: Option<Option<MeterRates>>,
    /// `None` if the table has no idle timeouts; 0 disables the timeout.
    timeout_ticks: Option<u64>,
}

impl Control {
    /// Validates the direct resources and the timeout of a table write.
    pub(super) fn entry_settings(
        &self,
        switch: &Switch,
        table: &Table,
        entry: &TableEntry,
    ) -> Result<EntrySettings, ControlError> {
        let name = &table.preamble().name;
        if entry.meter_counter_data.is_some() {
            return Err(ControlError::unimplemented("meters do not count their colours"));
        }
        let counter = entry.counter_data.as_ref().map(counter_value).transpose()?;
        if counter.is_some() && !self.has_direct_counter(table) {
            return Err(ControlError::invalid(format!("table {name} has no direct counter")));
        }
        let meter = match (self.direct_meter(table), &entry.meter_config) {
            (None, Some(_)) => {
                return Err(ControlError::invalid(format!("table {name} has no direct meter")));
            }
            (None, None) => None,
            (Some(_), None) => Some(None),
            (Some(meter), Some(config)) => Some(Some(meter_rates(meter.spec.as_ref(), config)?)),
        };
        Ok(EntrySettings { counter, meter, timeout_ticks: idle_ticks(switch, table, entry)? })
    }

    pub(super) fn has_direct_counter(&self, table: &Table) -> bool {
        table.direct_resource_ids.iter().any(|&id| self.index.direct_counters.id(id).is_some())
    }

    pub(super) fn direct_meter(&self, table: &Table) -> Option<&DirectMeter> {
        table.direct_resource_ids.iter().find_map(|&id| self.index.direct_meters.id(id))
    }

    pub(super) fn store_extras(
        &mut self,
        entry_ref: EntryRef,
        entry: &TableEntry,
        one_shot: Option<OneShot>,
    ) {
        #[allow(deprecated)] // older clients still use it
        let controller_metadata = entry.controller_metadata;
        let (metadata, idle_timeout_ns) = (entry.metadata.clone(), entry.idle_timeout_ns);
        let extras = EntryExtras { controller_metadata, metadata, idle_timeout_ns, one_shot };
        self.replace_extras(entry_ref, Some(extras).filter(|extras| *extras != EntryExtras::default()));
    }

    /// Replaces the attributes of an entry; `None` removes them. Returns the previous ones.
    pub(super) fn replace_extras(
        &mut self,
        entry_ref: EntryRef,
        extras: Option<EntryExtras>,
    ) -> Option<EntryExtras> {
        let count_timeout = |extras: &Option<EntryExtras>| {
            usize::from(extras.as_ref().is_some_and(|extras| extras.idle_timeout_ns > 0))
        };
        self.entries_with_timeout += count_timeout(&extras);
        let previous = match extras {
            Some(extras) => self.entry_extras.insert(entry_ref, extras),
            None => self.entry_extras.remove(&entry_ref),
        };
        self.entries_with_timeout -= count_timeout(&previous);
        previous
    }
}

/// Checks the length of the metadata.
pub(super) fn check_metadata(entry: &TableEntry) -> Result<(), ControlError> {
    match entry.metadata.len() {
        ..=MAX_METADATA_LEN => Ok(()),
        len => {
            let message = format!("metadata of {len} bytes exceeds the limit of {MAX_METADATA_LEN}");
            Err(ControlError::new(Code::ResourceExhausted, message))
        }
    }
}

/// Writes the direct resources and the timeout of an entry.
pub(super) fn apply_settings(
    switch: &mut Switch,
    (id, handle): (TableId, EntryHandle),
    settings: EntrySettings,
) -> Result<(), TableError> {
    let pipeline = switch.pipeline_mut();
    if let Some(value) = settings.counter {
        pipeline.direct_counter_write(id, handle, value)?;
    }
    if let Some(rates) = settings.meter {
        pipeline.direct_meter_set_rates(id, handle, rates)?;
    }
    if let Some(ticks) = settings.timeout_ticks {
        pipeline.table_set_timeout(id, handle, ticks)?;
    }
    Ok(())
}

/// Returns the timeout in the switch's ticks, at least one, since 0 disables the timeout in the pipeline; `None` if the
/// table has no idle timeouts.
fn idle_ticks(switch: &Switch, table: &Table, entry: &TableEntry) -> Result<Option<u64>, ControlError> {
    if entry.time_since_last_hit.is_some() {
        return Err(ControlError::invalid("time_since_last_hit cannot be written"));
    }
    /// The largest `Time`, about 213 days; longer timeouts are shortened to it.
    const MAX_TIMEOUT_NS: u64 = Time::MAX.as_ns();
    let is_supported = table.idle_timeout_behavior() == IdleTimeoutBehavior::NotifyControl;
    let ns = u64::try_from(entry.idle_timeout_ns)
        .map_err(|_| ControlError::invalid("idle_timeout_ns is negative"))?;
    match (is_supported, ns) {
        (false, 0) => Ok(None),
        (false, _) => {
            Err(ControlError::invalid(format!("table {} has no idle timeout", table.preamble().name)))
        }
        (true, 0) => Ok(Some(0)),
        (true, ns) => Ok(Some(switch.clock().ticks(Time::from_ns(ns.min(MAX_TIMEOUT_NS))).max(1))),
    }
}
