//! Runtime API of registers, counters, meters and parser value sets.

use super::api_types::{CounterValue, EntryHandle, MeterRates, TableError};
use super::meter::Meter;
use super::table_api::{index_by_name, unknown_table};
use super::{Pipeline, values};
use crate::program::{ExternArray, RegisterArray, TableId, limbs};
use std::ops::Range;

fn array(arrays: &[ExternArray], kind: &'static str, name: &str) -> Result<usize, TableError> {
    index_by_name(arrays.iter().map(|array| array.name.as_str()), kind, name)
}

fn out_of_bounds(kind: &str, name: &str, index: usize, size: usize) -> TableError {
    TableError::OutOfBounds { object: format!("{kind} {name}"), index, size }
}

impl Pipeline {
    fn register(&self, name: &str) -> Result<&RegisterArray, TableError> {
        let registers = &self.program.registers;
        let names = registers.iter().map(|array| array.name.as_str());
        Ok(&registers[index_by_name(names, "register array", name)?])
    }

    /// Returns the number of cells of a register array and the width of a cell in bits.
    ///
    /// # Errors
    ///
    /// Unknown register array.
    pub fn register_info(&self, register: &str) -> Result<(usize, u32), TableError> {
        self.register(register).map(|array| (array.size, array.bits))
    }

    fn register_cell(&self, register: &str, index: usize) -> Result<(Range<usize>, u32), TableError> {
        let array = self.register(register)?;
        let outside = || out_of_bounds("register array", register, index, array.size);
        Ok((array.cell(index as u64).ok_or_else(outside)?, array.bits))
    }

    /// Returns the value of a register cell, big-endian.
    ///
    /// # Errors
    ///
    /// Unknown register array, or the index is out of range.
    pub fn register_read(&self, register: &str, index: usize) -> Result<Vec<u8>, TableError> {
        let (cell, bits) = self.register_cell(register, index)?;
        Ok(values::to_bytes(&self.state.registers[cell], bits))
    }

    /// Sets a register cell.
    ///
    /// # Errors
    ///
    /// Unknown register array, the index is out of range, or the value is too wide.
    pub fn register_write(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), TableError> {
        let (cell, bits) = self.register_cell(register, index)?;
        let value = values::to_limbs(value, bits, || format!("register {register}"))?;
        self.state.registers[cell].copy_from_slice(&value);
        Ok(())
    }

    fn counter_cell(&mut self, counter: &str, index: usize) -> Result<&mut CounterValue, TableError> {
        let number = array(&self.program.counters, "counter array", counter)?;
        let cells = &mut self.state.counters[number];
        let size = cells.len();
        cells.get_mut(index).ok_or_else(|| out_of_bounds("counter array", counter, index, size))
    }

    /// Returns the number of cells of a counter array.
    ///
    /// # Errors
    ///
    /// Unknown counter array.
    pub fn counter_size(&self, counter: &str) -> Result<usize, TableError> {
        Ok(self.state.counters[array(&self.program.counters, "counter array", counter)?].len())
    }

    /// Returns the value of a counter cell.
    ///
    /// # Errors
    ///
    /// Unknown counter array, or the index is out of range.
    pub fn counter_read(&self, counter: &str, index: usize) -> Result<CounterValue, TableError> {
        let cells = &self.state.counters[array(&self.program.counters, "counter array", counter)?];
        let outside = || out_of_bounds("counter array", counter, index, cells.len());
        cells.get(index).copied().ok_or_else(outside)
    }

    /// Sets a counter cell.
    ///
    /// # Errors
    ///
    /// Unknown counter array, or the index is out of range.
    pub fn counter_write(
        &mut self,
        counter: &str,
        index: usize,
        value: CounterValue,
    ) -> Result<(), TableError> {
        *self.counter_cell(counter, index)? = value;
        Ok(())
    }

    fn direct_cell<V>(
        &self,
        table: TableId,
        entry: EntryHandle,
        what: &str,
        cells: &[V],
    ) -> Result<usize, TableError> {
        let number = self.entry(table, entry)? as usize;
        if number >= cells.len() {
            let name = self.program.table_name(table);
            return Err(TableError::Invalid(format!("table {name} has no direct {what}")));
        }
        Ok(number)
    }

    fn table_index(&self, table: TableId) -> Result<usize, TableError> {
        match usize::from(table.0) {
            index if index < self.state.tables.len() => Ok(index),
            index => Err(unknown_table(index)),
        }
    }

    /// Returns the direct counter of an entry.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, or the table has no direct counter.
    pub fn direct_counter_read(
        &self,
        table: TableId,
        entry: EntryHandle,
    ) -> Result<CounterValue, TableError> {
        let cells = &self.state.tables[self.table_index(table)?].extras.counters;
        Ok(cells[self.direct_cell(table, entry, "counter", cells)?])
    }

    /// Sets the direct counter of an entry.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, or the table has no direct counter.
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        value: CounterValue,
    ) -> Result<(), TableError> {
        let index = self.table_index(table)?;
        let number = self.direct_cell(table, entry, "counter", &self.state.tables[index].extras.counters)?;
        self.state.tables[index].extras.counters[number] = value;
        Ok(())
    }

    fn meter(&self, meter: &str, index: usize) -> Result<(usize, &Meter), TableError> {
        let number = array(&self.program.meters, "meter array", meter)?;
        let cells = &self.state.meters[number];
        let outside = || out_of_bounds("meter array", meter, index, cells.len());
        Ok((number, cells.get(index).ok_or_else(outside)?))
    }

    /// Returns the number of cells of a meter array.
    ///
    /// # Errors
    ///
    /// Unknown meter array.
    pub fn meter_size(&self, meter: &str) -> Result<usize, TableError> {
        Ok(self.state.meters[array(&self.program.meters, "meter array", meter)?].len())
    }

    /// Returns the rates of a meter cell; `None` if no rates are set, so that every packet is green.
    ///
    /// # Errors
    ///
    /// Unknown meter array, or the index is out of range.
    pub fn meter_rates(&self, meter: &str, index: usize) -> Result<Option<MeterRates>, TableError> {
        Ok(self.meter(meter, index)?.1.rates())
    }

    /// Sets the rates of a meter cell and fills its buckets; `None` makes every packet green.
    ///
    /// # Errors
    ///
    /// Unknown meter array, the index is out of range, or the rates are invalid.
    pub fn meter_set_rates(
        &mut self,
        meter: &str,
        index: usize,
        rates: Option<MeterRates>,
    ) -> Result<(), TableError> {
        let (number, _) = self.meter(meter, index)?;
        check_rates(rates)?;
        self.state.meters[number][index].set_rates(rates, self.state.ticks_per_second);
        Ok(())
    }

    /// Returns the rates of an entry's direct meter; `None` if no rates are set.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, or the table has no direct meter.
    pub fn direct_meter_rates(
        &self,
        table: TableId,
        entry: EntryHandle,
    ) -> Result<Option<MeterRates>, TableError> {
        let cells = &self.state.tables[self.table_index(table)?].extras.meters;
        Ok(cells[self.direct_cell(table, entry, "meter", cells)?].rates())
    }

    /// Sets the rates of an entry's direct meter and fills its buckets.
    ///
    /// # Errors
    ///
    /// Unknown table or entry, the table has no direct meter, or the rates are invalid.
    pub fn direct_meter_set_rates(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        rates: Option<MeterRates>,
    ) -> Result<(), TableError> {
        let index = self.table_index(table)?;
        let number = self.direct_cell(table, entry, "meter", &self.state.tables[index].extras.meters)?;
        check_rates(rates)?;
        self.state.tables[index].extras.meters[number].set_rates(rates, self.state.ticks_per_second);
        Ok(())
    }

    fn value_set(&self, set: &str) -> Result<usize, TableError> {
        let names = self.program.parser.value_sets.iter().map(|set| set.name.as_str());
        index_by_name(names, "value set", set)
    }

    /// Adds a value to a parser value set: its fields concatenated without padding. Adding it again has no
    /// effect.
    ///
    /// # Errors
    ///
    /// Unknown value set, or the value is too wide.
    pub fn value_set_insert(&mut self, set: &str, value: &[u8]) -> Result<(), TableError> {
        let definition = &self.program.parser.value_sets[self.value_set(set)?];
        let whole = values::to_limbs(value, definition.bits, || format!("value set {set}"))?;
        for (list, parts) in &definition.lists {
            let (mut high, mut words) = (definition.bits, Vec::new());
            for bits in parts {
                high -= bits;
                words.extend(slice(&whole, high, *bits));
            }
            let list = &mut self.state.value_lists[usize::from(*list)];
            if !list.contains(&words) {
                list.push(words);
            }
        }
        Ok(())
    }

    /// Removes all values of a parser value set.
    ///
    /// # Errors
    ///
    /// Unknown value set.
    pub fn value_set_clear(&mut self, set: &str) -> Result<(), TableError> {
        for (list, _) in &self.program.parser.value_sets[self.value_set(set)?].lists {
            self.state.value_lists[usize::from(*list)].clear();
        }
        Ok(())
    }
}

/// Returns `bits` bits of a number, starting at bit `low`, as limbs.
fn slice(number: &[u64], low: u32, bits: u32) -> impl Iterator<Item = u64> {
    let limb = |index: u32| number.get(index as usize).copied().unwrap_or(0);
    (0..limbs(bits) as u32).map(move |index| {
        let at = low + 64 * index;
        let upper = if at.is_multiple_of(64) { 0 } else { limb(at / 64 + 1) << (64 - at % 64) };
        let left = bits - (64 * index).min(bits);
        (limb(at / 64) >> (at % 64) | upper) & crate::program::low_mask(left)
    })
}

fn check_rates(rates: Option<MeterRates>) -> Result<(), TableError> {
    match rates {
        Some(rates) if rates.pir < rates.cir => Err(TableError::Invalid(
            "the peak rate of a meter must be at least its committed rate".to_string(),
        )),
        _ => Ok(()),
    }
}
