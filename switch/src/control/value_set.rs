//! Writes and reads value sets of the parser. A write replaces the whole set. Only exact fields are supported, so the
//! values in the pipeline are enough to read the members back in canonical form.

use super::error::ControlError;
use super::externs::{object_by_id, objects_by_id};
use super::state::Control;
use super::value::to_width;
use crate::Switch;
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::config::v1::{MatchField, ValueSet};
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType};
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{FieldMatch, ValueSetEntry, ValueSetMember};
use p4runtime::p4info::Object;
use p4runtime::value::canonical;

impl Control {
    pub(super) fn write_value_set(
        &mut self,
        switch: &mut Switch,
        kind: Type,
        entry: &ValueSetEntry,
    ) -> Result<(), ControlError> {
        if kind != Type::Modify {
            return Err(ControlError::invalid("a value set can only be modified"));
        }
        let set = object_by_id(&self.index.value_sets, entry.value_set_id)?;
        let name = &set.preamble().name;
        if entry.members.len() as u64 > set.size.max(0) as u64 {
            let message =
                format!("value set {name}: {} members exceed its size of {}", entry.members.len(), set.size);
            return Err(ControlError::new(Code::ResourceExhausted, message));
        }
        let values = entry.members.iter().map(|member| member_value(set, member));
        let values =
            values.collect::<Result<Vec<_>, _>>().map_err(|e| e.context(format_args!("value set {name}")))?;
        if (1..values.len()).any(|i| values[..i].contains(&values[i])) {
            return Err(ControlError::exists(format!("value set {name}: duplicate member")));
        }
        let pipeline = switch.pipeline_mut();
        pipeline.value_set_clear(name)?;
        for value in values {
            pipeline.value_set_insert(name, &value)?;
        }
        Ok(())
    }

    pub(super) fn read_value_sets(
        &self,
        switch: &Switch,
        request: &ValueSetEntry,
    ) -> Result<Vec<ValueSetEntry>, ControlError> {
        let found = objects_by_id(&self.index.value_sets, request.value_set_id)?.into_iter().map(|set| {
            // A set that no state of the parser uses may be missing in the pipeline.
            let values = switch.pipeline().value_set_values(&set.preamble().name).unwrap_or_default();
            let members = values.iter().map(|value| member(set, value)).collect();
            ValueSetEntry { value_set_id: set.preamble().id, members }
        });
        Ok(found.collect())
    }
}

/// Returns the member with this value: splits it into the set's fields.
fn member(set: &ValueSet, value: &[u8]) -> ValueSetMember {
    let bits =
        value.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1)).collect::<Vec<u8>>();
    let mut start = bits.len().saturating_sub(set.r#match.iter().map(width).sum());
    let field = |field: &MatchField| {
        let end = (start + width(field)).min(bits.len());
        let exact = Exact { value: canonical(&pack(&bits[start.min(end)..end])) };
        start = end;
        FieldMatch { field_id: field.id, field_match_type: Some(FieldMatchType::Exact(exact)) }
    };
    let mut fields: Vec<FieldMatch> = set.r#match.iter().map(field).collect();
    fields.sort_by_key(|field| field.field_id);
    ValueSetMember { r#match: fields }
}

fn width(field: &MatchField) -> usize {
    usize::try_from(field.bitwidth).unwrap_or(0)
}

/// Packs bits into bytes, right-aligned.
fn pack(bits: &[u8]) -> Vec<u8> {
    bits.rchunks(8).rev().map(|octet| octet.iter().fold(0, |byte, bit| byte << 1 | bit)).collect()
}

/// Returns a member as one number: its fields concatenated without padding.
fn member_value(set: &ValueSet, member: &ValueSetMember) -> Result<Vec<u8>, ControlError> {
    if member.r#match.len() != set.r#match.len() {
        return Err(ControlError::invalid(format!(
            "a member has {} fields, the value set has {}",
            member.r#match.len(),
            set.r#match.len()
        )));
    }
    let mut bits = Vec::new();
    for field in &set.r#match {
        if field.r#match != Some(Match::MatchType(MatchType::Exact.into())) {
            return Err(ControlError::unimplemented("only exact fields are supported, as in BMv2"));
        }
        let given = member.r#match.iter().find(|given| given.field_id == field.id);
        let given =
            given.ok_or_else(|| ControlError::invalid(format!("a member has no field {}", field.id)))?;
        let Some(FieldMatchType::Exact(exact)) = &given.field_match_type else {
            return Err(ControlError::invalid(format!("field {} has match kind EXACT", field.id)));
        };
        let bytes = to_width(&exact.value, field.bitwidth)?;
        let padding = bytes.len() * 8 - field.bitwidth.unsigned_abs() as usize;
        let padded = bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1));
        bits.extend(padded.skip(padding));
    }
    Ok(pack(&bits))
}
