//! Runtime API of registers, counters, meters, parser value sets and custom CRCs.
//!
//! A cell is an element of an array of registers, counters or meters. The members of a value set are also kept in value
//! lists: one list for each way in which a `select` compares the set, with the member split into words of its key.

use super::api_types::{CounterValue, EntryHandle, MeterRates, ObjectKind, TableError};
use super::custom_crc::{CrcParameters, CustomCrc};
use super::meter::Meter;
use super::table_read::{index_by_name, unknown_table};
use super::table_state::TableState;
use super::{Pipeline, values};
use crate::program::{Algorithm, ExternArray, RegisterArray, TableId, limb_count};
use std::ops::Range;

fn array_index(arrays: &[ExternArray], kind: ObjectKind, name: &str) -> Result<usize, TableError> {
    index_by_name(arrays.iter().map(|array| array.name.as_str()), kind, name)
}

fn out_of_bounds(kind: ObjectKind, name: &str, index: usize, size: usize) -> TableError {
    TableError::OutOfBounds { object: format!("{kind} {name}"), index, size }
}

impl Pipeline {
    fn register(&self, name: &str) -> Result<&RegisterArray, TableError> {
        let registers = &self.program.registers;
        let names = registers.iter().map(|array| array.name.as_str());
        Ok(&registers[index_by_name(names, ObjectKind::RegisterArray, name)?])
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
        let outside = || out_of_bounds(ObjectKind::RegisterArray, register, index, array.size);
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
        let array = array_index(&self.program.counters, ObjectKind::CounterArray, counter)?;
        let cells = &mut self.state.counters[array];
        let size = cells.len();
        cells.get_mut(index).ok_or_else(|| out_of_bounds(ObjectKind::CounterArray, counter, index, size))
    }

    /// Returns the number of cells of a counter array.
    ///
    /// # Errors
    ///
    /// Unknown counter array.
    pub fn counter_size(&self, counter: &str) -> Result<usize, TableError> {
        Ok(self.state.counters[array_index(&self.program.counters, ObjectKind::CounterArray, counter)?].len())
    }

    /// Returns the value of a counter cell.
    ///
    /// # Errors
    ///
    /// Unknown counter array, or the index is out of range.
    pub fn counter_read(&self, counter: &str, index: usize) -> Result<CounterValue, TableError> {
        let cells =
            &self.state.counters[array_index(&self.program.counters, ObjectKind::CounterArray, counter)?];
        let outside = || out_of_bounds(ObjectKind::CounterArray, counter, index, cells.len());
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

    /// Returns the index of an entry's direct counter or meter.
    fn direct_cell<V>(
        &self,
        table: TableId,
        entry: EntryHandle,
        what: &str,
        cells: &[V],
    ) -> Result<usize, TableError> {
        let cell = self.entry(table, entry)? as usize;
        if cell >= cells.len() {
            let name = self.program.table_name(table);
            return Err(TableError::Invalid(format!("table {name} has no direct {what}")));
        }
        Ok(cell)
    }

    fn table_state(&self, table: TableId) -> Result<&TableState, TableError> {
        self.state.tables.of(table).ok_or_else(|| unknown_table(table))
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
        let cells = &self.table_state(table)?.extras.counters;
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
        let cell = self.direct_cell(table, entry, "counter", &self.table_state(table)?.extras.counters)?;
        self.state.tables[table].extras.counters[cell] = value;
        Ok(())
    }

    /// Returns the index of a meter array and one of its cells.
    fn meter(&self, meter: &str, index: usize) -> Result<(usize, &Meter), TableError> {
        let array = array_index(&self.program.meters, ObjectKind::MeterArray, meter)?;
        let cells = &self.state.meters[array];
        let outside = || out_of_bounds(ObjectKind::MeterArray, meter, index, cells.len());
        Ok((array, cells.get(index).ok_or_else(outside)?))
    }

    /// Returns the number of cells of a meter array.
    ///
    /// # Errors
    ///
    /// Unknown meter array.
    pub fn meter_size(&self, meter: &str) -> Result<usize, TableError> {
        Ok(self.state.meters[array_index(&self.program.meters, ObjectKind::MeterArray, meter)?].len())
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
        let (array, _) = self.meter(meter, index)?;
        check_rates(rates)?;
        self.state.meters[array][index].set_rates(rates, self.state.ticks_per_second);
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
        let cells = &self.table_state(table)?.extras.meters;
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
        let cell = self.direct_cell(table, entry, "meter", &self.table_state(table)?.extras.meters)?;
        check_rates(rates)?;
        self.state.tables[table].extras.meters[cell].set_rates(rates, self.state.ticks_per_second);
        Ok(())
    }

    /// Returns the index of the value set with this name.
    fn value_set(&self, set: &str) -> Result<usize, TableError> {
        let names = self.program.parser.value_sets.iter().map(|set| set.name.as_str());
        index_by_name(names, ObjectKind::ValueSet, set)
    }

    /// Adds a value to a parser value set: its fields concatenated without padding. Adding it again has no
    /// effect.
    ///
    /// # Errors
    ///
    /// Unknown value set, or the value is too wide.
    pub fn value_set_insert(&mut self, set: &str, value: &[u8]) -> Result<(), TableError> {
        let (index, member) = self.value_set_member(set, value)?;
        if !self.state.value_sets[index].contains(&member) {
            self.append_to_lists(index, &member);
            self.state.value_sets[index].push(member);
        }
        Ok(())
    }

    /// Removes a value from a parser value set. Removing a value that is not in the set has no effect.
    ///
    /// # Errors
    ///
    /// Unknown value set, or the value is too wide.
    pub fn value_set_remove(&mut self, set: &str, value: &[u8]) -> Result<(), TableError> {
        let (index, member) = self.value_set_member(set, value)?;
        let mut members = std::mem::take(&mut self.state.value_sets[index]);
        members.retain(|other| *other != member);
        // The lists hold no index of a member, so they are built again.
        self.clear_lists(index);
        members.iter().for_each(|member| self.append_to_lists(index, member));
        self.state.value_sets[index] = members;
        Ok(())
    }

    /// Returns the values of a parser value set, big-endian, in the order in which they were added.
    ///
    /// # Errors
    ///
    /// Unknown value set.
    pub fn value_set_values(&self, set: &str) -> Result<Vec<Vec<u8>>, TableError> {
        let index = self.value_set(set)?;
        let bits = self.program.parser.value_sets[index].bits;
        Ok(self.state.value_sets[index].iter().map(|member| values::to_bytes(member, bits)).collect())
    }

    /// Removes all values of a parser value set.
    ///
    /// # Errors
    ///
    /// Unknown value set.
    pub fn value_set_clear(&mut self, set: &str) -> Result<(), TableError> {
        let index = self.value_set(set)?;
        self.state.value_sets[index].clear();
        self.clear_lists(index);
        Ok(())
    }

    /// Returns the index of a value set, and the value as limbs.
    fn value_set_member(&self, set: &str, value: &[u8]) -> Result<(usize, Vec<u64>), TableError> {
        let index = self.value_set(set)?;
        let bits = self.program.parser.value_sets[index].bits;
        Ok((index, values::to_limbs(value, bits, || format!("value set {set}"))?))
    }

    /// Appends a member to the value lists of a set.
    fn append_to_lists(&mut self, set: usize, member: &[u64]) {
        let definition = &self.program.parser.value_sets[set];
        for (list, parts) in &definition.lists {
            let (mut high, mut words) = (definition.bits, Vec::new());
            for bits in parts {
                high -= bits;
                words.extend(bit_slice(member, high, *bits));
            }
            self.state.value_lists[usize::from(*list)].push(words);
        }
    }

    fn clear_lists(&mut self, set: usize) {
        for (list, _) in &self.program.parser.value_sets[set].lists {
            self.state.value_lists[usize::from(*list)].clear();
        }
    }

    /// Sets the parameters of a calculation with the algorithm `crc16_custom` or `crc32_custom`.
    ///
    /// # Errors
    ///
    /// Unknown calculation, or another algorithm or width.
    pub fn set_crc_parameters(
        &mut self,
        calculation: &str,
        parameters: CrcParameters,
    ) -> Result<(), TableError> {
        let index = self.calculation(calculation)?;
        let width = match self.program.calculations[index].algorithm {
            Algorithm::Crc16Custom => 16,
            Algorithm::Crc32Custom => 32,
            // No parameters have this width, so any other algorithm is rejected.
            _ => 0,
        };
        if width != parameters.width {
            let algorithm = format!("crc{}_custom", parameters.width);
            let what = format!("calculation {calculation} does not have the algorithm {algorithm}");
            return Err(TableError::Invalid(what));
        }
        self.state.calculations[index].crc = Some(Box::new(CustomCrc::new(parameters)));
        Ok(())
    }

    /// Returns whether the program has a calculation with this name.
    pub fn has_calculation(&self, name: &str) -> bool {
        self.calculation(name).is_ok()
    }

    fn calculation(&self, name: &str) -> Result<usize, TableError> {
        let names = self.program.calculations.iter().map(|calculation| calculation.name.as_str());
        index_by_name(names, ObjectKind::Calculation, name)
    }
}

/// Returns `bits` bits of a number, starting at bit `low`, as limbs.
fn bit_slice(number: &[u64], low: u32, bits: u32) -> impl Iterator<Item = u64> {
    let limb = |index: u32| number.get(index as usize).copied().unwrap_or(0);
    (0..limb_count(bits) as u32).map(move |index| {
        let bit = low + 64 * index;
        let upper = if bit.is_multiple_of(64) { 0 } else { limb(bit / 64 + 1) << (64 - bit % 64) };
        let remaining = bits - (64 * index).min(bits);
        (limb(bit / 64) >> (bit % 64) | upper) & crate::program::low_mask(remaining)
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
