//! Runs a [`Program`] packet by packet, with BMv2's semantics.

mod entry;
mod io;
mod trace;

pub use entry::{
    ActionCall, CounterValue, EntryHandle, GroupHandle, KeyMatch, MemberHandle, MeterRates, TableEntry,
    TableError,
};
pub use io::{ClonedPacket, Digest, Effects, EgressMeta, EgressVerdict, IngressMeta, Verdict};
pub use trace::{NoTrace, Tracer};

use crate::packet::Packet;
use crate::program::{Program, TableId};
use std::sync::Arc;

/// The pipeline of one switch: a program and the state it has in this switch (tables, registers, counters, meters).
pub struct Pipeline {}

#[allow(unused_variables)]
impl Pipeline {
    /// A pipeline as it is when the switch starts: const entries and default actions in place, all else empty.
    pub fn new(program: Arc<Program>, seed: u64) -> Pipeline {
        unimplemented!()
    }
    /// The program it runs.
    pub fn program(&self) -> &Arc<Program> {
        unimplemented!()
    }
    /// Which port means "drop"; BMv2's default is 511.
    pub fn set_drop_port(&mut self, port: u16) {}
    /// How many ticks `now` makes in a second, for meters; BMv2's clock, and the default, is microseconds.
    pub fn set_ticks_per_second(&mut self, ticks: u64) {}

    /// Parses a packet and runs ingress on it.
    pub fn ingress(&mut self, packet: &mut Packet, meta: IngressMeta, fx: &mut Effects) -> Verdict {
        self.ingress_traced(packet, meta, fx, &mut NoTrace)
    }
    /// As [`Pipeline::ingress`], watched.
    pub fn ingress_traced<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: IngressMeta,
        fx: &mut Effects,
        tracer: &mut T,
    ) -> Verdict {
        unimplemented!()
    }
    /// Runs egress on a packet that went through ingress, or on a clone, and deparses it.
    pub fn egress(&mut self, packet: &mut Packet, meta: EgressMeta, fx: &mut Effects) -> EgressVerdict {
        self.egress_traced(packet, meta, fx, &mut NoTrace)
    }
    /// As [`Pipeline::egress`], watched.
    pub fn egress_traced<T: Tracer>(
        &mut self,
        packet: &mut Packet,
        meta: EgressMeta,
        fx: &mut Effects,
        tracer: &mut T,
    ) -> EgressVerdict {
        unimplemented!()
    }

    /// A table by its name: in full, or the shortest suffix after a dot that no other table has.
    pub fn table_by_name(&self, name: &str) -> Result<TableId, TableError> {
        unimplemented!()
    }
    /// Adds an entry. `priority`: larger wins, of equal ones the older; ignored where the table has no priorities.
    pub fn table_add(
        &mut self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
        action: &ActionCall,
    ) -> Result<EntryHandle, TableError> {
        unimplemented!()
    }
    /// Gives an entry another action.
    pub fn table_modify(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        action: &ActionCall,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Removes an entry.
    pub fn table_delete(&mut self, table: TableId, entry: EntryHandle) -> Result<(), TableError> {
        unimplemented!()
    }
    /// The entry with exactly this match (and priority, where the table has them).
    pub fn table_find(
        &self,
        table: TableId,
        key: &[KeyMatch],
        priority: i32,
    ) -> Result<Option<EntryHandle>, TableError> {
        unimplemented!()
    }
    /// Sets what the table does on a miss.
    pub fn table_set_default(&mut self, table: TableId, action: &ActionCall) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Sets it back to what the program says.
    pub fn table_reset_default(&mut self, table: TableId) -> Result<(), TableError> {
        unimplemented!()
    }
    /// What the table does on a miss.
    pub fn table_default(&self, table: TableId) -> Option<ActionCall> {
        unimplemented!()
    }
    /// The entries of a table, in the order of their handles.
    pub fn table_entries(&self, table: TableId) -> Vec<TableEntry> {
        unimplemented!()
    }
    /// After how many ticks without a match an entry has timed out; 0 for never.
    pub fn table_set_timeout(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        ticks: u64,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Entries of tables with idle timeout that have timed out by `now`.
    pub fn timed_out(&self, now: u64) -> Vec<(TableId, EntryHandle)> {
        unimplemented!()
    }

    /// The names of all action profiles.
    pub fn profiles(&self) -> Vec<&str> {
        unimplemented!()
    }
    /// Adds a member to an action profile.
    pub fn member_add(&mut self, profile: &str, action: &ActionCall) -> Result<MemberHandle, TableError> {
        unimplemented!()
    }
    /// Gives a member another action.
    pub fn member_modify(
        &mut self,
        profile: &str,
        member: MemberHandle,
        action: &ActionCall,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Removes a member that nothing refers to.
    pub fn member_delete(&mut self, profile: &str, member: MemberHandle) -> Result<(), TableError> {
        unimplemented!()
    }
    /// The members of an action profile.
    pub fn members(&self, profile: &str) -> Result<Vec<(MemberHandle, ActionCall)>, TableError> {
        unimplemented!()
    }
    /// Adds a group of members. A member that appears twice has twice the weight.
    pub fn group_add(&mut self, profile: &str, members: &[MemberHandle]) -> Result<GroupHandle, TableError> {
        unimplemented!()
    }
    /// Gives a group other members.
    pub fn group_modify(
        &mut self,
        profile: &str,
        group: GroupHandle,
        members: &[MemberHandle],
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Removes a group that no entry refers to.
    pub fn group_delete(&mut self, profile: &str, group: GroupHandle) -> Result<(), TableError> {
        unimplemented!()
    }
    /// The groups of an action profile.
    pub fn groups(&self, profile: &str) -> Result<Vec<(GroupHandle, Vec<MemberHandle>)>, TableError> {
        unimplemented!()
    }

    /// How many cells a register array has, and how many bits a cell.
    pub fn register_info(&self, register: &str) -> Result<(usize, u32), TableError> {
        unimplemented!()
    }
    /// The value of a register cell.
    pub fn register_read(&self, register: &str, index: usize) -> Result<Vec<u8>, TableError> {
        unimplemented!()
    }
    /// Sets a register cell.
    pub fn register_write(&mut self, register: &str, index: usize, value: &[u8]) -> Result<(), TableError> {
        unimplemented!()
    }
    /// How many cells a counter array has.
    pub fn counter_size(&self, counter: &str) -> Result<usize, TableError> {
        unimplemented!()
    }
    /// The value of a counter cell.
    pub fn counter_read(&self, counter: &str, index: usize) -> Result<CounterValue, TableError> {
        unimplemented!()
    }
    /// Sets a counter cell.
    pub fn counter_write(
        &mut self,
        counter: &str,
        index: usize,
        value: CounterValue,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// The direct counter of an entry.
    pub fn direct_counter_read(
        &self,
        table: TableId,
        entry: EntryHandle,
    ) -> Result<CounterValue, TableError> {
        unimplemented!()
    }
    /// Sets the direct counter of an entry.
    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        value: CounterValue,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// How many cells a meter array has.
    pub fn meter_size(&self, meter: &str) -> Result<usize, TableError> {
        unimplemented!()
    }
    /// The rates of a meter cell; None while it has none, and marks everything green.
    pub fn meter_rates(&self, meter: &str, index: usize) -> Result<Option<MeterRates>, TableError> {
        unimplemented!()
    }
    /// Sets the rates of a meter cell.
    pub fn meter_set_rates(
        &mut self,
        meter: &str,
        index: usize,
        rates: Option<MeterRates>,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// The rates of an entry's direct meter.
    pub fn direct_meter_rates(
        &self,
        table: TableId,
        entry: EntryHandle,
    ) -> Result<Option<MeterRates>, TableError> {
        unimplemented!()
    }
    /// Sets the rates of an entry's direct meter.
    pub fn direct_meter_set_rates(
        &mut self,
        table: TableId,
        entry: EntryHandle,
        rates: Option<MeterRates>,
    ) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Puts a value into a parser value set.
    pub fn value_set_insert(&mut self, set: &str, value: &[u8]) -> Result<(), TableError> {
        unimplemented!()
    }
    /// Empties a parser value set.
    pub fn value_set_clear(&mut self, set: &str) -> Result<(), TableError> {
        unimplemented!()
    }
    /// How many `assert` and `assume` statements did not hold. (BMv2 aborts at the first.)
    pub fn failed_assertions(&self) -> u64 {
        unimplemented!()
    }
}
