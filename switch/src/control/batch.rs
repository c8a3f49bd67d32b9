//! A write of several updates, with the three kinds of atomicity of P4Runtime (section 12.2).

use super::error::ControlError;
use super::replication::{deleted_session_group, set_session_group};
use super::state::Control;
use crate::Switch;
use p4runtime::google::rpc::Code;
pub use p4runtime::p4::v1::write_request::Atomicity;
use p4runtime::p4::v1::{Update, WriteRequest};
use prost::Message;
use std::collections::BTreeMap;

/// A write in progress. It may be applied in steps, so that packets can be processed in between. If no packet
/// may see a partly applied batch, apply it in one step.
#[derive(Debug)]
pub struct Batch {
    len: usize,
    atomicity: Atomicity,
    results: Vec<Result<(), ControlError>>,
    /// The inverses of the updates applied so far; empty if the batch is never rolled back.
    undo: UndoLog,
    /// The multicast groups of deleted clone sessions, by session. An inverse update cannot restore them.
    session_groups: BTreeMap<u16, u16>,
    /// True after the first failed update.
    has_failed: bool,
}

/// A stack of inverse updates. They are stored encoded, because decoded ones take ten times the memory.
#[derive(Debug, Default)]
struct UndoLog {
    /// Concatenated `WriteRequest`s.
    bytes: Vec<u8>,
    /// Offset of each request in `bytes`.
    starts: Vec<usize>,
}

impl UndoLog {
    fn push(&mut self, updates: Vec<Update>) {
        self.starts.push(self.bytes.len());
        self.bytes.extend(WriteRequest { updates, ..WriteRequest::default() }.encode_to_vec());
    }

    /// Removes and returns the updates that were pushed last.
    fn pop(&mut self) -> Option<Vec<Update>> {
        let encoded = self.bytes.split_off(self.starts.pop()?);
        Some(WriteRequest::decode(encoded.as_slice()).unwrap_or_default().updates)
    }
}

impl Batch {
    /// Creates a batch of `len` updates; [`Batch::step`] applies them.
    pub fn new(len: usize, atomicity: Atomicity) -> Batch {
        Batch {
            len,
            atomicity,
            results: Vec::new(),
            undo: UndoLog::default(),
            session_groups: BTreeMap::new(),
            has_failed: false,
        }
    }

    /// Applies the next updates. An `Err` in `updates` stands for an update that could not be decoded and counts
    /// as failed. Returns `true` at the end of the batch.
    pub fn step(
        &mut self,
        control: &mut Control,
        switch: &mut Switch,
        updates: impl IntoIterator<Item = Result<Update, ControlError>>,
    ) -> bool {
        for update in updates {
            let result = update.and_then(|update| self.apply(control, switch, &update));
            self.has_failed |= result.is_err();
            self.results.push(result);
            if self.has_failed && self.atomicity != Atomicity::ContinueOnError {
                // Fills `results`, which ends the batch.
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
        let group = deleted_session_group(switch, update);
        control.apply(switch, update)?;
        self.undo.push(undo);
        if let Some((session, group)) = group {
            // If a batch deletes a session twice, only the first group is that of the state before the batch.
            self.session_groups.entry(session).or_insert(group);
        }
        Ok(())
    }

    /// Undoes all applied updates, the last one first. All updates except the one that failed are then
    /// reported as aborted.
    fn roll_back(&mut self, control: &mut Control, switch: &mut Switch) {
        let mut rollback_error = None;
        while let Some(updates) = self.undo.pop() {
            for update in updates {
                // An inverse may fail if the state changed in the meantime, for example through Thrift. The
                // applied updates are then INTERNAL instead of ABORTED, since the switch is in neither state.
                if let Err(error) = control.apply(switch, &update) {
                    rollback_error.get_or_insert(error);
                }
            }
        }
        for (session, group) in std::mem::take(&mut self.session_groups) {
            if let Err(error) = set_session_group(switch, session, group) {
                rollback_error.get_or_insert(error);
            }
        }
        let aborted = || match &rollback_error {
            None => ControlError::new(Code::Aborted, "rolled back: another update of the batch failed"),
            Some(error) => ControlError::new(Code::Internal, format!("rollback failed: {}", error.message)),
        };
        for result in self.results.iter_mut().filter(|result| result.is_ok()) {
            *result = Err(aborted());
        }
        let not_attempted =
            || Err(ControlError::new(Code::Aborted, "not attempted: another update of the batch failed"));
        self.results.resize_with(self.len, not_attempted);
    }

    /// Returns the results of the updates so far, in order. After a rollback, updates that did not fail
    /// themselves are ABORTED.
    pub fn results(&self) -> &[Result<(), ControlError>] {
        &self.results
    }
}
