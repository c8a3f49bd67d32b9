//! The enabled digests and their configurations. The server that sends digest lists reads them here.

use super::error::ControlError;
use super::externs::{object_by_id, objects_by_id};
use super::state::Control;
use p4runtime::p4::v1::DigestEntry;
use p4runtime::p4::v1::digest_entry::Config;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4info::Object;
use std::collections::BTreeMap;

impl Control {
    /// Returns the configurations of the enabled digests, by id.
    pub fn digest_settings(&self) -> &BTreeMap<u32, Config> {
        &self.digests
    }

    pub(super) fn write_digest(&mut self, kind: Type, entry: &DigestEntry) -> Result<(), ControlError> {
        let preamble = object_by_id(&self.index.digests, entry.digest_id)?.preamble();
        let (name, id) = (&preamble.name, preamble.id);
        match (kind, self.digests.contains_key(&id)) {
            (Type::Insert, true) => Err(ControlError::exists(format!("digest {name} is enabled already"))),
            (Type::Modify | Type::Delete, false) => {
                Err(ControlError::not_found(format!("digest {name} is not enabled; INSERT it first")))
            }
            (Type::Delete, true) => {
                self.digests.remove(&id);
                Ok(())
            }
            _ => {
                let config = entry.config.unwrap_or_default();
                let fields = [
                    ("max_timeout_ns", config.max_timeout_ns),
                    ("max_list_size", config.max_list_size.into()),
                    ("ack_timeout_ns", config.ack_timeout_ns),
                ];
                if let Some((field, value)) = fields.into_iter().find(|&(_, value)| value < 0) {
                    return Err(ControlError::invalid(format!("digest {name}: {field} {value} is negative")));
                }
                self.digests.insert(id, config);
                Ok(())
            }
        }
    }

    pub(super) fn read_digests(&self, request: &DigestEntry) -> Result<Vec<DigestEntry>, ControlError> {
        let ids = objects_by_id(&self.index.digests, request.digest_id)?
            .into_iter()
            .map(|digest| digest.preamble().id);
        let found = ids.filter_map(|digest_id| {
            let config = Some(*self.digests.get(&digest_id)?);
            Some(DigestEntry { digest_id, config })
        });
        Ok(found.collect())
    }
}
