//! A write of many updates, with the three kinds of atomicity that P4Runtime defines (section 12.2).

use super::{Control, ControlError};
use crate::Switch;
use p4runtime::google::rpc::Code;
pub use p4runtime::p4::v1::write_request::Atomicity;
use p4runtime::p4::v1::{Update, WriteRequest};
use prost::Message;

/// A batch that is being applied. It is applied in steps, so that packets can move between them; a batch that
/// must be atomic for packets has to be applied in one.
#[derive(Debug)]
pub struct Batch {
    /// The number of updates.
    len: usize,
    atomicity: Atomicity,
    results: Vec<Result<(), ControlError>>,
    /// The updates that undo those applied so far; kept if the batch may be rolled back.
    undo: UndoLog,
    failed: bool,
}

/// A stack of updates that take something back, encoded: decoded they take ten times the memory.
#[derive(Debug, Default)]
struct UndoLog {
    /// One `WriteRequest` after the other.
    bytes: Vec<u8>,
    /// Position of each of them.
    starts: Vec<usize>,
}

impl UndoLog {
    fn push(&mut self, updates: Vec<Update>) {
        self.starts.push(self.bytes.len());
        self.bytes.extend(WriteRequest { updates, ..WriteRequest::default() }.encode_to_vec());
    }

    /// Removes the updates that were pushed last.
    fn pop(&mut self) -> Option<Vec<Update>> {
        let encoded = self.bytes.split_off(self.starts.pop()?);
        Some(WriteRequest::decode(encoded.as_slice()).unwrap_or_default().updates)
    }
}

impl Batch {
    /// Creates a batch of `len` updates; none is applied yet.
    pub fn new(len: usize, atomicity: Atomicity) -> Batch {
        Batch { len, atomicity, results: Vec::new(), undo: UndoLog::default(), failed: false }
    }

    /// Applies the next updates; an error in `updates` stands for one that cannot be read. Returns `true` at
    /// the end of the batch.
    pub fn step(
        &mut self,
        control: &mut Control,
        switch: &mut Switch,
        updates: impl IntoIterator<Item = Result<Update, ControlError>>,
    ) -> bool {
        for update in updates {
            let result = update.and_then(|update| self.apply(control, switch, &update));
            self.failed |= result.is_err();
            self.results.push(result);
            if self.failed && self.atomicity != Atomicity::ContinueOnError {
                self.roll_back(control, switch);
            }
            if self.results.len() >= self.len {
                break;
            }
        }
        self.results.len() >= self.len
    }

    fn apply(
        &mut self,
        control: &mut Control,
        switch: &mut Switch,
        update: &Update,
    ) -> Result<(), ControlError> {
        if self.atomicity == Atomicity::ContinueOnError {
            return control.apply(switch, update);
        }
        let undo = control.inverse_updates(switch, update)?;
        control.apply(switch, update)?;
        self.undo.push(undo);
        Ok(())
    }

    /// Takes everything back, the last first. All updates but the one that failed are then reported as aborted.
    fn roll_back(&mut self, control: &mut Control, switch: &mut Switch) {
        let mut broken = None;
        while let Some(updates) = self.undo.pop() {
            for update in updates {
                if let Err(error) = control.apply(switch, &update) {
                    broken.get_or_insert(error);
                }
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
        self.results.resize_with(self.len, rest);
    }

    /// Returns the result of each update so far, in their order. An error is the reason for which the update was
    /// refused, or ABORTED if the batch was rolled back.
    pub fn results(&self) -> &[Result<(), ControlError>] {
        &self.results
    }
}
