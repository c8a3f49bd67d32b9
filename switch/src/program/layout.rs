//! The layout of the packet header vector: which slots hold the fields, validity bits and stack counters.
//!
//! A slot is one 64-bit word of the vector. Each header owns a block of consecutive slots. The index of a block's
//! first slot is the header's base, which stands for the header in bytecode.

use super::error::LoadError;
use super::header_types::{FIRST_FIELD_SLOT, Field, HeaderType, MAX_PHV_SLOTS};
use super::json::JsonNode;
use super::op::Slot;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU32, Ordering};

/// The slot of a header's block that is 1 if the header is valid, otherwise 0.
pub(crate) const VALID_SLOT: u16 = 0;
/// The slot of a header's block with the frame offset in bytes at which the header was extracted, plus 1; 0 if it
/// was not extracted from this frame.
pub(crate) const FRAME_OFFSET_SLOT: u16 = 1;

/// Maximum number of elements of a header stack.
const MAX_STACK_SIZE: usize = 1024;

/// The sizes of header vectors, in slots. A program gets the smallest that fits. The interpreter is compiled for
/// each size, so that masking an operand replaces its bounds check.
pub(crate) const PHV_CAPACITIES: [usize; 4] = [1 << 8, 1 << 10, 1 << 12, 1 << 16];

/// The next id of a layout: of a program's header vector, or of the words that machine code passes from ingress to
/// egress. Ids are unique in the process and have no effect on results.
static NEXT_LAYOUT_ID: AtomicU32 = AtomicU32::new(1);

/// Returns an unused id. `Relaxed` suffices: only uniqueness matters, not the order.
pub(super) fn next_layout_id() -> u32 {
    NEXT_LAYOUT_ID.fetch_add(1, Ordering::Relaxed)
}

/// The first slot and the type of a number in the header vector: a field, an action parameter or a validity bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef {
    pub slot: Slot,
    pub bits: u32,
    pub signed: bool,
    /// Whether assignments saturate instead of wrapping around.
    pub saturating: bool,
}

impl SlotRef {
    /// Returns an unsigned number that wraps around.
    pub(crate) fn unsigned(slot: Slot, bits: u32) -> SlotRef {
        SlotRef { slot, bits, signed: false, saturating: false }
    }
}

/// The index of a header instance in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderId(pub u16);

/// A header instance.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub name: String,
    /// Index of the header type.
    pub ty: usize,
    pub is_metadata: bool,
    pub first_slot: Slot,
    /// Its place in a header union; `None` if it belongs to none.
    pub union_member: Option<UnionMember>,
    pub in_stack: bool,
}

/// The place of a header in a header union.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UnionMember {
    /// Index of the union.
    pub union: usize,
    /// Index of the member in the union.
    pub member: usize,
}

/// A header stack, or a stack of header unions.
#[derive(Clone, Debug)]
pub(crate) struct HeaderStack {
    pub name: String,
    pub is_union_stack: bool,
    /// First slot of the first element.
    pub base: Slot,
    /// Number of slots from one element to the next.
    pub stride: u16,
    pub size: u16,
    /// The slot with P4's `nextIndex`, the index of the element that the next extraction fills.
    pub next_index_slot: Slot,
    /// The blocks of an element: one for a header stack, one for each member of a union. Each is a pair: the slot
    /// offset from the element's first slot, and the index of the header type.
    pub member_blocks: Vec<(u16, usize)>,
}

/// A header union.
#[derive(Clone, Debug)]
pub(crate) struct HeaderUnion {
    name: String,
    pub headers: Vec<HeaderId>,
    /// In the order of `headers`.
    member_names: Vec<String>,
}

/// Allocates the slots that are 0 at the beginning of each packet.
#[derive(Debug, Default)]
pub(crate) struct SlotAllocator {
    /// Number of allocated slots.
    pub len: usize,
}

impl SlotAllocator {
    /// Allocates the next `count` slots and returns the first. Beyond [`MAX_PHV_SLOTS`] it fails with an error at
    /// `node`.
    pub(crate) fn alloc(&mut self, node: &JsonNode, count: u16) -> Result<Slot, LoadError> {
        let first = self.len;
        self.len += usize::from(count);
        if self.len > MAX_PHV_SLOTS {
            return node.err(format_args!(
                "the program's headers and metadata exceed {MAX_PHV_SLOTS} slots of 64 bits"
            ));
        }
        Ok(first as Slot)
    }
}

/// The slots of all headers, and their names in the JSON.
#[derive(Debug)]
pub(crate) struct Layout {
    pub types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub stacks: Vec<HeaderStack>,
    pub unions: Vec<HeaderUnion>,
    /// First slot of the block that accesses to stack elements out of bounds use, as long as the largest element.
    /// It is cleared with the other slots.
    pub dummy_block: Slot,
    header_names: HashMap<String, HeaderId>,
}

impl Layout {
    pub(crate) fn load(root: &JsonNode, allocator: &mut SlotAllocator) -> Result<Layout, LoadError> {
        let types = HeaderType::load_all(root)?;
        let instances = Instances::load(root, &types)?;
        let (unions, members) = load_unions(root, &types, &instances)?;
        let mut placer =
            HeaderPlacer { types: &types, instances: &instances, allocator, bases: HashMap::new() };
        let mut stacks = placer.place_stacks(root, &members)?;
        let in_stacks: HashSet<HeaderId> = placer.bases.keys().copied().collect();
        let unions_in_stacks = placer.place_union_stacks(root, &unions, &mut stacks)?;
        for (_, union) in unions.iter().enumerate().filter(|(index, _)| !unions_in_stacks.contains(index)) {
            placer.place_union(root, union)?;
        }
        let bases = placer.bases;
        let mut headers = Vec::new();
        for (id, instance) in (0..).map(HeaderId).zip(instances.list) {
            let Instance { name, ty, is_metadata } = instance;
            let base = match bases.get(&id) {
                Some(base) => *base,
                None => allocator.alloc(root, types[ty].block_len)?,
            };
            let (union_member, in_stack) = (members.get(&id).copied(), in_stacks.contains(&id));
            headers.push(Header { name, ty, is_metadata, first_slot: base, union_member, in_stack });
        }
        let block_lens = types.iter().map(|ty| ty.block_len).chain(stacks.iter().map(|stack| stack.stride));
        let dummy_block = allocator.alloc(root, block_lens.max().unwrap_or(FIRST_FIELD_SLOT))?;
        Ok(Layout { types, headers, stacks, unions, dummy_block, header_names: instances.by_name })
    }

    /// Returns the header with the name at `node`.
    pub(crate) fn header_id(&self, node: &JsonNode) -> Result<HeaderId, LoadError> {
        node.find("header", |name| self.header_names.get(name).copied())
    }
    /// Returns the index of the header stack with the name at `node`.
    pub(crate) fn stack_index(&self, node: &JsonNode) -> Result<usize, LoadError> {
        let find =
            |name: &str| self.stacks.iter().position(|stack| !stack.is_union_stack && stack.name == name);
        node.find("header stack", find)
    }
    /// Returns the index of the header union with the name at `node`.
    pub(crate) fn union_index(&self, node: &JsonNode) -> Result<usize, LoadError> {
        node.find("header union", |name| self.unions.iter().position(|union| union.name == name))
    }
    /// Returns the index of the stack of header unions with the name at `node`.
    pub(crate) fn union_stack_index(&self, node: &JsonNode) -> Result<usize, LoadError> {
        let find =
            |name: &str| self.stacks.iter().position(|stack| stack.is_union_stack && stack.name == name);
        node.find("stack of header unions", find)
    }
    /// Returns the index of the union member with the name at `node`, for any element of a stack: all have the same
    /// members.
    pub(crate) fn union_stack_member_index(&self, stack: usize, node: &JsonNode) -> Result<usize, LoadError> {
        let base = self.stacks[stack].base;
        let union = self.unions.iter().find(|union| self.header(union.headers[0]).first_slot == base);
        let members = union.map(|union| union.member_names.as_slice()).unwrap_or_default();
        let name = node.str()?;
        let member = members.iter().position(|member| member == name);
        member.ok_or_else(|| node.error(format_args!("the union has no member {name:?}")))
    }

    pub(crate) fn header(&self, id: HeaderId) -> &Header {
        &self.headers[usize::from(id.0)]
    }
    /// Returns the header and the field to which a slot belongs; `None` for slots that belong to no field.
    pub(crate) fn field_at(&self, slot: Slot) -> Option<(&Header, &Field)> {
        let offset_in = |header: &Header| {
            slot.checked_sub(header.first_slot).filter(|offset| *offset < self.types[header.ty].block_len)
        };
        let (header, offset) = self.headers.iter().find_map(|header| Some((header, offset_in(header)?)))?;
        let field = self.types[header.ty].fields.iter().rfind(|field| field.slot <= offset)?;
        Some((header, field))
    }
    /// Returns the header whose block begins at `base`. Every element of a header stack is a header, so one exists.
    pub(crate) fn header_at(&self, base: Slot) -> HeaderId {
        let index = self.headers.iter().position(|header| header.first_slot == base);
        HeaderId(index.unwrap_or_default() as u16)
    }
    pub(crate) fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.types[self.header(id).ty]
    }
    /// Returns the field with the names at `node`, `[header, field]`.
    pub(crate) fn field(&self, node: &JsonNode) -> Result<(HeaderId, usize), LoadError> {
        let [header, field] = node.tuple()?;
        let header = self.header_id(&header)?;
        Ok((header, self.header_type(header).field_index(&field)?))
    }
    /// Same as [`Layout::field`], for names that may not exist.
    pub(crate) fn find(&self, header: &str, field: &str) -> Option<(HeaderId, usize)> {
        let id = *self.header_names.get(header)?;
        let index = self.header_type(id).fields.iter().position(|candidate| candidate.name == field)?;
        Some((id, index))
    }
    /// Returns the first slot of a field in the header vector.
    pub(crate) fn slot(&self, (header, field): (HeaderId, usize)) -> Slot {
        self.header(header).first_slot + self.header_type(header).fields[field].slot
    }
    pub(crate) fn field_info(&self, (header, field): (HeaderId, usize)) -> &Field {
        &self.header_type(header).fields[field]
    }

    /// Returns the location of the numeric field with the names at `node`, `[header, field]`, or of the
    /// validity bit if the field is `$valid$`.
    pub(crate) fn slot_ref(&self, node: &JsonNode) -> Result<SlotRef, LoadError> {
        let [header, field] = node.tuple()?;
        let id = self.header_id(&header)?;
        if field.str()? == "$valid$" {
            return Ok(SlotRef::unsigned(self.header(id).first_slot + VALID_SLOT, 1));
        }
        let found = self.field(node)?;
        let Field { bits, signed, saturating, is_varbit, .. } = *self.field_info(found);
        if is_varbit {
            return node.err("a varbit field cannot be used as a number");
        }
        Ok(SlotRef { slot: self.slot(found), bits, signed, saturating })
    }
}

/// A header instance before its slots are allocated.
struct Instance {
    name: String,
    ty: usize,
    is_metadata: bool,
}

/// The header instances of a program, by name and by their id in the JSON.
struct Instances {
    list: Vec<Instance>,
    by_name: HashMap<String, HeaderId>,
    by_json_id: HashMap<i64, HeaderId>,
}

impl Instances {
    fn load(root: &JsonNode, types: &[HeaderType]) -> Result<Instances, LoadError> {
        let (mut list, mut by_name, mut by_json_id) = (Vec::new(), HashMap::new(), HashMap::new());
        for node in root.get("headers")?.items()? {
            let (name, ty) = (node.name()?, type_index(types, &node.get("header_type")?)?);
            if list.len() >= MAX_PHV_SLOTS {
                return node.err(format_args!("more than {MAX_PHV_SLOTS} headers"));
            }
            let id = HeaderId(list.len() as u16);
            if by_name.insert(name.clone(), id).is_some() {
                return node.err(format_args!("duplicate header {name:?}"));
            }
            if by_json_id.insert(node.get("id")?.int()?, id).is_some() {
                return node.err("another header has this id");
            }
            list.push(Instance { name, ty, is_metadata: node.flag("metadata", false)? });
        }
        Ok(Instances { list, by_name, by_json_id })
    }

    fn find_by_json_id(&self, node: &JsonNode) -> Result<HeaderId, LoadError> {
        let id = node.int()?;
        let header = self.by_json_id.get(&id).copied();
        header.ok_or_else(|| node.error(format_args!("there is no header with id {id}")))
    }

    fn header_type_index(&self, id: HeaderId) -> usize {
        self.list[usize::from(id.0)].ty
    }
}

fn type_index(types: &[HeaderType], node: &JsonNode) -> Result<usize, LoadError> {
    node.find("header type", |name| types.iter().position(|ty| ty.name == name))
}

/// The places of headers in unions; headers outside unions are missing.
type UnionMembers = HashMap<HeaderId, UnionMember>;

fn load_unions(
    root: &JsonNode,
    types: &[HeaderType],
    instances: &Instances,
) -> Result<(Vec<HeaderUnion>, UnionMembers), LoadError> {
    let mut union_types = Vec::new();
    for node in root.list("header_union_types")? {
        let mut members = Vec::new();
        for member in node.get("headers")?.items()? {
            let [name, ty] = member.tuple()?;
            type_index(types, &ty)?;
            members.push(name.str()?.to_string());
        }
        union_types.push((node.name()?, members));
    }
    let (mut unions, mut union_members) = (Vec::<HeaderUnion>::new(), UnionMembers::new());
    for node in root.list("header_unions")? {
        let (name, type_node) = (node.name()?, node.get("union_type")?);
        let (_, members) = type_node.find("union type", |name| union_types.iter().find(|ty| ty.0 == name))?;
        let mut headers = Vec::new();
        for (member, id) in node.get("header_ids")?.items()?.iter().enumerate() {
            let header = instances.find_by_json_id(id)?;
            if union_members.insert(header, UnionMember { union: unions.len(), member }).is_some() {
                return id.err("the header is already a member of a union");
            }
            headers.push(header);
        }
        if headers.is_empty() || headers.len() != members.len() {
            return node.err("the union's members do not match its type");
        }
        if unions.iter().any(|known| known.name == name) {
            return node.err("another header union has this name");
        }
        unions.push(HeaderUnion { name, headers, member_names: members.clone() });
    }
    Ok((unions, union_members))
}

/// Allocates the slots of stacks and unions before those of other headers, because their headers must be
/// adjacent.
struct HeaderPlacer<'s> {
    types: &'s [HeaderType],
    instances: &'s Instances,
    allocator: &'s mut SlotAllocator,
    /// First slots of the headers that have been placed.
    bases: HashMap<HeaderId, Slot>,
}

impl HeaderPlacer<'_> {
    /// Allocates the slots of the header stacks.
    fn place_stacks(
        &mut self,
        root: &JsonNode,
        members: &UnionMembers,
    ) -> Result<Vec<HeaderStack>, LoadError> {
        let mut stacks = Vec::<HeaderStack>::new();
        for node in root.list("header_stacks")? {
            let (name, ty) = (node.name()?, type_index(self.types, &node.get("header_type")?)?);
            let (base, stride) = (self.allocator.len as Slot, self.types[ty].block_len);
            let ids = node.get("header_ids")?.items()?;
            for id in &ids {
                let header = self.instances.find_by_json_id(id)?;
                let slot = self.allocator.alloc(&node, stride)?;
                if self.instances.header_type_index(header) != ty
                    || members.contains_key(&header)
                    || self.bases.insert(header, slot).is_some()
                {
                    return id.err("the header has another type, or already belongs to a stack or union");
                }
            }
            let (size, next_index_slot) = self.alloc_next_index(&node, ids.len())?;
            if stacks.iter().any(|known| known.name == name) {
                return node.err("another header stack has this name");
            }
            stacks.push(HeaderStack {
                name,
                is_union_stack: false,
                base,
                stride,
                size,
                next_index_slot,
                member_blocks: vec![(0, ty)],
            });
        }
        Ok(stacks)
    }

    /// Allocates the slots of the stacks of header unions. Returns the indices of the unions in stacks.
    fn place_union_stacks(
        &mut self,
        root: &JsonNode,
        unions: &[HeaderUnion],
        stacks: &mut Vec<HeaderStack>,
    ) -> Result<HashSet<usize>, LoadError> {
        let mut unions_in_stacks = HashSet::new();
        let ids = root.list("header_unions")?;
        let ids = ids.iter().map(|node| node.get("id")?.int()).collect::<Result<Vec<_>, _>>()?;
        for node in root.list("header_union_stacks")? {
            let (name, base) = (node.name()?, self.allocator.len as Slot);
            let elements = node.get("header_union_ids")?.items()?;
            let (mut stride, mut blocks) = (0, Vec::new());
            for (index, element) in elements.iter().enumerate() {
                let id = element.int()?;
                let Some(union) = ids.iter().position(|known| *known == id) else {
                    return element.err(format_args!("there is no union with id {id}"));
                };
                if !unions_in_stacks.insert(union) || index > 0 && unions[union].headers.len() != blocks.len()
                {
                    return element.err("the union has another type, or already belongs to a stack");
                }
                let start = self.allocator.len as Slot;
                blocks = self.place_union(&node, &unions[union])?;
                stride = self.allocator.len as Slot - start;
            }
            let (size, next_index_slot) = self.alloc_next_index(&node, elements.len())?;
            if stacks.iter().any(|known| known.is_union_stack && known.name == name) {
                return node.err("another stack has this name");
            }
            stacks.push(HeaderStack {
                name,
                is_union_stack: true,
                base,
                stride,
                size,
                next_index_slot,
                member_blocks: blocks,
            });
        }
        Ok(unions_in_stacks)
    }

    /// Allocates the slots of a union's members, one after the other. Returns the offset and header type of
    /// each.
    fn place_union(&mut self, node: &JsonNode, union: &HeaderUnion) -> Result<Vec<(u16, usize)>, LoadError> {
        let (start, mut blocks) = (self.allocator.len as Slot, Vec::new());
        for id in &union.headers {
            let ty = self.instances.header_type_index(*id);
            let base = self.allocator.alloc(node, self.types[ty].block_len)?;
            self.bases.insert(*id, base);
            blocks.push((base - start, ty));
        }
        Ok(blocks)
    }

    /// Checks the size of a stack and allocates the slot for the index of the next element. Returns both.
    fn alloc_next_index(&mut self, node: &JsonNode, size: usize) -> Result<(u16, Slot), LoadError> {
        if size == 0 || size > MAX_STACK_SIZE {
            return node.err(format_args!("a stack must have 1 to {MAX_STACK_SIZE} elements"));
        }
        Ok((size as u16, self.allocator.alloc(node, 1)?))
    }
}
