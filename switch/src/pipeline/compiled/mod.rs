//! The fast engine's parser, checksums and deparser. What they leave out, the interpreter does.

mod run;
#[cfg(test)]
mod tests;

use super::Engine;
use super::frame::Window;
use super::parse::{Frame, STATE_BUDGET};
use super::trace::Tracer;
use crate::program::{
    Emission, FastState as State, Get, Group, ORIGIN, Select, Step, VALID, WINDOW, WireChecksum,
};

const VALID_SLOT: usize = VALID as usize;
const ORIGIN_SLOT: usize = ORIGIN as usize;

impl<T: Tracer> Frame<'_, T> {
    /// Whether the fast engine runs the packet.
    #[inline]
    pub fn is_compiled(&self) -> bool {
        !T::ENABLED && self.state.engine == Engine::Compiled
    }

    /// Parses the packet and verifies its checksums: the parser's error, and whether all are right.
    #[inline]
    pub fn parse_and_verify(&mut self) -> (u32, bool) {
        if !self.is_compiled() {
            return (self.parse(), self.verify_checksums());
        }
        let (mut at, errors) = (0, &self.program.parser.errors);
        let error = self.states_compiled(&mut at).err().unwrap_or(errors.no_error);
        self.packet.phv.parsed = at as u32;
        self.packet.phv.partial = true;
        (error, self.verify_compiled())
    }

    fn states_compiled(&mut self, at: &mut usize) -> Result<(), u32> {
        let program = self.program;
        let (mut next, mut budget) = (program.parser.start, STATE_BUDGET);
        while let Some(number) = next {
            let (frame, len, phv) = self.packet.parts();
            match run_states(
                &program.compiled.states,
                (&*frame, len),
                &mut phv.slots,
                (number, at, &mut budget),
            ) {
                Stop::Accepted => return Ok(()),
                Stop::Timeout => return Err(program.parser.errors.timeout),
                Stop::At { number, step } => {
                    for op in &program.parser.states[usize::from(number)].ops[step..] {
                        self.step(op, at)?;
                    }
                    next = self.transition(number, *at)?;
                }
            }
        }
        Ok(())
    }

    fn verify_compiled(&mut self) -> bool {
        let program = self.program;
        let mut all = true;
        for (checksum, wire) in program.checksums.iter().zip(&program.compiled.verified) {
            if !checksum.verify {
                continue;
            }
            all &= match wire.as_ref().and_then(|wire| self.wire_sum(wire)) {
                Some((sum, found)) => found == sum,
                None => self.verify(checksum),
            };
        }
        all
    }

    /// What a checksum over a header in the frame should be, and what it is; None if the header did not come from there.
    fn wire_sum(&mut self, wire: &WireChecksum) -> Option<(u16, u16)> {
        let base = usize::from(wire.base);
        let (frame, _, phv) = self.packet.parts();
        if phv.slots[base + VALID_SLOT] == 0 {
            return Some((0, 0));
        }
        let from = (phv.slots[base + ORIGIN_SLOT] as usize).checked_sub(1)?;
        let header = frame.get(from..from + usize::from(wire.bytes))?;
        let (sum, field) = sum(header, usize::from(wire.offset));
        Some((sum, field))
    }

    /// Takes the fields that the fast engine left in the frame, for the interpreter.
    pub fn complete(&mut self) {
        if self.packet.phv.partial && !self.is_compiled() {
            self.take_missing();
        }
    }

    #[cold]
    fn take_missing(&mut self) {
        let program = self.program;
        let (frame, _, phv) = self.packet.parts();
        phv.partial = false;
        for (header, missing) in program.layout.headers.iter().zip(&program.compiled.missing) {
            let base = usize::from(header.base);
            let origin = (phv.slots[base + ORIGIN_SLOT] as usize).checked_sub(1);
            let origin = origin.filter(|_| !missing.is_empty() && phv.slots[base + VALID_SLOT] != 0);
            let window = origin.and_then(|from| frame.get(from..)).and_then(|rest| rest.first_chunk());
            if let Some(window) = window {
                get_all(missing, window, &mut phv.slots);
            }
        }
    }

    /// Puts the packet together again.
    #[inline]
    pub fn put_together(&mut self) {
        match &self.program.compiled.deparser {
            Some(emissions) if self.is_compiled() => self.deparse_compiled(emissions),
            _ => self.deparse(),
        }
    }

    fn deparse_compiled(&mut self, emissions: &[Emission]) {
        let program = self.program;
        let parsed = self.packet.phv.parsed as usize;
        if program.compiled.updates {
            self.update_checksums(&program.compiled.updated);
        }
        if let Some(code) = program.deparser.code {
            self.run(code, parsed);
        }
        // The headers at the front that were next to each other in the frame, and still are, change where they are.
        let (frame, _, phv) = self.packet.parts();
        let slots = phv.slots.as_slice();
        let (mut kept, mut rest) = (0, emissions);
        while let Some((emission, behind)) = rest.split_first() {
            match marks(slots, emission) {
                [0, _] => {}
                [_, origin] if origin == kept as u64 + 1 => {
                    write(emission, &emission.changed, &mut frame[kept..], slots);
                    kept += usize::from(emission.bytes);
                }
                _ => break,
            }
            rest = behind;
        }
        let behind = || rest.iter().filter(|emission| marks(slots, emission)[0] != 0);
        let more: usize = behind().map(|emission| usize::from(emission.bytes)).sum();
        let total = kept + more;
        if total == parsed && more == 0 {
            phv.parsed = 0;
            return;
        }
        let is_new = |emission: &Emission| marks(slots, emission)[1] == 0;
        let old = &mut self.state.old;
        old.clear();
        let moved = total >= parsed && behind().all(is_new);
        if !moved {
            let (frame, len, _) = self.packet.parts();
            old.extend_from_slice(&frame[..parsed.min(len)]);
        }
        self.packet.resize_front(parsed, total);
        let (frame, _, phv) = self.packet.parts();
        phv.parsed = 0;
        // They move to the front as a whole, if the others need more room than there was behind them.
        match moved {
            true if total > parsed => frame.copy_within(total - parsed..total - parsed + kept, 0),
            true => {}
            false => frame[..kept].copy_from_slice(&old[..kept]),
        }
        let (slots, mut at) = (phv.slots.as_slice(), kept);
        for emission in rest {
            let [valid, origin] = marks(slots, emission);
            if valid == 0 {
                continue;
            }
            let (header, bytes) = (&mut frame[at..], usize::from(emission.bytes));
            let from = (origin as usize).checked_sub(1).and_then(|from| old.get(from..from + bytes));
            match from {
                Some(from) => header[..bytes].copy_from_slice(from),
                None => header[..bytes].fill(0),
            }
            let groups = if from.is_some() { &emission.changed } else { &emission.whole };
            write(emission, groups, header, slots);
            at += bytes;
        }
    }
}

/// Whether a header is valid, and where it came from.
#[inline]
fn marks(slots: &[u64], emission: &Emission) -> [u64; 2] {
    let block = slots.get(usize::from(emission.base)..).and_then(|block| block.first_chunk());
    block.copied().unwrap_or_default()
}

/// Writes fields of a header, and then its checksum.
#[inline]
fn write(emission: &Emission, groups: &[Group], header: &mut [u8], slots: &[u64]) {
    if let Some(window) = header.first_chunk_mut().filter(|_| !groups.is_empty()) {
        put_all(groups, window, slots);
    }
    if let Some(wire) = &emission.checksum {
        let offset = usize::from(wire.offset);
        let (sum, _) = sum(&header[..usize::from(wire.bytes)], offset);
        header[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// Why the fast engine's parser stopped.
enum Stop {
    Accepted,
    Timeout,
    /// The interpreter goes on in this state with this operation.
    At {
        number: u16,
        step: usize,
    },
}

/// Runs parser states as far as the fast engine can.
fn run_states(
    states: &[State],
    (frame, len): (&[u8], usize),
    slots: &mut [u64],
    (mut number, at, budget): (u16, &mut usize, &mut u32),
) -> Stop {
    let mut begin = *at;
    loop {
        *budget -= 1;
        if *budget == 0 {
            return Stop::Timeout;
        }
        let Some(state) = states.get(usize::from(number)) else { return Stop::Accepted };
        for (step, it) in state.steps.iter().enumerate() {
            let window = frame.get(begin..).and_then(|rest| rest.first_chunk());
            let (Step::Extract { base, bytes, lazy, gets }, Some(window)) = (it, window) else {
                return Stop::At { number, step };
            };
            let end = begin + usize::from(*bytes);
            if end > len {
                return Stop::At { number, step };
            }
            get_all(gets, window, slots);
            if let Some(marks) = slots.get_mut(usize::from(*base)..).and_then(|block| block.first_chunk_mut())
            {
                *marks = [1, if *lazy { begin as u64 + 1 } else { 0 }];
            }
            begin = end;
            *at = end;
        }
        let next = match &state.select {
            Select::Always(next) => *next,
            Select::Word { parts, cases, default } => {
                let part = |slot: u16| slots.get(usize::from(slot)).copied().unwrap_or(0);
                let key = parts.iter().fold(0, |key, (slot, up)| key | part(*slot) << (up & 63));
                let found = cases.iter().find(|(mask, value, _)| key & mask == *value);
                found.map_or(*default, |(_, _, next)| *next)
            }
            Select::Interpret => return Stop::At { number, step: state.steps.len() },
        };
        match next {
            Some(next) => number = next,
            None => return Stop::Accepted,
        }
    }
}

const _: () = assert!(VALID == 0 && ORIGIN == 1, "a block begins with these two");

#[inline]
fn get_all(gets: &[Get], window: &Window, slots: &mut [u64]) {
    for get in gets {
        let word = window_word(window, get.offset);
        if let Some(slot) = slots.get_mut(usize::from(get.slot)) {
            *slot = word << (get.left & 63) >> (get.right & 63);
        }
    }
}

#[inline]
fn window_word(window: &Window, offset: u8) -> u64 {
    window[usize::from(offset) % WINDOW..].first_chunk().map_or(0, |word| u64::from_be_bytes(*word))
}

#[inline]
fn put_all(groups: &[Group], window: &mut Window, slots: &[u64]) {
    for group in groups {
        let mut word = window_word(window, group.offset) & group.keep;
        for put in &group.fields {
            let value = slots.get(usize::from(put.slot)).copied().unwrap_or(0);
            word |= value << (put.left & 63) >> (put.right & 63);
        }
        if let Some(to) = window[usize::from(group.offset) % WINDOW..].first_chunk_mut() {
            *to = word.to_be_bytes();
        }
    }
}

/// The Internet checksum (RFC 1071) of a header without the 16 bits at `offset`, and those bits.
fn sum(header: &[u8], offset: usize) -> (u16, u16) {
    let word = |bytes: &[u8; 4]| u64::from(u32::from_be_bytes(*bytes));
    // 32-bit words add up to the same as their halves, as 2^16 is 1 modulo 2^16 - 1.
    let total = header.as_chunks().0.iter().map(word).sum::<u64>();
    let field = header
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |field| u16::from_be_bytes(*field));
    let up = if offset.is_multiple_of(4) { 16 } else { 0 };
    let mut rest = total - (u64::from(field) << up);
    rest = (rest & 0xffff_ffff) + (rest >> 32);
    rest = (rest & 0xffff) + (rest >> 16);
    while rest > u64::from(u16::MAX) {
        rest = (rest & 0xffff) + (rest >> 16);
    }
    (!(rest as u16), field)
}
