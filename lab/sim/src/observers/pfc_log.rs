//! Records the PFC frames that switches send.

use super::events::{Observer, PfcEvent};
use weir_controller::topology::Topology;
use weir_experiment::results::PauseRecord;

/// The PFC frames that the switches of a process sent.
#[derive(Default)]
pub struct PfcLog {
    /// By time.
    events: Vec<PfcEvent>,
    /// Pause frames minus resume frames.
    outstanding: i64,
}

impl PfcLog {
    /// Returns pause frames minus resume frames: greater than 0 while a switch pauses a neighbour.
    pub(crate) fn outstanding<'o>(all: impl Iterator<Item = &'o PfcLog>) -> i64 {
        all.map(|log| log.outstanding).sum()
    }

    /// Returns the frames of all processes, by time.
    pub(crate) fn merge<'o>(all: impl Iterator<Item = &'o PfcLog>, topology: &Topology) -> Vec<PauseRecord> {
        let mut events: Vec<_> = all.flat_map(|log| &log.events).collect();
        // Stable: the events of one process keep their order.
        events.sort_by_key(|event| event.time);
        let record = |&PfcEvent { time, switch, port, frame }: &PfcEvent| PauseRecord {
            time,
            switch: topology.switch(switch).name.clone(),
            port,
            priority: frame.priority,
            is_pause: frame.quanta.is_pause(),
        };
        events.into_iter().map(record).collect()
    }
}

impl Observer for PfcLog {
    fn on_pfc(&mut self, &PfcEvent { time, switch, port, frame }: &PfcEvent) {
        self.events.push(PfcEvent { time, switch, port, frame });
        self.outstanding += if frame.quanta.is_pause() { 1 } else { -1 };
    }
}
