//! Finds the fields of v1model's standard metadata that the target itself (BMv2's simple_switch) reads and writes.

use super::error::LoadError;
use super::json::JsonNode;
use super::layout::{HeaderId, Layout, SlotAllocator, SlotRef};
use super::op::Slot;
use std::collections::HashMap;

/// The slots of the fields that the target itself reads and writes. A field that the program does not have gets a slot
/// all the same, which is 0 at the beginning of each packet: the pipeline needs no special case.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StandardMetadata {
    pub ingress_port: Slot,
    pub packet_length: Slot,
    pub egress_spec: Slot,
    pub egress_port: Slot,
    pub instance_type: Slot,
    pub ingress_timestamp: Slot,
    pub egress_timestamp: Slot,
    pub mcast_grp: Slot,
    pub egress_rid: Slot,
    pub priority: Slot,
    pub parser_error: Slot,
    pub checksum_error: Slot,
    pub enq_timestamp: Slot,
    pub enq_qdepth: Slot,
    pub deq_timedelta: Slot,
    pub deq_qdepth: Slot,
    pub qid: Slot,
    // Widths in bits, which a program may choose.
    pub enq_timestamp_bits: u32,
    pub deq_timedelta_bits: u32,
    pub qdepth_bits: u32,
    pub port_bits: u32,
    /// 0 if the program has no `mcast_grp` field.
    pub mcast_grp_bits: u32,
}

/// Fields by the names under which simple_switch looks them up.
pub(crate) type FieldAliases = HashMap<String, (HeaderId, usize)>;

/// Loads the aliases of a program, such as `intrinsic_metadata.mcast_grp` for `standard_metadata.mcast_grp`.
pub(super) fn load_aliases(root: &JsonNode, layout: &Layout) -> Result<FieldAliases, LoadError> {
    let mut aliases = FieldAliases::new();
    for node in root.list("field_aliases")? {
        let [from, to] = node.tuple()?;
        let field = layout.field(&to)?;
        aliases.insert(from.str()?.to_string(), field);
    }
    Ok(aliases)
}

impl StandardMetadata {
    pub(crate) fn load(
        root: &JsonNode,
        layout: &Layout,
        aliases: &FieldAliases,
        slots: &mut SlotAllocator,
    ) -> Result<StandardMetadata, LoadError> {
        const QUEUEING: &str = "queueing_metadata";
        // Fields of more than 64 bits are treated as missing: the target reads and writes single slots.
        let find_field = |header: &str, field: &str| {
            let alias = aliases.get(&format!("{header}.{field}")).copied();
            let found = alias.or_else(|| layout.find(header, field))?;
            let bits = layout.field_info(found).bits;
            (bits <= 64).then(|| SlotRef::unsigned(layout.slot(found), bits))
        };
        let find_required = |field: &str| {
            let missing =
                || root.error(format_args!("the program has no standard_metadata.{field}: is it v1model?"));
            find_field("standard_metadata", field).ok_or_else(missing)
        };
        let (ingress_port, packet_length) = (find_required("ingress_port")?, find_required("packet_length")?);
        let (egress_port, instance_type) = (find_required("egress_port")?, find_required("instance_type")?);
        let egress_spec = find_required("egress_spec")?;
        // As in BMv2, the queueing fields are ignored unless the program has all of them
        // (`SimpleSwitch::check_queueing_metadata`).
        let has_queueing = ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"]
            .iter()
            .all(|field| find_field(QUEUEING, field).is_some());
        let mut optional = |header: &str, field: &str| match find_field(header, field)
            .filter(|_| has_queueing || header != QUEUEING)
        {
            Some(slot_ref) => Ok((slot_ref.slot, slot_ref.bits)),
            None => slots.alloc(root, 1).map(|slot| (slot, 64)),
        };
        let (enq_timestamp, enq_timestamp_bits) = optional(QUEUEING, "enq_timestamp")?;
        let (deq_timedelta, deq_timedelta_bits) = optional(QUEUEING, "deq_timedelta")?;
        let (enq_qdepth, qdepth_bits) = optional(QUEUEING, "enq_qdepth")?;
        let mut slot = |header: &str, field: &str| optional(header, field).map(|(slot, _)| slot);
        Ok(StandardMetadata {
            ingress_port: ingress_port.slot,
            packet_length: packet_length.slot,
            egress_spec: egress_spec.slot,
            egress_port: egress_port.slot,
            instance_type: instance_type.slot,
            ingress_timestamp: slot("intrinsic_metadata", "ingress_global_timestamp")?,
            egress_timestamp: slot("intrinsic_metadata", "egress_global_timestamp")?,
            mcast_grp: slot("intrinsic_metadata", "mcast_grp")?,
            egress_rid: slot("intrinsic_metadata", "egress_rid")?,
            priority: slot("intrinsic_metadata", "priority")?,
            parser_error: slot("standard_metadata", "parser_error")?,
            checksum_error: slot("standard_metadata", "checksum_error")?,
            enq_timestamp,
            enq_qdepth,
            deq_timedelta,
            deq_qdepth: slot(QUEUEING, "deq_qdepth")?,
            qid: slot(QUEUEING, "qid")?,
            enq_timestamp_bits,
            deq_timedelta_bits,
            qdepth_bits,
            port_bits: egress_spec.bits,
            mcast_grp_bits: find_field("intrinsic_metadata", "mcast_grp").map_or(0, |slot_ref| slot_ref.bits),
        })
    }
}
