//! Writes and reads counters, meters and registers: the cells (elements) of indexed arrays, and direct resources, which
//! belong to one table entry each.

use super::error::ControlError;
use super::page::ReadPage;
use super::state::Control;
use super::value::to_width;
use super::widths::register_bits;
use crate::Switch;
use crate::pipeline::{CounterValue, MeterRates};
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::MeterSpec;
use p4runtime::p4::config::v1::meter_spec::Type as MeterType;
use p4runtime::p4::v1::p4_data::Data;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{
    CounterData, CounterEntry, DirectCounterEntry, DirectMeterEntry, Index, MeterConfig, MeterEntry, P4Data,
    RegisterEntry, TableEntry,
};
use p4runtime::p4info::{self, Object};
use p4runtime::value::canonical;

fn require_modify(kind: Type, what: &str) -> Result<(), ControlError> {
    match kind {
        Type::Modify => Ok(()),
        _ => Err(ControlError::invalid(format!("{what} can only be modified"))),
    }
}

/// Returns the object with this id, or all objects for 0.
///
/// # Errors
///
/// Unknown id.
pub(super) fn objects_by_id<T: Object>(
    objects: &p4info::Objects<T>,
    id: u32,
) -> Result<Vec<&T>, ControlError> {
    match id {
        0 => Ok(objects.iter().collect()),
        id => object_by_id(objects, id).map(|object| vec![object]),
    }
}

pub(super) fn object_by_id<T: Object>(objects: &p4info::Objects<T>, id: u32) -> Result<&T, ControlError> {
    objects.id(id).ok_or_else(|| ControlError::invalid(format!("there is no {} {id:#010x}", T::KIND)))
}

/// Returns the range of selected cells: one, or all if there is no index. `name` and `size` are those of the array.
fn cells(index: Option<&Index>, name: &str, size: usize) -> Result<std::ops::Range<usize>, ControlError> {
    let Some(&Index { index }) = index else { return Ok(0..size) };
    let cell = usize::try_from(index)
        .map_err(|_| ControlError::invalid(format!("{name}: index {index} is negative")))?;
    if cell >= size {
        let message = format!("{name}: index {index} is out of range (size {size})");
        return Err(ControlError::new(Code::OutOfRange, message));
    }
    Ok(cell..cell + 1)
}

/// Returns the cells of the range that are in the page.
fn page_cells(cells: std::ops::Range<usize>, page: &mut ReadPage) -> std::ops::Range<usize> {
    let rows = page.take_rows(cells.len());
    cells.start + rows.start..cells.start + rows.end
}

fn index(cell: usize) -> Option<Index> {
    Some(Index { index: cell as i64 })
}

// Counters

/// Converts a number of a signed field, which must not be negative.
fn unsigned(field: &str, value: i64) -> Result<u64, ControlError> {
    u64::try_from(value).map_err(|_| ControlError::invalid(format!("{field} {value} is negative")))
}

/// Converts a counter value from P4Runtime, and rejects negative numbers.
pub(super) fn counter_value(data: &CounterData) -> Result<CounterValue, ControlError> {
    Ok(CounterValue {
        packets: unsigned("packet_count", data.packet_count)?,
        bytes: unsigned("byte_count", data.byte_count)?,
    })
}

pub(super) fn counter_data(value: CounterValue) -> CounterData {
    // Counters are unsigned 64-bit numbers, but P4Runtime's fields are signed: larger values saturate.
    let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    CounterData { packet_count: count(value.packets), byte_count: count(value.bytes) }
}

impl Control {
    pub(super) fn write_counter(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &CounterEntry,
    ) -> Result<(), ControlError> {
        require_modify(kind, "a counter")?;
        let name = &object_by_id(&self.index.counters, entry.counter_id)?.preamble().name;
        let cells = cells(entry.index.as_ref(), name, switch.pipeline().counter_size(name)?)?;
        // A write without data changes nothing, but its ids and its index are checked.
        let Some(data) = &entry.data else { return Ok(()) };
        let value = counter_value(data)?;
        for cell in cells {
            switch.pipeline_mut().counter_write(name, cell, value)?;
        }
        Ok(())
    }

    pub(super) fn read_counters(
        &self,
        switch: &Switch,
        request: &CounterEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<CounterEntry>, ControlError> {
        let mut found = Vec::new();
        for counter in objects_by_id(&self.index.counters, request.counter_id)? {
            let preamble = counter.preamble();
            let size = switch.pipeline().counter_size(&preamble.name)?;
            for cell in page_cells(cells(request.index.as_ref(), &preamble.name, size)?, page) {
                let data = Some(counter_data(switch.pipeline().counter_read(&preamble.name, cell)?));
                found.push(CounterEntry { counter_id: preamble.id, index: index(cell), data });
            }
        }
        Ok(found)
    }

    pub(super) fn write_direct_counter(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &DirectCounterEntry,
    ) -> Result<(), ControlError> {
        require_modify(kind, "a direct counter")?;
        let target = direct_target(entry.table_entry.as_ref())?;
        self.require_direct_counter(target)?;
        let (table, handle) = self.find(switch, target)?;
        // A write without data changes nothing, but its ids and its index are checked.
        let Some(data) = &entry.data else { return Ok(()) };
        Ok(switch.pipeline_mut().direct_counter_write(table, handle, counter_value(data)?)?)
    }

    pub(super) fn read_direct_counters(
        &self,
        switch: &Switch,
        request: &DirectCounterEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<DirectCounterEntry>, ControlError> {
        let target = direct_target(request.table_entry.as_ref())?;
        if target.table_id != 0 {
            self.require_direct_counter(target)?;
        }
        let with_counters = TableEntry { counter_data: Some(CounterData::default()), ..target.clone() };
        let entries = self.direct_resource_entries(switch, target, &with_counters, page)?;
        let counters = entries.into_iter().filter_map(|mut entry| {
            let data = Some(entry.counter_data.take()?);
            Some(DirectCounterEntry { table_entry: Some(key_of(entry)), data })
        });
        Ok(counters.collect())
    }

    fn require_direct_counter(&self, target: &TableEntry) -> Result<(), ControlError> {
        let (table, _) = self.table(target.table_id)?;
        match self.has_direct_counter(table) {
            true => Ok(()),
            false => {
                Err(ControlError::invalid(format!("table {} has no direct counter", table.preamble().name)))
            }
        }
    }

    /// Returns the entries of `target`'s table that a request for direct resources selects.
    ///
    /// # Errors
    ///
    /// `target` has a match, but no such entry exists.
    fn direct_resource_entries(
        &self,
        switch: &Switch,
        target: &TableEntry,
        request: &TableEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<TableEntry>, ControlError> {
        if !target.r#match.is_empty() {
            self.find(switch, target)?;
        }
        self.read_table_entries(switch, request, page)
    }
}

/// Returns the table entry that a request for a direct resource refers to.
fn direct_target(entry: Option<&TableEntry>) -> Result<&TableEntry, ControlError> {
    let entry = entry.ok_or_else(|| ControlError::invalid("table_entry is missing"))?;
    match entry.is_default_action {
        true => Err(ControlError::unimplemented("direct resources of a default action are not supported")),
        false => Ok(entry),
    }
}

/// Returns the match and priority of an entry, without action and attributes.
fn key_of(entry: TableEntry) -> TableEntry {
    let TableEntry { table_id, r#match, priority, .. } = entry;
    TableEntry { table_id, r#match, priority, ..TableEntry::default() }
}

// Meters

pub(super) fn meter_rates(
    spec: Option<&MeterSpec>,
    config: &MeterConfig,
) -> Result<MeterRates, ControlError> {
    let kind = spec.map_or(MeterType::TwoRateThreeColor, MeterSpec::r#type);
    if kind == MeterType::SingleRateThreeColor {
        return Err(ControlError::unimplemented("single-rate three-colour meters are not supported"));
    }
    if config.eburst != 0 {
        return Err(ControlError::invalid("eburst belongs to single-rate three-colour meters"));
    }
    if kind == MeterType::SingleRateTwoColor && (config.pir, config.pburst) != (config.cir, config.cburst) {
        return Err(ControlError::invalid("a single-rate meter has pir = cir and pburst = cburst"));
    }
    if config.pir < config.cir {
        return Err(ControlError::invalid(format!("pir {} is below cir {}", config.pir, config.cir)));
    }
    Ok(MeterRates {
        cir: unsigned("cir", config.cir)?,
        cburst: unsigned("cburst", config.cburst)?,
        pir: unsigned("pir", config.pir)?,
        pburst: unsigned("pburst", config.pburst)?,
    })
}

pub(super) fn meter_config(rates: MeterRates) -> MeterConfig {
    // Larger rates saturate, as counters do.
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    MeterConfig {
        cir: signed(rates.cir),
        cburst: signed(rates.cburst),
        pir: signed(rates.pir),
        pburst: signed(rates.pburst),
        eburst: 0,
    }
}

fn reject_color_counters(requested: bool) -> Result<(), ControlError> {
    match requested {
        true => Err(ControlError::unimplemented("meters do not count their colours")),
        false => Ok(()),
    }
}

impl Control {
    pub(super) fn write_meter(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &MeterEntry,
    ) -> Result<(), ControlError> {
        require_modify(kind, "a meter")?;
        reject_color_counters(entry.counter_data.is_some())?;
        let meter = object_by_id(&self.index.meters, entry.meter_id)?;
        let name = &meter.preamble().name;
        let cells = cells(entry.index.as_ref(), name, switch.pipeline().meter_size(name)?)?;
        let rates =
            entry.config.as_ref().map(|config| meter_rates(meter.spec.as_ref(), config)).transpose()?;
        for cell in cells {
            switch.pipeline_mut().meter_set_rates(name, cell, rates)?;
        }
        Ok(())
    }

    pub(super) fn read_meters(
        &self,
        switch: &Switch,
        request: &MeterEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<MeterEntry>, ControlError> {
        reject_color_counters(request.counter_data.is_some())?;
        let mut found = Vec::new();
        for meter in objects_by_id(&self.index.meters, request.meter_id)? {
            let preamble = meter.preamble();
            let size = switch.pipeline().meter_size(&preamble.name)?;
            for cell in page_cells(cells(request.index.as_ref(), &preamble.name, size)?, page) {
                let config = switch.pipeline().meter_rates(&preamble.name, cell)?.map(meter_config);
                found.push(MeterEntry {
                    meter_id: preamble.id,
                    index: index(cell),
                    config,
                    counter_data: None,
                });
            }
        }
        Ok(found)
    }

    pub(super) fn write_direct_meter(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &DirectMeterEntry,
    ) -> Result<(), ControlError> {
        require_modify(kind, "a direct meter")?;
        reject_color_counters(entry.counter_data.is_some())?;
        let target = direct_target(entry.table_entry.as_ref())?;
        let (table, _) = self.table(target.table_id)?;
        let no_meter =
            || ControlError::invalid(format!("table {} has no direct meter", table.preamble().name));
        let spec = self.direct_meter(table).ok_or_else(no_meter)?.spec.as_ref();
        let rates = entry.config.as_ref().map(|config| meter_rates(spec, config)).transpose()?;
        let (table, handle) = self.find(switch, target)?;
        Ok(switch.pipeline_mut().direct_meter_set_rates(table, handle, rates)?)
    }

    pub(super) fn read_direct_meters(
        &self,
        switch: &Switch,
        request: &DirectMeterEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<DirectMeterEntry>, ControlError> {
        reject_color_counters(request.counter_data.is_some())?;
        let target = direct_target(request.table_entry.as_ref())?;
        let has_meter = |id: u32| self.table(id).is_ok_and(|(table, _)| self.direct_meter(table).is_some());
        if target.table_id != 0 && !has_meter(target.table_id) {
            let (table, _) = self.table(target.table_id)?;
            return Err(ControlError::invalid(format!(
                "table {} has no direct meter",
                table.preamble().name
            )));
        }
        let with_meters = TableEntry { meter_config: Some(MeterConfig::default()), ..target.clone() };
        let entries = self.direct_resource_entries(switch, target, &with_meters, page)?;
        let meters = entries.into_iter().filter(|entry| has_meter(entry.table_id)).map(|mut entry| {
            let config = entry.meter_config.take();
            DirectMeterEntry { table_entry: Some(key_of(entry)), config, counter_data: None }
        });
        Ok(meters.collect())
    }
}

// Registers

impl Control {
    pub(super) fn write_register(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &RegisterEntry,
    ) -> Result<(), ControlError> {
        require_modify(kind, "a register")?;
        let register = object_by_id(&self.index.registers, entry.register_id)?;
        let name = &register.preamble().name;
        let (size, _) = switch.pipeline().register_info(name)?;
        let cells = cells(entry.index.as_ref(), name, size)?;
        let bits = register_bits(register)?;
        let value = match entry.data.as_ref().and_then(|data| data.data.as_ref()) {
            Some(Data::Bitstring(value)) => to_width(value, bits).map_err(|e| e.context(name))?,
            _ => {
                return Err(ControlError::invalid(format!(
                    "{name}: the data must be a bit string of {bits} bits"
                )));
            }
        };
        for cell in cells {
            switch.pipeline_mut().register_write(name, cell, &value)?;
        }
        Ok(())
    }

    pub(super) fn read_registers(
        &self,
        switch: &Switch,
        request: &RegisterEntry,
        page: &mut ReadPage,
    ) -> Result<Vec<RegisterEntry>, ControlError> {
        let mut found = Vec::new();
        for register in objects_by_id(&self.index.registers, request.register_id)? {
            let preamble = register.preamble();
            let (size, _) = switch.pipeline().register_info(&preamble.name)?;
            for cell in page_cells(cells(request.index.as_ref(), &preamble.name, size)?, page) {
                let value = canonical(&switch.pipeline().register_read(&preamble.name, cell)?);
                let data = Some(P4Data { data: Some(Data::Bitstring(value)) });
                found.push(RegisterEntry { register_id: preamble.id, index: index(cell), data });
            }
        }
        Ok(found)
    }
}
