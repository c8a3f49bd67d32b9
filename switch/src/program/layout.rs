//! Where every field, validity bit and stack counter lives in the header vector.

use super::json::At;
use super::op::Slot;
use super::{HeaderId, LoadError};
use std::collections::HashMap;

/// Slot of a block that tells whether the header is valid.
pub(crate) const VALID: u16 = 0;
/// Slot of a block that tells where in the frame the header was extracted, plus 1; 0 if it was not.
pub(crate) const ORIGIN: u16 = 1;
/// Slot of a block where its fields begin.
pub(crate) const FIRST_FIELD: u16 = 2;

/// Fields wider than this are refused: wide arithmetic has to end somewhere.
const MAX_FIELD_BITS: usize = 4096;
/// Headers longer than this are refused.
const MAX_HEADER_BYTES: usize = 2048;
/// The header vector may have this many slots; operands are 16 bits and some are spent on numbering temporaries.
pub(crate) const MAX_VARS: usize = 0x4000;
const MAX_STACK: usize = 1024;

/// A field of a header type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub name: String,
    /// Width in bits; for a variable field its largest.
    pub bits: u32,
    pub signed: bool,
    pub saturating: bool,
    pub varbit: bool,
    /// Bits from the start of the header, variable field not counted.
    pub offset: u32,
    /// First slot, relative to the block. A variable field has its length in bits there and then its bytes.
    pub slot: u16,
    pub limbs: u16,
}

/// A header type.
#[derive(Clone, Debug)]
pub(crate) struct HeaderType {
    pub name: String,
    pub fields: Vec<Field>,
    /// Bytes on the wire, without its variable part.
    pub bytes: u32,
    /// Most bytes on the wire, or 0 for no limit.
    pub max_bytes: u32,
    pub varbit: Option<usize>,
    /// Slots of a block.
    pub slots: u16,
}

/// A header instance.
#[derive(Clone, Debug)]
pub(crate) struct Header {
    pub name: String,
    pub ty: usize,
    pub metadata: bool,
    /// First slot of its block.
    pub base: Slot,
    /// Its union and its place in it.
    pub union: Option<(usize, usize)>,
    pub in_stack: bool,
}

/// A header stack, or a stack of header unions.
#[derive(Clone, Debug)]
pub(crate) struct Stack {
    /// Base of its first element.
    pub base: Slot,
    /// Slots from one element to the next.
    pub stride: u16,
    pub size: u16,
    /// The slot that counts its elements.
    pub count: Slot,
    /// Blocks of one element, relative to it: one for a header, the members of a union.
    pub blocks: Vec<(u16, usize)>,
}

/// A header union.
#[derive(Clone, Debug)]
pub(crate) struct Union {
    pub ty: usize,
    pub headers: Vec<HeaderId>,
    pub in_stack: bool,
}

/// The header vector's layout.
#[derive(Debug, Default)]
pub(crate) struct Layout {
    pub types: Vec<HeaderType>,
    pub headers: Vec<Header>,
    pub stacks: Vec<Stack>,
    pub unions: Vec<Union>,
    /// Member names of the union types.
    pub union_types: Vec<(String, Vec<String>)>,
    /// Slots used so far.
    pub vars: usize,
    /// A block that stands for headers that are not there; cleared with the rest.
    pub spare: Slot,
    /// The largest block.
    pub spare_slots: u16,
    type_names: HashMap<String, usize>,
    header_names: HashMap<String, HeaderId>,
    header_ids: HashMap<i64, HeaderId>,
    stack_names: HashMap<String, usize>,
    union_names: HashMap<String, usize>,
    union_stack_names: HashMap<String, usize>,
    aliases: HashMap<String, (HeaderId, usize)>,
}

impl Layout {
    pub fn load(root: &At) -> Result<Layout, LoadError> {
        let mut layout = Layout::default();
        for at in root.get("header_types")?.items()? {
            layout.add_type(&at)?;
        }
        for at in root.get("headers")?.items()? {
            layout.add_header(&at)?;
        }
        layout.add_unions(root)?;
        layout.add_stacks(root)?;
        layout.place_rest(root)?;
        layout.add_aliases(root)?;
        Ok(layout)
    }

    fn add_type(&mut self, at: &At) -> Result<(), LoadError> {
        let name = at.name()?;
        let (mut fields, mut offset, mut slot, mut varbit) = (Vec::<Field>::new(), 0u32, FIRST_FIELD, None);
        for field in at.get("fields")?.items()? {
            let parts = field.items()?;
            let [name, bits, flags @ ..] = parts.as_slice() else {
                return field.fail("expected [name, width]");
            };
            let flag = |i: usize| flags.get(i).map_or(Ok(false), |at: &At| at.bool());
            let is_varbit = bits.value.as_str() == Some("*");
            let bits = if is_varbit {
                let max = at.get("max_length")?.size(MAX_HEADER_BYTES)?;
                if offset % 8 != 0 {
                    return field.fail("a field of variable width must begin at a whole byte");
                }
                if varbit.replace(fields.len()).is_some() {
                    return field.fail("a header can have one field of variable width only");
                }
                max as u32 * 8
            } else {
                bits.size(MAX_FIELD_BITS)? as u32
            };
            let limbs = if is_varbit { varbit_limbs(bits) } else { bits.div_ceil(64).max(1) as u16 };
            let name = name.str()?.to_string();
            if fields.iter().any(|field| field.name == name) {
                return field.fail(format_args!("the type has two fields named {name:?}"));
            }
            let signed = flag(0)?;
            if signed && bits < 2 {
                return field.fail("a signed field needs at least 2 bits");
            }
            let saturating = flag(1)?;
            fields.push(Field { name, bits, signed, saturating, varbit: is_varbit, offset, slot, limbs });
            if !is_varbit {
                offset += bits;
            }
            slot = match slot.checked_add(limbs) {
                Some(slot) if usize::from(slot) < MAX_VARS && offset as usize <= MAX_HEADER_BYTES * 8 => slot,
                _ => return at.fail("the header is too large"),
            };
        }
        if offset % 8 != 0 {
            return at.fail(format_args!("{offset} bits are not whole bytes"));
        }
        let max_bytes = at.opt("max_length").map_or(Ok(0), |at| at.size(MAX_HEADER_BYTES))? as u32;
        if let Some(index) = varbit {
            if max_bytes * 8 < offset {
                return at.fail("max_length is shorter than the fixed part");
            }
            // Its slots follow from its own width, so that variables of its type have as many.
            let field = &mut fields[index];
            field.bits = max_bytes * 8 - offset;
            let unused = field.limbs - varbit_limbs(field.bits);
            field.limbs -= unused;
            fields[index + 1..].iter_mut().for_each(|field| field.slot -= unused);
            slot -= unused;
        }
        if self.type_names.insert(name.clone(), self.types.len()).is_some() {
            return at.fail(format_args!("there are two header types named {name:?}"));
        }
        self.types.push(HeaderType { name, fields, bytes: offset / 8, max_bytes, varbit, slots: slot });
        Ok(())
    }

    fn add_header(&mut self, at: &At) -> Result<(), LoadError> {
        let name = at.name()?;
        let ty = self.type_index(&at.get("header_type")?)?;
        let id = HeaderId(self.headers.len() as u16);
        if self.headers.len() >= MAX_VARS {
            return at.fail("there are too many headers");
        }
        if self.header_names.insert(name.clone(), id).is_some() {
            return at.fail(format_args!("there are two headers named {name:?}"));
        }
        if self.header_ids.insert(at.get("id")?.int()?, id).is_some() {
            return at.fail("another header has this id");
        }
        let metadata = at.flag("metadata", false)?;
        self.headers.push(Header { name, ty, metadata, base: 0, union: None, in_stack: false });
        Ok(())
    }

    fn add_unions(&mut self, root: &At) -> Result<(), LoadError> {
        for at in root.list("header_union_types")? {
            let members: Result<Vec<String>, LoadError> = at
                .get("headers")?
                .items()?
                .iter()
                .map(|member| {
                    let [name, ty] = member.tuple()?;
                    self.type_index(&ty)?;
                    Ok(name.str()?.to_string())
                })
                .collect();
            self.union_types.push((at.name()?, members?));
        }
        for at in root.list("header_unions")? {
            let (name, type_at) = (at.name()?, at.get("union_type")?);
            let type_name = type_at.str()?;
            let Some(ty) = self.union_types.iter().position(|(name, _)| name == type_name) else {
                return type_at.fail(format_args!("there is no union type {type_name:?}"));
            };
            let (union, mut headers) = (self.unions.len(), Vec::new());
            for (member, id) in at.get("header_ids")?.items()?.iter().enumerate() {
                let header = self.header_by_id(id)?;
                if self.headers[usize::from(header.0)].union.replace((union, member)).is_some() {
                    return id.fail("the header is already a member of a union");
                }
                headers.push(header);
            }
            if headers.is_empty() || headers.len() != self.union_types[ty].1.len() {
                return at.fail("the union has other members than its type");
            }
            if self.union_names.insert(name, union).is_some() {
                return at.fail("another header union has this name");
            }
            self.unions.push(Union { ty, headers, in_stack: false });
        }
        Ok(())
    }

    fn add_stacks(&mut self, root: &At) -> Result<(), LoadError> {
        for at in root.list("header_stacks")? {
            let (name, ty) = (at.name()?, self.type_index(&at.get("header_type")?)?);
            let (base, stride) = (self.vars as Slot, self.types[ty].slots);
            let ids = at.get("header_ids")?.items()?;
            for id in &ids {
                let header = self.header_by_id(id)?;
                let slot = self.take(&at, stride)?;
                let header = &mut self.headers[usize::from(header.0)];
                if header.ty != ty || header.union.is_some() || std::mem::replace(&mut header.in_stack, true)
                {
                    return id.fail("the header is of another type, or already part of something");
                }
                header.base = slot;
            }
            let stack = self.add_stack(&at, base, stride, ids.len(), vec![(0, ty)])?;
            if self.stack_names.insert(name, stack).is_some() {
                return at.fail("another header stack has this name");
            }
        }
        let ids = root.list("header_unions")?;
        let ids: Result<Vec<i64>, LoadError> = ids.iter().map(|at| at.get("id")?.int()).collect();
        let ids = ids?;
        for at in root.list("header_union_stacks")? {
            let (name, base, members) = (at.name()?, self.vars as Slot, at.get("header_union_ids")?.items()?);
            let (mut stride, mut blocks) = (0, Vec::new());
            for (i, id) in members.iter().enumerate() {
                let wanted = id.int()?;
                let Some(union) = ids.iter().position(|id| *id == wanted) else {
                    return id.fail(format_args!("there is no union with id {wanted}"));
                };
                if std::mem::replace(&mut self.unions[union].in_stack, true)
                    || i > 0 && self.unions[union].headers.len() != blocks.len()
                {
                    return id.fail("the union is of another type, or already part of a stack");
                }
                let start = self.vars as Slot;
                let placed = self.place_union(&at, union)?;
                (stride, blocks) = (self.vars as u16 - start, placed);
            }
            let stack = self.add_stack(&at, base, stride, members.len(), blocks)?;
            if self.union_stack_names.insert(name, stack).is_some() {
                return at.fail("another stack has this name");
            }
        }
        Ok(())
    }

    fn add_stack(
        &mut self,
        at: &At,
        base: Slot,
        stride: u16,
        size: usize,
        blocks: Vec<(u16, usize)>,
    ) -> Result<usize, LoadError> {
        if size == 0 || size > MAX_STACK {
            return at.fail(format_args!("a stack has 1 to {MAX_STACK} headers"));
        }
        let count = self.take(at, 1)?;
        self.stacks.push(Stack { base, stride, size: size as u16, count, blocks });
        Ok(self.stacks.len() - 1)
    }

    /// Lays the members of a union out one behind the other; returns their places.
    fn place_union(&mut self, at: &At, union: usize) -> Result<Vec<(u16, usize)>, LoadError> {
        let (start, mut blocks) = (self.vars, Vec::new());
        for id in self.unions[union].headers.clone() {
            let ty = self.headers[usize::from(id.0)].ty;
            let base = self.take(at, self.types[ty].slots)?;
            self.headers[usize::from(id.0)].base = base;
            blocks.push((base - start as u16, ty));
        }
        Ok(blocks)
    }

    /// What is not part of a stack.
    fn place_rest(&mut self, root: &At) -> Result<(), LoadError> {
        for union in 0..self.unions.len() {
            if !self.unions[union].in_stack {
                self.place_union(root, union)?;
            }
        }
        for index in 0..self.headers.len() {
            let header = &self.headers[index];
            if header.union.is_none() && !header.in_stack {
                self.headers[index].base = self.take(root, self.types[header.ty].slots)?;
            }
        }
        self.spare_slots = self.types.iter().map(|ty| ty.slots).max().unwrap_or(FIRST_FIELD);
        let unions = self.stacks.iter().map(|stack| stack.stride).max().unwrap_or(0);
        self.spare_slots = self.spare_slots.max(unions);
        self.spare = self.take(root, self.spare_slots)?;
        Ok(())
    }

    /// Takes the next slots.
    pub fn take(&mut self, at: &At, slots: u16) -> Result<Slot, LoadError> {
        let first = self.vars;
        self.vars += usize::from(slots);
        if self.vars > MAX_VARS {
            return at
                .fail(format_args!("the program's headers and metadata take more than {MAX_VARS} words"));
        }
        Ok(first as Slot)
    }

    fn add_aliases(&mut self, root: &At) -> Result<(), LoadError> {
        for at in root.list("field_aliases")? {
            let [from, to] = at.tuple()?;
            let field = self.field(&to)?;
            self.aliases.insert(from.str()?.to_string(), field);
        }
        Ok(())
    }

    fn type_index(&self, at: &At) -> Result<usize, LoadError> {
        let name = at.str()?;
        let index = self.type_names.get(name).copied();
        index.ok_or_else(|| at.error(format_args!("there is no header type {name:?}")))
    }
    fn header_by_id(&self, at: &At) -> Result<HeaderId, LoadError> {
        let id = at.int()?;
        let header = self.header_ids.get(&id).copied();
        header.ok_or_else(|| at.error(format_args!("there is no header with id {id}")))
    }
    /// The header a string names.
    pub fn header_id(&self, at: &At) -> Result<HeaderId, LoadError> {
        let name = at.str()?;
        let header = self.header_names.get(name).copied();
        header.ok_or_else(|| at.error(format_args!("there is no header {name:?}")))
    }
    /// The header stack a string names.
    pub fn stack(&self, at: &At) -> Result<usize, LoadError> {
        let name = at.str()?;
        let stack = self.stack_names.get(name).copied();
        stack.ok_or_else(|| at.error(format_args!("there is no header stack {name:?}")))
    }
    /// The union a string names.
    pub fn union(&self, at: &At) -> Result<usize, LoadError> {
        let name = at.str()?;
        let union = self.union_names.get(name).copied();
        union.ok_or_else(|| at.error(format_args!("there is no header union {name:?}")))
    }
    /// The stack of unions a string names.
    pub fn union_stack(&self, at: &At) -> Result<usize, LoadError> {
        let name = at.str()?;
        let stack = self.union_stack_names.get(name).copied();
        stack.ok_or_else(|| at.error(format_args!("there is no stack of header unions {name:?}")))
    }
    /// The member of a union that a string names; all elements of a stack have the same members.
    pub fn union_stack_member(&self, stack: usize, at: &At) -> Result<usize, LoadError> {
        let base = self.stacks[stack].base;
        let union = self.unions.iter().find(|union| self.header(union.headers[0]).base == base);
        let members = union.map(|union| self.union_types[union.ty].1.as_slice()).unwrap_or_default();
        let name = at.str()?;
        let member = members.iter().position(|member| member == name);
        member.ok_or_else(|| at.error(format_args!("the union has no member {name:?}")))
    }

    pub fn header(&self, id: HeaderId) -> &Header {
        &self.headers[usize::from(id.0)]
    }
    pub fn header_type(&self, id: HeaderId) -> &HeaderType {
        &self.types[self.header(id).ty]
    }
    /// The header whose block begins at this slot.
    pub fn header_at(&self, base: Slot) -> HeaderId {
        let index = self.headers.iter().position(|header| header.base == base);
        HeaderId(index.unwrap_or_default() as u16)
    }
    /// The field that `[header, field]` names.
    pub fn field(&self, at: &At) -> Result<(HeaderId, usize), LoadError> {
        let [header, field] = at.tuple()?;
        let header = self.header_id(&header)?;
        Ok((header, self.type_field(self.header(header).ty, &field)?))
    }
    /// The field of a type that a string names.
    pub fn type_field(&self, ty: usize, at: &At) -> Result<usize, LoadError> {
        let (name, ty) = (at.str()?, &self.types[ty]);
        let field = ty.fields.iter().position(|field| field.name == name);
        field.ok_or_else(|| at.error(format_args!("header type {} has no field {name:?}", ty.name)))
    }
    /// A field that simple_switch knows by name, through its alias or as it is.
    pub fn well_known(&self, header: &str, field: &str) -> Option<(HeaderId, usize)> {
        if let Some(found) = self.aliases.get(&format!("{header}.{field}")) {
            return Some(*found);
        }
        let id = *self.header_names.get(header)?;
        let index = self.header_type(id).fields.iter().position(|candidate| candidate.name == field)?;
        Some((id, index))
    }
    /// The absolute slot of a field.
    pub fn slot(&self, (header, field): (HeaderId, usize)) -> Slot {
        self.header(header).base + self.header_type(header).fields[field].slot
    }
    pub fn field_type(&self, (header, field): (HeaderId, usize)) -> &Field {
        &self.header_type(header).fields[field]
    }
}

/// Slots of a variable field of at most this many bits: its length comes first.
fn varbit_limbs(bits: u32) -> u16 {
    1 + bits.div_ceil(64).max(1) as u16
}
