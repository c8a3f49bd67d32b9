//! The header vector: the positions of fields, validity bits and stack counters.

use super::header_types::{FIRST_FIELD_SLOT, Field, HeaderType, MAX_PHV_SLOTS};
use super::json::JsonNode;
use super::op::Slot;
use super::{HeaderId, LoadError};
use std::collections::{HashMap, HashSet};

/// Slot of a block that tells whether the header is valid.
pub(crate) const VALID_SLOT: u16 = 0;
/// Slot of a block that tells where in the frame the header was extracted, plus 1; 0 if it was not.
pub(crate) const FRAME_OFFSET_SLOT: u16 = 1;

const MAX_STACK_SIZE: usize = 1024;

/// The location of a number: a field, an action parameter or a validity bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotRef {
    pub slot: Slot,
    pub bits: u32,
    pub signed: bool,
    pub saturating: bool,
}

impl SlotRef {
    /// Returns a number without a sign that wraps around.
    pub fn unsigned(slot: Slot, bits: u32) -> SlotRef {
        SlotRef { slot, bits, signed: false, saturating: false }
    }
}

/// A header instance.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub name: String,
    pub ty: usize,
    pub metadata: bool,
    /// First slot of its block.
    pub first_slot: Slot,
    /// Its union and its place in it.
    pub union: Option<(usize, usize)>,
    pub in_stack: bool,
}

/// A header stack, or a stack of header unions.
#[derive(Clone, Debug)]
pub(crate) struct HeaderStack {
    pub name: String,
    pub is_union_stack: bool,
    /// Base of its first element.
    pub base: Slot,
    /// Slots from one element to the next.
    pub stride: u16,
    pub size: u16,
    /// The slot that counts its elements.
    pub next_index_slot: Slot,
    /// Blocks of one element, relative to it: one for a header, the members of a union.
    pub member_blocks: Vec<(u16, usize)>,
}

/// A header union.
#[derive(Clone, Debug)]
pub(crate) struct HeaderUnion {
    name: String,
    pub headers: Vec<HeaderId>,
    /// The names of its members.
    members: Vec<String>,
}

/// Hands out the slots that begin as 0 with each packet.
#[derive(Debug, Default)]
pub(crate) struct SlotAllocator {
    /// Number of slots taken.
    pub len: usize,
}

impl SlotAllocator {
    /// Takes the next slots.
    pub fn alloc(&mut self, at: &JsonNode, slots: u16) -> Result<Slot, LoadError> {
        let first = self.len;
        self.len += usize::from(slots);
        if self.len > MAX_PHV_SLOTS {
            return at.err(format_args!(
                "the program's headers and metadata take more than {MAX_PHV_SLOTS} words"
            ));
        }
        Ok(first as Slot)
    }
}

/// The header vector's layout.
#[derive(Debug)]
pub(crate) struct Layout {
    pub types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub stacks: Vec<HeaderStack>,
    pub unions: Vec<HeaderUnion>,
    /// A block that stands for headers that are not there; cleared with the rest.
    pub dummy_block: Slot,
    header_names: HashMap<String, HeaderId>,
}

impl Layout {
    pub fn load(root: &JsonNode, slots: &mut SlotAllocator) -> Result<Layout, LoadError> {
        let types = HeaderType::load_all(root)?;
        let instances = Instances::load(root, &types)?;
        let (unions, members) = load_unions(root, &types, &instances)?;
        let mut placing = HeaderPlacer { types: &types, instances: &instances, slots, bases: HashMap::new() };
        let mut stacks = placing.stacks(root, &members)?;
        let in_stacks: HashSet<HeaderId> = placing.bases.keys().copied().collect();
        let stacked = placing.union_stacks(root, &unions, &mut stacks)?;
        for (_, union) in unions.iter().enumerate().filter(|(index, _)| !stacked.contains(index)) {
            placing.union(root, union)?;
        }
        let bases = placing.bases;
        let mut headers = Vec::new();
        for (id, instance) in (0..).map(HeaderId).zip(instances.list) {
            let Instance { name, ty, metadata } = instance;
            let base = match bases.get(&id) {
                Some(base) => *base,
                None => slots.alloc(root, types[ty].slots)?,
            };
            let (union, in_stack) = (members.get(&id).copied(), in_stacks.contains(&id));
            headers.push(Header { name, ty, metadata, first_slot: base, union, in_stack });
        }
        let blocks = types.iter().map(|ty| ty.slots).chain(stacks.iter().map(|stack| stack.stride));
        let spare = slots.alloc(root, blocks.max().unwrap_or(FIRST_FIELD_SLOT))?;
        Ok(Layout { types, headers, stacks, unions, dummy_block: spare, header_names: instances.names })
    }

    /// Returns the header a string names.
    pub fn header_id(&self, at: &JsonNode) -> Result<HeaderId, LoadError> {
        at.find("header", |name| self.header_names.get(name).copied())
    }
    /// Returns the header stack a string names.
    pub fn stack(&self, at: &JsonNode) -> Result<usize, LoadError> {
        let wanted = |name: &str| self.stacks.iter().position(|it| !it.is_union_stack && it.name == name);
        at.find("header stack", wanted)
    }
    /// Returns the union a string names.
    pub fn union(&self, at: &JsonNode) -> Result<usize, LoadError> {
        at.find("header union", |name| self.unions.iter().position(|union| union.name == name))
    }
    /// Returns the stack of unions a string names.
    pub fn union_stack(&self, at: &JsonNode) -> Result<usize, LoadError> {
        let wanted = |name: &str| self.stacks.iter().position(|it| it.is_union_stack && it.name == name);
        at.find("stack of header unions", wanted)
    }
    /// Returns the member of a union that a string names; all elements of a stack have the same members.
    pub fn union_stack_member(&self, stack: usize, at: &JsonNode) -> Result<usize, LoadError> {
        let base = self.stacks[stack].base;
        let union = self.unions.iter().find(|union| self.header(union.headers[0]).first_slot == base);
        let members = union.map(|union| union.members.as_slice()).unwrap_or_default();
        let name = at.str()?;
        let member = members.iter().position(|member| member == name);
        member.ok_or_else(|| at.error(format_args!("the union has no member {name:?}")))
    }

    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[usize::from(id.0)]
    }
    /// Returns the header and the field that a slot belongs to.
    pub fn field_at(&self, slot: Slot) -> Option<(&Header, &Field)> {
        let rel = |header: &Header| {
            slot.checked_sub(header.first_slot).filter(|rel| *rel < self.types[header.ty].slots)
        };
        let (header, rel) = self.headers.iter().find_map(|header| Some((header, rel(header)?)))?;
        let field = self.types[header.ty].fields.iter().rfind(|field| field.slot <= rel)?;
        Some((header, field))
    }
    /// Returns the header whose block begins at this slot.
    pub fn header_at(&self, base: Slot) -> HeaderId {
        let index = self.headers.iter().position(|header| header.first_slot == base);
        HeaderId(index.unwrap_or_default() as u16)
    }
    pub fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.types[self.header(id).ty]
    }
    /// Returns the field that `[header, field]` names.
    pub fn field(&self, at: &JsonNode) -> Result<(HeaderId, usize), LoadError> {
        let [header, field] = at.tuple()?;
        let header = self.header_id(&header)?;
        Ok((header, self.header_type(header).field(&field)?))
    }
    /// Returns a field of a header, by their names.
    pub fn find(&self, header: &str, field: &str) -> Option<(HeaderId, usize)> {
        let id = *self.header_names.get(header)?;
        let index = self.header_type(id).fields.iter().position(|candidate| candidate.name == field)?;
        Some((id, index))
    }
    /// Returns the absolute slot of a field.
    pub fn slot(&self, (header, field): (HeaderId, usize)) -> Slot {
        self.header(header).first_slot + self.header_type(header).fields[field].slot
    }
    pub fn field_type(&self, (header, field): (HeaderId, usize)) -> &Field {
        &self.header_type(header).fields[field]
    }

    /// Returns a field given as `[header, field]`, to be used as a number; `$valid$` is a field too.
    pub fn slot_ref(&self, at: &JsonNode) -> Result<SlotRef, LoadError> {
        let [header, field] = at.tuple()?;
        let id = self.header_id(&header)?;
        if field.str()? == "$valid$" {
            return Ok(SlotRef::unsigned(self.header(id).first_slot + VALID_SLOT, 1));
        }
        let found = self.field(at)?;
        let Field { bits, signed, saturating, varbit, .. } = *self.field_type(found);
        if varbit {
            return at.err("a field of variable width cannot be used as a number");
        }
        Ok(SlotRef { slot: self.slot(found), bits, signed, saturating })
    }
}

/// A header instance that has no place yet.
struct Instance {
    name: String,
    ty: usize,
    metadata: bool,
}

/// The header instances of a program, by name and by id.
struct Instances {
    list: Vec<Instance>,
    names: HashMap<String, HeaderId>,
    ids: HashMap<i64, HeaderId>,
}

impl Instances {
    fn load(root: &JsonNode, types: &[HeaderType]) -> Result<Instances, LoadError> {
        let (mut list, mut names, mut ids) = (Vec::new(), HashMap::new(), HashMap::new());
        for at in root.get("headers")?.items()? {
            let (name, ty) = (at.name()?, type_index(types, &at.get("header_type")?)?);
            if list.len() >= MAX_PHV_SLOTS {
                return at.err("there are too many headers");
            }
            let id = HeaderId(list.len() as u16);
            if names.insert(name.clone(), id).is_some() {
                return at.err(format_args!("there are two headers named {name:?}"));
            }
            if ids.insert(at.get("id")?.int()?, id).is_some() {
                return at.err("another header has this id");
            }
            list.push(Instance { name, ty, metadata: at.flag("metadata", false)? });
        }
        Ok(Instances { list, names, ids })
    }

    fn by_id(&self, at: &JsonNode) -> Result<HeaderId, LoadError> {
        let id = at.int()?;
        let header = self.ids.get(&id).copied();
        header.ok_or_else(|| at.error(format_args!("there is no header with id {id}")))
    }

    fn header_type_index(&self, id: HeaderId) -> usize {
        self.list[usize::from(id.0)].ty
    }
}

fn type_index(types: &[HeaderType], at: &JsonNode) -> Result<usize, LoadError> {
    at.find("header type", |name| types.iter().position(|ty| ty.name == name))
}

/// Headers that are members of unions: union and place in it.
type Members = HashMap<HeaderId, (usize, usize)>;

fn load_unions(
    root: &JsonNode,
    types: &[HeaderType],
    instances: &Instances,
) -> Result<(Vec<HeaderUnion>, Members), LoadError> {
    let mut union_types = Vec::new();
    for at in root.list("header_union_types")? {
        let mut members = Vec::new();
        for member in at.get("headers")?.items()? {
            let [name, ty] = member.tuple()?;
            type_index(types, &ty)?;
            members.push(name.str()?.to_string());
        }
        union_types.push((at.name()?, members));
    }
    let (mut unions, mut places) = (Vec::<HeaderUnion>::new(), Members::new());
    for at in root.list("header_unions")? {
        let (name, type_at) = (at.name()?, at.get("union_type")?);
        let (_, members) = type_at.find("union type", |name| union_types.iter().find(|ty| ty.0 == name))?;
        let mut headers = Vec::new();
        for (member, id) in at.get("header_ids")?.items()?.iter().enumerate() {
            let header = instances.by_id(id)?;
            if places.insert(header, (unions.len(), member)).is_some() {
                return id.err("the header is already a member of a union");
            }
            headers.push(header);
        }
        if headers.is_empty() || headers.len() != members.len() {
            return at.err("the union has other members than its type");
        }
        if unions.iter().any(|known| known.name == name) {
            return at.err("another header union has this name");
        }
        unions.push(HeaderUnion { name, headers, members: members.clone() });
    }
    Ok((unions, places))
}

/// Gives headers their slots: those that belong together first.
struct HeaderPlacer<'s> {
    types: &'s [HeaderType],
    instances: &'s Instances,
    slots: &'s mut SlotAllocator,
    bases: HashMap<HeaderId, Slot>,
}

impl HeaderPlacer<'_> {
    /// Places the header stacks.
    fn stacks(&mut self, root: &JsonNode, members: &Members) -> Result<Vec<HeaderStack>, LoadError> {
        let mut stacks = Vec::<HeaderStack>::new();
        for at in root.list("header_stacks")? {
            let (name, ty) = (at.name()?, type_index(self.types, &at.get("header_type")?)?);
            let (base, stride) = (self.slots.len as Slot, self.types[ty].slots);
            let ids = at.get("header_ids")?.items()?;
            for id in &ids {
                let header = self.instances.by_id(id)?;
                let slot = self.slots.alloc(&at, stride)?;
                if self.instances.header_type_index(header) != ty
                    || members.contains_key(&header)
                    || self.bases.insert(header, slot).is_some()
                {
                    return id.err("the header is of another type, or already part of something");
                }
            }
            let (size, count) = self.count(&at, ids.len())?;
            if stacks.iter().any(|known| known.name == name) {
                return at.err("another header stack has this name");
            }
            stacks.push(HeaderStack {
                name,
                is_union_stack: false,
                base,
                stride,
                size,
                next_index_slot: count,
                member_blocks: vec![(0, ty)],
            });
        }
        Ok(stacks)
    }

    /// Places the stacks of header unions; returns which unions they consist of.
    fn union_stacks(
        &mut self,
        root: &JsonNode,
        unions: &[HeaderUnion],
        stacks: &mut Vec<HeaderStack>,
    ) -> Result<HashSet<usize>, LoadError> {
        let mut stacked = HashSet::new();
        let ids = root.list("header_unions")?;
        let ids = ids.iter().map(|at| at.get("id")?.int()).collect::<Result<Vec<_>, _>>()?;
        for at in root.list("header_union_stacks")? {
            let (name, base) = (at.name()?, self.slots.len as Slot);
            let elements = at.get("header_union_ids")?.items()?;
            let (mut stride, mut blocks) = (0, Vec::new());
            for (i, id) in elements.iter().enumerate() {
                let wanted = id.int()?;
                let Some(union) = ids.iter().position(|id| *id == wanted) else {
                    return id.err(format_args!("there is no union with id {wanted}"));
                };
                if !stacked.insert(union) || i > 0 && unions[union].headers.len() != blocks.len() {
                    return id.err("the union is of another type, or already part of a stack");
                }
                let start = self.slots.len as Slot;
                blocks = self.union(&at, &unions[union])?;
                stride = self.slots.len as Slot - start;
            }
            let (size, count) = self.count(&at, elements.len())?;
            if stacks.iter().any(|known| known.is_union_stack && known.name == name) {
                return at.err("another stack has this name");
            }
            stacks.push(HeaderStack {
                name,
                is_union_stack: true,
                base,
                stride,
                size,
                next_index_slot: count,
                member_blocks: blocks,
            });
        }
        Ok(stacked)
    }

    /// Places the members of a union one behind the other; returns where they are, and their types.
    fn union(&mut self, at: &JsonNode, union: &HeaderUnion) -> Result<Vec<(u16, usize)>, LoadError> {
        let (start, mut blocks) = (self.slots.len as Slot, Vec::new());
        for id in &union.headers {
            let ty = self.instances.header_type_index(*id);
            let base = self.slots.alloc(at, self.types[ty].slots)?;
            self.bases.insert(*id, base);
            blocks.push((base - start, ty));
        }
        Ok(blocks)
    }

    /// Returns the size of a stack, and the slot that counts its elements.
    fn count(&mut self, at: &JsonNode, size: usize) -> Result<(u16, Slot), LoadError> {
        if size == 0 || size > MAX_STACK_SIZE {
            return at.err(format_args!("a stack has 1 to {MAX_STACK_SIZE} headers"));
        }
        Ok((size as u16, self.slots.alloc(at, 1)?))
    }
}
