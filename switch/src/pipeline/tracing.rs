//! Reports the steps of the interpreter to the tracer.

use super::api_types::EntryHandle;
use super::interpreter::ExecContext;
use super::table_state::DEFAULT_ENTRY;
use super::trace::Tracer;
use super::values;
use crate::program::{ActionId, Pc, TableId, TracePoint, limb_count};

impl<T: Tracer> ExecContext<'_, T> {
    /// Reports that a slot gets this value; call it before the slot is written.
    #[inline]
    pub(super) fn trace_assign(&mut self, slots: &[u64], slot: u16, value: u64) {
        if !T::ENABLED {
            return;
        }
        let old = slots[usize::from(slot)];
        self.report_assign(slot, &[old], &[value]);
    }

    /// Reports that a field of one or more slots was assigned.
    pub(super) fn report_assign(&mut self, slot: u16, old: &[u64], new: &[u64]) {
        // Slots of temporaries have no field and are not reported.
        if let Some((name, bits)) = self.program.slot_field(slot).filter(|_| !new.is_empty()) {
            let bytes = |limbs: &[u64]| values::to_bytes(limbs, bits);
            self.tracer.assign(self.program, &name, &bytes(old), &bytes(new));
        }
    }

    /// Reports conditions and hidden tables when control reaches their addresses.
    #[inline]
    pub(super) fn trace_conditions(&mut self, pc: Pc) {
        if !T::ENABLED {
            return;
        }
        let program = self.program;
        if let Some((name, start, end)) = self.open_condition
            && !(start..end).contains(&pc)
        {
            self.open_condition = None;
            self.tracer.condition(program, name, pc == end);
        }
        for trace_point in program.trace_points_at(pc) {
            match trace_point {
                TracePoint::Condition { name, end } => self.open_condition = Some((name, pc, *end)),
                TracePoint::Table(id) => {
                    let (action, args) = program.tables[*id].default.clone().unwrap_or_default();
                    let args = values::split_args(program, action, &args);
                    self.tracer.table(program, *id, &[], None, Some(action), &args);
                }
            }
        }
    }

    pub(super) fn trace_table(
        &mut self,
        slots: &[u64],
        id: TableId,
        entry: usize,
        code: Pc,
        action: ActionId,
    ) {
        let program = self.program;
        let table = &program.tables[id];
        let value = |slot: u16, bits: u32| {
            let limbs = &slots[usize::from(slot)..][..limb_count(bits)];
            values::to_bytes(limbs, bits)
        };
        let key: Vec<Vec<u8>> = table.key.iter().map(|key| value(key.slot, key.bits)).collect();
        let args = &slots[usize::from(program.first_param_slot)..];
        let args = values::split_args(program, action, args);
        let handle = (entry != DEFAULT_ENTRY as usize).then(|| EntryHandle(entry as u32 - 1));
        // Code address 0 means no action.
        let (action, args) = if code == 0 { (None, Vec::new()) } else { (Some(action), args) };
        self.tracer.table(program, id, &key, handle, action, &args);
    }

    pub(super) fn trace_log(&mut self, slots: &[u64], index: usize) {
        let log = &self.program.logs[index];
        let mut message = String::new();
        let mut values = log.values.iter();
        let mut rest = log.format.as_str();
        while let Some((before, after)) = rest.split_once("{}") {
            message.push_str(before);
            if let Some(value) = values.next() {
                let limbs = &slots[usize::from(value.slot)..][..usize::from(value.limbs)];
                message.push_str(&values::decimal(limbs, value.signed));
            }
            rest = after;
        }
        message.push_str(rest);
        self.tracer.log(self.program, &message);
    }
}
