//! The state of a pipeline that persists between packets.

use super::api_types::CounterValue;
use super::hash::CalculationState;
use super::meter::Meter;
use super::scratch::Scratch;
use super::table_state::{ProfileState, Tables};
use crate::program::{Engine, Program};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use std::collections::BTreeSet;

/// BMv2's default drop port.
const DROP_PORT: u16 = 511;
/// BMv2's clock counts microseconds.
const TICKS_PER_SECOND: u64 = 1_000_000;

/// The state of one switch. Vectors are indexed by the indices of the program's tables, arrays and so on.
pub(super) struct State {
    pub tables: Tables,
    pub profiles: Vec<ProfileState>,
    /// The cells of all register arrays. [`RegisterArray`](crate::program::RegisterArray) has the range of
    /// each array. The length never changes.
    pub registers: Box<[u64]>,
    pub counters: Vec<Vec<CounterValue>>,
    pub meters: Vec<Vec<Meter>>,
    /// The members of each parser value set, as limbs, in the order in which they were added.
    pub value_sets: Vec<Vec<Vec<u64>>>,
    /// The members in the form that selects compare; see `lists` of the program's value sets.
    pub value_lists: Vec<Vec<Vec<u64>>>,
    pub calculations: Vec<CalculationState>,
    pub rng: Pcg64Mcg,
    pub drop_port: u16,
    pub engine: Engine,
    pub ticks_per_second: u64,
    /// The time that `Pipeline::set_now` set last, in ticks.
    pub now: u64,
    /// Number of failures of each assertion.
    pub failed_assertions: Vec<u64>,
    /// Index of the assertion that just failed, if it is the first failure in all switches with this program.
    pub first_failure: Option<usize>,
    /// The ports that are up, for the watch ports of groups; `None` if the port states are unknown.
    pub ports_up: Option<BTreeSet<u16>>,
    /// Memory for this program.
    pub scratch: Box<Scratch>,
}

impl State {
    pub(super) fn new(program: &Program, seed: u64) -> State {
        // A direct counter or meter has its cells in `TableExtras`, one per entry, so its array stays empty.
        let cells = |size: usize, is_direct: bool| if is_direct { 0 } else { size };
        let mut scratch = Box::<Scratch>::default();
        scratch.fit(program);
        State {
            tables: Tables::new(program),
            profiles: vec![ProfileState::default(); program.profiles.len()],
            registers: vec![0; program.register_words].into_boxed_slice(),
            counters: program
                .counters
                .iter()
                .map(|array| vec![CounterValue::default(); cells(array.size, array.is_direct)])
                .collect(),
            meters: program
                .meters
                .iter()
                .map(|array| vec![Meter::default(); cells(array.size, array.is_direct)])
                .collect(),
            value_sets: vec![Vec::new(); program.parser.value_sets.len()],
            value_lists: vec![Vec::new(); program.parser.value_list_count],
            calculations: vec![CalculationState::default(); program.calculations.len()],
            rng: Pcg64Mcg::seed_from_u64(seed),
            drop_port: DROP_PORT,
            engine: program.engine,
            ticks_per_second: TICKS_PER_SECOND,
            now: 0,
            failed_assertions: vec![0; program.assertions.len()],
            first_failure: None,
            ports_up: None,
            scratch,
        }
    }
}

impl CounterValue {
    /// Counts one packet of this many bytes.
    #[inline]
    pub(super) fn count(&mut self, bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }
}
