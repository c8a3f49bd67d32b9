//! A write of many updates, with the three ways in which P4Runtime lets it fail (§12.2).

use super::{Control, ControlError};
use crate::Switch;
use weir_proto::google::rpc::Code;
use weir_proto::p4::v1::Update;
pub use weir_proto::p4::v1::write_request::Atomicity;

/// A batch on its way. It is applied in steps, so that packets can move between them; a batch that must be atomic
/// for packets is applied in one.
#[derive(Debug)]
pub struct Batch {
    updates: Vec<Update>,
    atomicity: Atomicity,
    results: Vec<Result<(), ControlError>>,
    /// What takes back the updates so far, in their order; kept if the batch may be rolled back.
    undo: Vec<Vec<Update>>,
    failed: bool,
}

impl Batch {
    /// A batch of which nothing is applied yet.
    pub fn new(updates: Vec<Update>, atomicity: Atomicity) -> Batch {
        let results = Vec::with_capacity(updates.len());
        Batch { updates, atomicity, results, undo: Vec::new(), failed: false }
    }

    /// Applies up to `most` further updates; all of them if no packet may come between. `true` if that was the end.
    pub fn step(&mut self, control: &mut Control, switch: &mut Switch, most: usize) -> bool {
        let first = self.results.len();
        let last = match self.atomicity {
            Atomicity::DataplaneAtomic => self.updates.len(),
            _ => self.updates.len().min(first.saturating_add(most.max(1))),
        };
        for at in first..last {
            let result = self.apply(control, switch, at);
            self.failed |= result.is_err();
            self.results.push(result);
            if self.failed && self.atomicity != Atomicity::ContinueOnError {
                self.roll_back(control, switch);
                return true;
            }
        }
        last == self.updates.len()
    }

    fn apply(&mut self, control: &mut Control, switch: &mut Switch, at: usize) -> Result<(), ControlError> {
        let update = &self.updates[at];
        if self.atomicity == Atomicity::ContinueOnError {
            return control.apply(switch, update);
        }
        let undo = control.undo_of(switch, update)?;
        control.apply(switch, update)?;
        self.undo.push(undo);
        Ok(())
    }

    /// Takes everything back, the last first. All updates but the one that failed are then reported as aborted.
    fn roll_back(&mut self, control: &mut Control, switch: &mut Switch) {
        let mut broken = None;
        for update in self.undo.drain(..).rev().flatten() {
            if let Err(error) = control.apply(switch, &update) {
                broken.get_or_insert(error);
            }
        }
        let aborted = || match &broken {
            None => {
                ControlError::new(Code::Aborted, "taken back, because another update of the batch failed")
            }
            Some(error) => {
                ControlError::new(Code::Internal, format!("could not be taken back: {}", error.message))
            }
        };
        for result in self.results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(aborted());
        }
        let rest =
            || Err(ControlError::new(Code::Aborted, "not tried, because another update of the batch failed"));
        self.results.resize_with(self.updates.len(), rest);
    }

    /// What became of each update, in their order.
    pub fn results(&self) -> &[Result<(), ControlError>] {
        &self.results
    }
}
