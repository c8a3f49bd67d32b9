//! Generates the application of tables: the lookup, the inlined actions, and the jump to the next node.

use crate::program::id_vec::Id as _;
use crate::program::limbs::low_mask;
use crate::program::native::abi::{CallFrame, NativeTable, ROW_ACTION_SHIFT, ROW_NEXT_SHIFT, row_actions};
use crate::program::native::code::Unsupported;
use crate::program::native::code_worklist::{InlineInstance, ReturnTarget};
use crate::program::native::emitter::{CALL, CELLS, Emitter, readonly};
use crate::program::native::key_cache::KeyCacheFormat;
use crate::program::op::Pc;
use crate::program::signatures::TableId;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Type, Value, types};
use std::mem::offset_of;

impl Emitter<'_, '_> {
    /// Loads the field at byte `offset` of a [`NativeTable`].
    fn load_table_field(&mut self, table: TableId, ty: Type, offset: usize) -> Value {
        let tables = self.load_pointer(offset_of!(CallFrame, tables));
        let offset = table.index() * size_of::<NativeTable>() + offset;
        self.builder.ins().load(ty, readonly(CALL), tables, offset as i32)
    }

    /// Returns the address of an entry's row.
    fn row_address(&mut self, table: TableId, entry: Value) -> Value {
        let rows = self.load_table_field(table, types::I64, offset_of!(NativeTable, rows));
        let offset =
            self.builder.ins().imul_imm(entry, 8 * (1 + self.program.tables[table].max_arg_words as i64));
        self.builder.ins().iadd(rows, offset)
    }

    /// Emits the lookup of a key of one word: in the entries of small keys, then in the key cache, then with a
    /// helper. Returns the address of the row, and the entry.
    fn emit_lookup(&mut self, id: TableId, word: Value) -> (Value, Value) {
        let table = &self.program.tables[id];
        let found = self.builder.create_block();
        let results = [(); 2].map(|()| self.builder.append_block_param(found, types::I64));
        if table.is_exact() {
            let len = self.load_table_field(id, types::I64, offset_of!(NativeTable, len));
            let is_small = self.compare(IntCC::UnsignedLessThan, word, len);
            let (small, other) = (self.builder.create_block(), self.builder.create_block());
            self.brif(is_small, small, other);
            self.switch_to(small);
            let entries = self.load_table_field(id, types::I64, offset_of!(NativeTable, entries));
            let offset = self.shift_left(word, size_of::<u32>().ilog2());
            let address = self.builder.ins().iadd(entries, offset);
            let entry = self.builder.ins().load(types::I32, CELLS, address, 0);
            let entry = self.builder.ins().uextend(types::I64, entry);
            let row = self.row_address(id, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
            self.switch_to(other);
        }
        if !table.has_key_cache() {
            // `entries` has every key that has an entry, so any other key misses.
            let miss = self.iconst(0);
            let row = self.row_address(id, miss);
            self.builder.ins().jump(found, &[row.into(), miss.into()]);
        } else {
            let cached = self.builder.create_block();
            let entry = self.builder.append_block_param(cached, types::I64);
            let format = table.key_cache_format();
            let multiplier = self.iconst(KeyCacheFormat::HASH_MULTIPLIER);
            let slot = self.builder.ins().imul(word, multiplier);
            let slot = self.shift_right(slot, format.hash_shift());
            self.emit_cache_probe((id, format), (word, slot), cached);
            let neighbour = self.builder.ins().bxor_imm(slot, 1);
            self.emit_cache_probe((id, format), (word, neighbour), cached);
            let table = self.iconst(id.0.into());
            let call = self.call_helper(self.helpers.lookup_word, &[table, word], 2);
            let results = [self.result(call, 0), self.result(call, 1)];
            self.builder.ins().jump(found, &results.map(BlockArg::from));
            self.switch_to(cached);
            let row = self.row_address(id, entry);
            self.builder.ins().jump(found, &[row.into(), entry.into()]);
        }
        self.switch_to(found);
        results.into()
    }

    /// Emits a jump to `cached` with the entry of `key`, taken if the key is in slot `slot` of the table's key
    /// cache.
    fn emit_cache_probe(
        &mut self,
        (table, format): (TableId, KeyCacheFormat),
        (key, slot): (Value, Value),
        cached: Block,
    ) {
        let offset = self.shift_left(slot, (8 * format.slot_words()).ilog2());
        let key_cache = self.load_table_field(table, types::I64, offset_of!(NativeTable, key_cache));
        let key_cache = self.builder.ins().iadd(key_cache, offset);
        let first = self.builder.ins().load(types::I64, CELLS, key_cache, 0);
        let cached_key = match format {
            KeyCacheFormat::Narrow => self.shift_right(first, KeyCacheFormat::NARROW_BITS),
            KeyCacheFormat::Wide => first,
        };
        let (hit, other) = (self.builder.create_block(), self.builder.create_block());
        let is_equal = self.compare(IntCC::Equal, key, cached_key);
        self.brif(is_equal, hit, other);
        self.switch_to(hit);
        let entry = match format {
            KeyCacheFormat::Narrow => self.mask(first, low_mask(KeyCacheFormat::NARROW_BITS)),
            KeyCacheFormat::Wide => self.builder.ins().load(types::I64, CELLS, key_cache, 8),
        };
        self.builder.ins().jump(cached, &[entry.into()]);
        self.switch_to(other);
    }

    /// Emits the application of a table: the lookup, the inlined actions, and the jump to the next node.
    pub(super) fn emit_table(&mut self, id: TableId, instance: usize) -> Result<(), Unsupported> {
        let table = &self.program.tables[id];
        let key_layout = &table.key_layout;
        let zero = self.iconst(0);
        let mut words = vec![zero; key_layout.words];
        for part in &key_layout.segments {
            let value = self.use_slot(part.slot);
            let value = self.mask(value, part.mask);
            let value = self.shift_left(value, u32::from(part.shift));
            let word = &mut words[usize::from(part.word)];
            *word = self.builder.ins().bor(*word, value);
        }
        let (row, entry) = match words.as_slice() {
            // A table without a key always misses: entry 0, the first row.
            [] if !table.needs_slow_apply => {
                (self.load_table_field(id, types::I64, offset_of!(NativeTable, rows)), zero)
            }
            [word] if !table.needs_slow_apply => self.emit_lookup(id, *word),
            words => {
                for (position, word) in words.iter().enumerate() {
                    self.store_key(position, *word)?;
                }
                let table = self.iconst(id.0.into());
                let call = self.call_helper(self.helpers.lookup_key, &[table], 2);
                (self.result(call, 0), self.result(call, 1))
            }
        };
        // Rows do not change while code runs, so loads of their words may move. For a table that needs the slow path,
        // the helper copies the row to a scratch buffer, which the next application overwrites: these loads must not
        // move.
        let flags = if table.needs_slow_apply { CELLS } else { readonly(CELLS) };
        let first_word = self.builder.ins().load(types::I64, flags, row, 0);
        let row_action = self.shift_right(first_word, ROW_ACTION_SHIFT);
        let actions = row_actions(self.program, table);
        for (position, action) in (1u64..).zip(&actions) {
            let next = |is_hit| table.successor(*action, is_hit);
            let return_target = ReturnTarget { instance, hit: next(true), miss: next(false), entry };
            let inlined = self.add_instance(InlineInstance {
                end: self.code_worklist.instances[instance].end,
                return_target: Some(return_target),
            });
            let (start, other) = (self.builder.create_block(), self.builder.create_block());
            let position = self.iconst(position);
            let is_selected = self.compare(IntCC::Equal, row_action, position);
            self.brif(is_selected, start, other);
            self.switch_to(start);
            let info = &self.program.actions[*action];
            for argument in 0..info.arg_words().min(table.max_arg_words) {
                let slot = self.program.first_param_slot + argument as u16;
                let value = self.builder.ins().load(types::I64, flags, row, 8 * (1 + argument as i32));
                self.declare_slot(slot, value);
            }
            let code = *self.program.action_code.of(*action).ok_or(Unsupported)?;
            let first = self.block_of(code, inlined);
            self.jump(first);
            self.switch_to(other);
        }
        // The row has no action: its first word has the address of the next node.
        let successors = &table.successors;
        let next = self.shift_right(first_word, ROW_NEXT_SHIFT);
        let next = self.mask(next, u64::from(Pc::MAX));
        for target in
            successors.hit.iter().chain(&successors.miss).filter(|target| **target != successors.base)
        {
            let (target, other) = (*target, self.builder.create_block());
            let (address, block) = (self.iconst(u64::from(target)), self.block_of(target, instance));
            let is_next = self.compare(IntCC::Equal, next, address);
            self.brif(is_next, block, other);
            self.switch_to(other);
        }
        let base = self.block_of(successors.base, instance);
        self.jump(base);
        Ok(())
    }
}
