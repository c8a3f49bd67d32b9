//! Writes and reads value sets of the parser. A write replaces the whole set. The pipeline stores the values;
//! this module stores the members as written, for reads.

use super::error::ControlError;
use super::externs::{object_by_id, objects_by_id};
use super::key::canonicalise;
use super::state::Control;
use super::value::to_width;
use crate::Switch;
use p4runtime::google::rpc::Code;
use p4runtime::p4::config::v1::ValueSet;
use p4runtime::p4::config::v1::match_field::{Match, MatchType};
use p4runtime::p4::v1::field_match::FieldMatchType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{ValueSetEntry, ValueSetMember};
use p4runtime::p4info::Object;

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
        let mut members = entry.members.clone();
        for member in &mut members {
            member.r#match.iter_mut().for_each(canonicalise);
            member.r#match.sort_by_key(|field| field.field_id);
        }
        if (1..members.len()).any(|i| members[..i].contains(&members[i])) {
            return Err(ControlError::exists(format!("value set {name}: duplicate member")));
        }
        let pipeline = switch.pipeline_mut();
        pipeline.value_set_clear(name)?;
        for value in values {
            pipeline.value_set_insert(name, &value)?;
        }
        self.value_sets.insert(entry.value_set_id, members);
        Ok(())
    }

    pub(super) fn read_value_sets(
        &self,
        request: &ValueSetEntry,
    ) -> Result<Vec<ValueSetEntry>, ControlError> {
        let found = objects_by_id(&self.index.value_sets, request.value_set_id)?.into_iter().map(|set| {
            let value_set_id = set.preamble().id;
            let members = self.value_sets.get(&value_set_id).cloned().unwrap_or_default();
            ValueSetEntry { value_set_id, members }
        });
        Ok(found.collect())
    }
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
    let padding = bits.len().next_multiple_of(8) - bits.len();
    bits.splice(0..0, std::iter::repeat_n(0, padding));
    Ok(bits.chunks(8).map(|octet| octet.iter().fold(0, |byte, bit| byte << 1 | bit)).collect())
}
