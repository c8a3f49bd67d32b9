//! Emits Cranelift IR: values, slots, memory accesses and helper calls.

use super::abi::{CallFrame, Helpers, MAX_FRAME_ACCESS, MAX_KEY_WORDS, NativeInput};
use super::code::Unsupported;
use super::code_worklist::CodeWorklist;
use super::slot_storage::SlotSet;
use crate::program::frame_access::{FieldLoad, FrameAccess};
use crate::program::limbs::low_mask;
use crate::program::link::LinkedProgram;
use crate::program::op::{Pc, Slot};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, AliasRegion, Block, Inst, InstBuilder, MemFlags, SigRef, Signature, Type, Value, types,
};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::{FunctionBuilder, Variable};
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::mem::offset_of;

/// Maximum number of blocks of the parser, and of each chain of blocks of the deparser. A parser state or a header
/// needs one block for each frame offset at which it can begin, so without a limit a loop would need endlessly many.
pub(super) const MAX_BLOCKS: usize = 512;

// Flags of memory accesses. Cranelift's alias analysis assumes that accesses of different regions never touch the
// same memory; `None` is a region of its own. So each piece of memory must always be accessed with the same region:
// `Table` is the header vector and the bridged words, `Vmctx` the call frame, `Heap` the frame, and `None` everything
// else (register cells, rows, keys, hash input). Helper calls are barriers for all regions. `aligned` promises
// natural alignment, which frame bytes do not have.
/// The header vector and the bridged words.
pub(super) const SLOTS: MemFlags = memory(Some(AliasRegion::Table)).with_aligned();
/// Two adjacent slots as one value of 16 bytes. Not `aligned`: the pair is aligned to 8 bytes only.
const SLOT_PAIRS: MemFlags = memory(Some(AliasRegion::Table));
/// The [`CallFrame`], and the native tables.
pub(super) const CALL: MemFlags = memory(Some(AliasRegion::Vmctx)).with_aligned();
/// Register cells, table entries, rows, key caches and key words.
pub(super) const CELLS: MemFlags = memory(None).with_aligned();
/// The input of a hash.
pub(super) const BYTES: MemFlags = memory(None);
/// The bytes of the frame.
pub(super) const FRAME: MemFlags = memory(Some(AliasRegion::Heap));

const fn memory(region: Option<AliasRegion>) -> MemFlags {
    MemFlags::new().with_notrap().with_alias_region(region)
}

/// Returns flags for memory that does not change while the code runs: Cranelift may move its loads to their uses.
pub(super) const fn readonly(flags: MemFlags) -> MemFlags {
    flags.with_readonly().with_can_move()
}

/// A function under construction.
pub(super) struct Emitter<'a, 'f> {
    pub builder: FunctionBuilder<'f>,
    pub program: &'a LinkedProgram,
    pub frame_access: &'a FrameAccess,
    pub helpers: &'a Helpers,
    /// Jump targets: a new basic block begins at each of these addresses.
    pub targets: &'a BTreeSet<Pc>,
    /// Slots that stay in memory; all others are Cranelift variables.
    pub memory_slots: &'a SlotSet,
    /// For the slots of `memory_slots` that are stored in a bridged word instead of the header vector: the index of the
    /// word.
    pub bridged_indices: HashMap<Slot, usize>,
    /// Flags of loads from the frame.
    pub frame_flags: MemFlags,
    /// End of the furthest access to the frame so far, in bytes.
    max_frame_access: &'a Cell<usize>,
    /// Address of the [`CallFrame`].
    pub call_frame: Value,
    /// Address of the header vector.
    pub slots: Value,
    /// Address of the bridged words.
    pub bridged: Value,
    /// Address of the frame.
    pub frame: Value,
    pub code_worklist: CodeWorklist,
    /// The variables of declared slots.
    variables: HashMap<Slot, Variable>,
    /// Slots that are 0 whenever they are read.
    known_zero: SlotSet,
    /// True after an operation read a field that is neither declared nor in memory.
    reads_undeclared: bool,
    /// The signatures of helpers, by number of arguments and number of results.
    signatures: HashMap<(usize, usize), SigRef>,
}

impl<'a, 'f> Emitter<'a, 'f> {
    /// Starts a function whose only argument is the address of the [`CallFrame`].
    pub(super) fn new(
        mut builder: FunctionBuilder<'f>,
        (program, frame_access, helpers): (&'a LinkedProgram, &'a FrameAccess, &'a Helpers),
        (targets, memory_slots): (&'a BTreeSet<Pc>, &'a SlotSet),
        (frame_flags, max_frame_access): (MemFlags, &'a Cell<usize>),
    ) -> Emitter<'a, 'f> {
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let call_frame = builder.block_params(entry)[0];
        let pointer = |b: &mut FunctionBuilder, offset: usize| {
            b.ins().load(types::I64, readonly(CALL), call_frame, offset as i32)
        };
        let slots = pointer(&mut builder, offset_of!(CallFrame, slots));
        let bridged = pointer(&mut builder, offset_of!(CallFrame, bridged));
        // Loaded once, although `grow_front` can move the frame: only the deparser calls that helper, and the
        // blocks that follow the call use the new address.
        let frame = pointer(&mut builder, offset_of!(CallFrame, frame));
        let code_worklist = CodeWorklist::new(&mut builder);
        Emitter {
            builder,
            program,
            frame_access,
            helpers,
            targets,
            memory_slots,
            bridged_indices: HashMap::new(),
            frame_flags,
            max_frame_access,
            call_frame,
            slots,
            bridged,
            frame,
            code_worklist,
            variables: HashMap::new(),
            known_zero: SlotSet::new(program.capacity),
            reads_undeclared: false,
            signatures: HashMap::new(),
        }
    }

    /// Completes the function. Fails if an operation read an undeclared field, which has no value: the interpreter
    /// then runs the program.
    pub(super) fn complete(mut self) -> Result<(), Unsupported> {
        debug_assert!(!self.reads_undeclared, "code reads a field that `Access` does not list");
        self.builder.seal_all_blocks();
        self.builder.finalize();
        if self.reads_undeclared { Err(Unsupported) } else { Ok(()) }
    }

    pub(super) fn iconst(&mut self, value: u64) -> Value {
        self.builder.ins().iconst(types::I64, value as i64)
    }

    /// Clears the highest `clear_high` bits.
    pub(super) fn truncate(&mut self, value: Value, clear_high: u8) -> Value {
        match clear_high & 63 {
            0 => value,
            clear_high => self.mask(value, u64::MAX >> clear_high),
        }
    }

    pub(super) fn mask(&mut self, value: Value, mask: u64) -> Value {
        if mask == u64::MAX {
            return value;
        }
        self.builder.ins().band_imm(value, mask as i64)
    }

    pub(super) fn compare(&mut self, cc: IntCC, a: Value, b: Value) -> Value {
        self.builder.ins().icmp(cc, a, b)
    }

    /// Zero-extends the result of a comparison.
    pub(super) fn bool_to_i64(&mut self, comparison: Value) -> Value {
        self.builder.ins().uextend(types::I64, comparison)
    }

    pub(super) fn add_imm(&mut self, value: Value, summand: u64) -> Value {
        self.builder.ins().iadd_imm(value, summand as i64)
    }

    pub(super) fn shift_left(&mut self, value: Value, bits: u32) -> Value {
        if bits == 0 { value } else { self.builder.ins().ishl_imm(value, i64::from(bits)) }
    }

    pub(super) fn shift_right(&mut self, value: Value, bits: u32) -> Value {
        if bits == 0 { value } else { self.builder.ins().ushr_imm(value, i64::from(bits)) }
    }

    pub(super) fn jump(&mut self, block: Block) {
        self.builder.ins().jump(block, &[]);
    }

    pub(super) fn brif(&mut self, condition: Value, then: Block, otherwise: Block) {
        self.builder.ins().brif(condition, then, &[], otherwise, &[]);
    }

    /// Creates a block that Cranelift places out of line, because it is rarely entered.
    pub(super) fn create_cold_block(&mut self) -> Block {
        let block = self.builder.create_block();
        self.builder.set_cold_block(block);
        block
    }

    pub(super) fn switch_to(&mut self, block: Block) {
        self.builder.switch_to_block(block);
    }

    /// Emits a return whose value packs the exit code (bits 0 to 7), the priority class (bits 8 to 15) and
    /// the egress port or multicast group (bits 16 to 31). `pipeline::native::ingress` unpacks it.
    pub(super) fn emit_return_verdict(&mut self, exit: u64, destination: Value, class: Value) {
        let destination = self.mask(destination, u64::from(u16::MAX));
        let destination = self.shift_left(destination, 16);
        let class = self.mask(class, u64::from(u8::MAX));
        let class = self.shift_left(class, 8);
        let verdict = self.builder.ins().bor(destination, class);
        let verdict = self.builder.ins().bor_imm(verdict, exit as i64);
        self.builder.ins().return_(&[verdict]);
    }

    pub(super) fn emit_return(&mut self, exit: u64) {
        let exit = self.iconst(exit);
        self.builder.ins().return_(&[exit]);
    }
}

/// Bytes that have just been stored to the frame. The checksum uses `value` instead of loading them again: a load
/// that spans several stores cannot be forwarded from the store buffer and would stall.
pub(super) struct StoredBytes {
    /// First byte, counted from the frame's first byte.
    offset: u32,
    /// Number of bytes.
    bytes: u32,
    /// The bytes as a number in native byte order.
    value: Value,
}

impl Emitter<'_, '_> {
    /// Declares a slot with an initial value: as a Cranelift variable, or in memory if it is one of `memory_slots`.
    pub(super) fn declare_slot(&mut self, slot: Slot, value: Value) {
        self.known_zero.remove(slot..slot + 1);
        if self.memory_slots.contains(slot) {
            self.store_slot(slot, value);
            return;
        }
        let variable = match self.variables.get(&slot) {
            Some(variable) => *variable,
            None => {
                let variable = self.builder.declare_var(types::I64);
                self.variables.insert(slot, variable);
                variable
            }
        };
        self.builder.def_var(variable, value);
    }

    /// Declares that a slot is 0 whenever it is read, so that it needs no variable.
    pub(super) fn declare_zero(&mut self, slot: Slot) {
        self.known_zero.insert(slot);
    }

    pub(super) fn is_known_zero(&self, slot: Slot) -> bool {
        self.known_zero.contains(slot)
    }

    pub(super) fn use_slot(&mut self, slot: Slot) -> Value {
        if let Some(value) = self.program.const_value(slot) {
            return self.iconst(value);
        }
        if self.memory_slots.contains(slot) {
            return self.load_slot(slot);
        }
        if self.is_known_zero(slot) {
            return self.iconst(0);
        }
        match self.variables.get(&slot) {
            Some(variable) => self.builder.use_var(*variable),
            // Only temporaries should reach this branch, and code writes a temporary before it reads it. But
            // Cranelift needs a definition on every path.
            None => {
                self.reads_undeclared |= usize::from(slot) < self.program.zeroed_slots;
                let zero = self.iconst(0);
                self.declare_slot(slot, zero);
                zero
            }
        }
    }

    /// Assigns a slot. The assignment is dropped if the slot is neither in memory nor declared: then nothing
    /// reads it. Temporaries are declared by their first assignment.
    pub(super) fn def_slot(&mut self, slot: Slot, value: Value) {
        if self.memory_slots.contains(slot) {
            self.store_slot(slot, value);
        } else if let Some(variable) = self.variables.get(&slot) {
            self.builder.def_var(*variable, value);
        } else if usize::from(slot) >= self.program.zeroed_slots {
            self.declare_slot(slot, value);
        }
    }

    /// Returns whether an assignment to the slot has an effect: the slot is in memory or declared.
    pub(super) fn is_live(&self, slot: Slot) -> bool {
        self.memory_slots.contains(slot) || self.variables.contains_key(&slot)
    }

    /// Assigns a constant to a slot, if the assignment has an effect.
    pub(super) fn set_imm(&mut self, slot: Slot, value: u64) {
        if self.is_live(slot) {
            let value = self.iconst(value);
            self.def_slot(slot, value);
        }
    }

    /// Returns the base address and the byte offset of a slot in memory.
    fn slot_address(&self, slot: Slot) -> (Value, i32) {
        debug_assert!(usize::from(slot) < self.program.capacity);
        match self.bridged_indices.get(&slot) {
            Some(index) => (self.bridged, 8 * *index as i32),
            None => (self.slots, 8 * i32::from(slot)),
        }
    }

    fn load_slot(&mut self, slot: Slot) -> Value {
        let (base, offset) = self.slot_address(slot);
        self.builder.ins().load(types::I64, SLOTS, base, offset)
    }

    pub(super) fn store_slot(&mut self, slot: Slot, value: Value) {
        let (base, offset) = self.slot_address(slot);
        self.builder.ins().store(SLOTS, value, base, offset);
    }

    /// Loads the bridged word at `index`. Cranelift may move the load to its uses, so the function must not store to
    /// the bridged words.
    pub(super) fn load_bridged(&mut self, index: usize) -> Value {
        self.builder.ins().load(types::I64, readonly(SLOTS), self.bridged, 8 * index as i32)
    }

    /// Zeroes slots in memory, with one 16-byte store for two adjacent slots.
    pub(super) fn clear_slots(&mut self, slots: impl Iterator<Item = Slot>) {
        let mut addresses: Vec<(Value, i32)> = slots.map(|slot| self.slot_address(slot)).collect();
        addresses.sort_unstable();
        let two_zeros = self.builder.func.dfg.constants.insert(vec![0; 16].into());
        let two_zeros = self.builder.ins().vconst(types::I64X2, two_zeros);
        let (zero, mut addresses) = (self.iconst(0), addresses.into_iter().peekable());
        while let Some((base, offset)) = addresses.next() {
            let is_pair = addresses.next_if_eq(&(base, offset + 8)).is_some();
            let (flags, zero) = if is_pair { (SLOT_PAIRS, two_zeros) } else { (SLOTS, zero) };
            self.builder.ins().store(flags, zero, base, offset);
        }
    }

    /// Stores the variables of these slots to memory.
    pub(super) fn spill(&mut self, slots: &[Slot]) {
        for slot in slots {
            if !self.memory_slots.contains(*slot) {
                let value = self.use_slot(*slot);
                self.store_slot(*slot, value);
            }
        }
    }

    /// Stores these slots to the bridged words, in order. Slots of `bridged_indices` are skipped: they are
    /// already there.
    pub(super) fn store_bridged(&mut self, slots: &[Slot]) {
        for (offset, slot) in (0..).step_by(8).zip(slots) {
            if !self.bridged_indices.contains_key(slot) {
                let value = self.use_slot(*slot);
                self.builder.ins().store(SLOTS, value, self.bridged, offset);
            }
        }
    }

    /// Returns the slots that are variables, in ascending order.
    pub(super) fn variables(&self) -> Vec<Slot> {
        let mut slots: Vec<Slot> = self.variables.keys().copied().collect();
        slots.sort_unstable();
        slots
    }
}

// Accesses to the `CallFrame`, and calls of helpers.
impl Emitter<'_, '_> {
    pub(super) fn load_call_field(&mut self, ty: Type, offset: usize) -> Value {
        self.builder.ins().load(ty, CALL, self.call_frame, offset as i32)
    }

    pub(super) fn store_call_field(&mut self, value: Value, offset: usize) {
        self.builder.ins().store(CALL, value, self.call_frame, offset as i32);
    }

    /// Loads a pointer from the [`CallFrame`]. Pointers there do not change while the code runs.
    pub(super) fn load_pointer(&mut self, offset: usize) -> Value {
        self.builder.ins().load(types::I64, readonly(CALL), self.call_frame, offset as i32)
    }

    pub(super) fn load_input(&mut self, input: NativeInput) -> Value {
        let offset = offset_of!(CallFrame, inputs) + 8 * input as usize;
        self.builder.ins().load(types::I64, readonly(CALL), self.call_frame, offset as i32)
    }

    /// Stores a word of the key to [`CallFrame::key`], where helpers read it.
    pub(super) fn store_key(&mut self, word: usize, value: Value) -> Result<(), Unsupported> {
        if word >= MAX_KEY_WORDS {
            return Err(Unsupported);
        }
        let key = self.load_pointer(offset_of!(CallFrame, key));
        self.builder.ins().store(CELLS, value, key, 8 * word as i32);
        Ok(())
    }

    /// Emits the call of a helper, which gets the address of the [`CallFrame`] and these arguments.
    pub(super) fn call_helper(&mut self, address: usize, args: &[Value], results: usize) -> Inst {
        let signature = *self.signatures.entry((args.len(), results)).or_insert_with(|| {
            let mut signature = Signature::new(CallConv::SystemV);
            signature.params = vec![AbiParam::new(types::I64); args.len() + 1];
            signature.returns = vec![AbiParam::new(types::I64); results];
            self.builder.import_signature(signature)
        });
        let address = self.iconst(address as u64);
        let args: Vec<Value> = [self.call_frame].into_iter().chain(args.iter().copied()).collect();
        self.builder.ins().call_indirect(signature, address, &args)
    }

    /// Returns a result of a helper call.
    pub(super) fn result(&mut self, call: Inst, index: usize) -> Value {
        self.builder.inst_results(call)[index]
    }
}

/// Returns the integer type of 1, 2, 4 or 8 bytes.
pub(super) fn int_type(bytes: u32) -> Type {
    match bytes {
        1 => types::I8,
        2 => types::I16,
        4 => types::I32,
        _ => types::I64,
    }
}

// Accesses to the frame.
impl Emitter<'_, '_> {
    /// Checks an access to `bytes` bytes of the frame and returns its offset. The furthest end of all accesses becomes
    /// [`Native::frame_room`](super::Native::frame_room). Fails beyond [`MAX_FRAME_ACCESS`].
    pub(super) fn frame_offset(&self, offset: u32, bytes: u32) -> Result<i32, Unsupported> {
        let end = offset as usize + bytes as usize;
        if end > MAX_FRAME_ACCESS {
            return Err(Unsupported);
        }
        self.max_frame_access.set(self.max_frame_access.get().max(end));
        Ok(offset as i32)
    }

    /// Loads `bytes` bytes (1, 2, 4 or 8) from byte `offset` of the frame on, in native byte order.
    pub(super) fn load_ne(&mut self, offset: u32, bytes: u32) -> Result<Value, Unsupported> {
        let offset = self.frame_offset(offset, bytes)?;
        let value = self.builder.ins().load(int_type(bytes), self.frame_flags, self.frame, offset);
        Ok(if bytes < 8 { self.builder.ins().uextend(types::I64, value) } else { value })
    }

    /// Same as [`Emitter::load_ne`], for a value that is used at once. The flags do not let the load move, so
    /// Cranelift fuses it with the zero extension, which saves an instruction.
    fn load_ne_in_place(&mut self, offset: u32, bytes: u32) -> Result<Value, Unsupported> {
        let checked = self.frame_offset(offset, bytes)?;
        Ok(match bytes {
            1 => self.builder.ins().uload8(types::I64, FRAME, self.frame, checked),
            2 => self.builder.ins().uload16(types::I64, FRAME, self.frame, checked),
            4 => self.builder.ins().uload32(FRAME, self.frame, checked),
            _ => return self.load_ne(offset, bytes),
        })
    }

    /// Loads a big-endian number of 1, 2, 4 or 8 bytes.
    pub(super) fn load_be(&mut self, offset: u32, bytes: u32) -> Result<Value, Unsupported> {
        let offset = self.frame_offset(offset, bytes)?;
        let mut value = self.builder.ins().load(int_type(bytes), self.frame_flags, self.frame, offset);
        if bytes > 1 {
            value = self.builder.ins().bswap(value);
        }
        Ok(if bytes < 8 { self.builder.ins().uextend(types::I64, value) } else { value })
    }

    /// Stores the low `bytes` bytes (1, 2, 4 or 8) of a number to `frame`, big-endian. `frame` is the old frame, or
    /// the new one of a packet with added headers.
    pub(super) fn store_be(
        &mut self,
        frame: Value,
        offset: u32,
        bytes: u32,
        value: Value,
    ) -> Result<StoredBytes, Unsupported> {
        let checked = self.frame_offset(offset, bytes)?;
        let mut value = if bytes < 8 { self.builder.ins().ireduce(int_type(bytes), value) } else { value };
        if bytes > 1 {
            value = self.builder.ins().bswap(value);
        }
        self.builder.ins().store(FRAME, value, frame, checked);
        let value = if bytes < 8 { self.builder.ins().uextend(types::I64, value) } else { value };
        Ok(StoredBytes { offset, bytes, value })
    }

    /// Loads `bits` bits of the frame from bit `begin` on, counted from the frame's first bit.
    pub(super) fn load_bits(&mut self, begin: u32, bits: u32) -> Result<Value, Unsupported> {
        let (first, end) = (begin / 8, (begin + bits).div_ceil(8));
        let bytes = (end - first).next_power_of_two();
        if bytes == 1 && self.frame_offset(first, 8).is_ok() {
            // Loading 8 bytes saves the zero extension; the byte is the lowest of the word. The load may
            // reach beyond the frame's length: code runs only on memory of at least `Native::frame_room`
            // bytes, and the mask clears the other bytes.
            let word = self.load_ne(first, 8)?;
            let value = self.shift_right(word, 8 * end - begin - bits);
            return Ok(self.mask(value, low_mask(bits)));
        }
        if bytes > 8 {
            return Err(Unsupported);
        }
        let word = self.load_be(first, bytes)?;
        let value = self.shift_right(word, (first + bytes) * 8 - begin - bits);
        // The mask clears the bits before the field, unless the field is all that was loaded.
        Ok(if begin == first * 8 && bytes * 8 - bits == 0 { value } else { self.mask(value, low_mask(bits)) })
    }

    /// Loads a field of the header that begins at byte `header` of the frame.
    pub(super) fn load_field(&mut self, header: u32, field: &FieldLoad) -> Result<Value, Unsupported> {
        let begin = (header + u32::from(field.offset)) * 8 + u32::from(field.left);
        self.load_bits(begin, 64 - u32::from(field.right))
    }

    /// Computes the Internet checksum (RFC 1071) of a header in native byte order: the inverted sum of its
    /// 16-bit words with end-around carry, without the word at byte `offset` of the header. For the bytes in
    /// `stored`, which have just been stored, the values are used instead of loads.
    pub(super) fn internet_checksum(
        &mut self,
        header: u32,
        bytes: u32,
        offset: u32,
        stored: &[StoredBytes],
    ) -> Result<Value, Unsupported> {
        let (mut position, skipped, end) = (header, header + offset, header + bytes);
        let mut sums = [self.iconst(0); 2];
        while position < end {
            if position == skipped {
                position += 2;
                continue;
            }
            let limit = if position < skipped { skipped } else { end };
            let fits =
                |stored: &&StoredBytes| stored.offset == position && stored.offset + stored.bytes <= limit;
            // One sum for words at even offsets, one for words at odd offsets (see below).
            let sum = &mut sums[(position - header) as usize % 2];
            if let Some(StoredBytes { bytes, value, .. }) = stored.iter().find(fits) {
                // A value of 8 bytes is added in halves, so that the sum cannot overflow.
                let (low, high) = (self.mask(*value, low_mask(32)), self.shift_right(*value, 32));
                *sum = self.builder.ins().iadd(*sum, low);
                if *bytes > 4 {
                    *sum = self.builder.ins().iadd(*sum, high);
                }
                position += bytes;
                continue;
            }
            let next = stored.iter().map(|stored| stored.offset).filter(|&offset| offset > position);
            let next = next.fold(limit, u32::min);
            let bytes = [4, 2, 1].into_iter().find(|&bytes| position + bytes <= next).ok_or(Unsupported)?;
            let word = self.load_ne_in_place(position, bytes)?;
            *sum = self.builder.ins().iadd(*sum, word);
            position += bytes;
        }
        // A byte at an odd offset belongs to the other half of its 16-bit word. With end-around carry, the
        // swap of the halves is a shift of the partial sum by 8 bits.
        let [even, odd] = sums;
        let odd = self.shift_left(odd, 8);
        let mut sum = self.builder.ins().iadd(even, odd);
        // Three folds suffice for any header within `MAX_FRAME_ACCESS` (512 bytes): the sum is at most about
        // 2^47 + 2^39, the first fold leaves less than 2^32, the second less than 2^17, and the third fits 16
        // bits.
        for _ in 0..3 {
            let (high, low) = (self.shift_right(sum, 16), self.mask(sum, 0xffff));
            sum = self.builder.ins().iadd(high, low);
        }
        let inverted = self.builder.ins().bnot(sum);
        Ok(self.mask(inverted, 0xffff))
    }
}
