//! Brings the parts of a program together: loads them in order, gives temporaries and constants their slots, finds
//! out which fields are used at all.

use super::action::{Actions, Names, State};
use super::asm::{Asm, CONSTS, TEMPS};
use super::expr::{Num, Place, Scope};
use super::flow::Flow;
use super::json::At;

use super::op::Role;
use super::parser::lookahead_place;
use super::table::Context;
use super::*;
use std::collections::{BTreeSet, HashMap};
use std::sync::OnceLock;

/// The version of the format that is understood; minor versions only add to it.
const MAJOR_VERSION: i64 = 2;
const MAX_CELLS: usize = 1 << 24;

/// What an action needs to be compiled once more where it is called with constant arguments.
struct ActionSource<'a> {
    primitives: Vec<At<'a>>,
    params: Vec<u32>,
}

pub(super) fn load(root: &At) -> Result<Program, LoadError> {
    check_version(root)?;
    let mut layout = Layout::load(root)?;
    let (mut names, registers, counters, meters) = load_arrays(root)?;
    let (field_lists, learn_lists) = load_lists(root, &layout, &mut names)?;
    if let Some(extern_at) = root.list("extern_instances")?.first() {
        return extern_at.fail(format_args!("extern {} is not supported", extern_at.get("type")?.value));
    }
    let (mut infos, mut sources, mut action_ids) = (Vec::new(), Vec::new(), HashMap::new());
    for at in root.get("actions")?.items()? {
        let mut params = Vec::new();
        for param in at.list("runtime_data")? {
            const MAX_PARAM_BITS: usize = 4096;
            params.push((param.name()?, param.get("bitwidth")?.size(MAX_PARAM_BITS)? as u32));
        }
        let id = ActionId(u16::try_from(infos.len()).map_err(|_| at.error("there are too many actions"))?);
        if action_ids.insert(at.get("id")?.int()?, id).is_some() {
            return at.fail("another action has this id");
        }
        let widths = params.iter().map(|(_, bits)| *bits).collect();
        sources.push(ActionSource { primitives: at.list("primitives")?, params: widths });
        infos.push(ActionInfo { name: at.name()?, params });
    }
    let params_size =
        sources.iter().map(|source| source.params.iter().map(|bits| limbs(*bits)).sum::<usize>());
    let params_size = params_size.max().unwrap_or(0);
    let params_size =
        u16::try_from(params_size).map_err(|_| root.error("an action has too many parameters"))?;
    let params = layout.take(root, params_size)?;
    let mut take = || layout.take(root, 1);
    let state = State {
        exit: take()?,
        drop_port: take()?,
        clone_session: take()?,
        clone_list: take()?,
        resubmit: take()?,
        recirculate: take()?,
        digest: take()?,
    };
    let (standard, egress_spec, mcast_grp) = standard(root, &mut layout)?;

    let layout = layout;
    let mut logs = Vec::new();
    let mut asm = Asm::new(&layout, registers.iter().map(|array| array.bits).collect());
    asm.emit(Code::End, 64, 0, 0, 0);
    let scope = Scope { layout: &layout, registers: &names.registers, params: &[] };
    let mut calculations = Vec::new();
    for at in root.list("calculations")? {
        let calculation = Calculation::load(&at, &scope)?;
        names.calculations.insert(calculation.name.clone(), calculations.len() as u16);
        calculations.push(calculation);
    }
    let no_params = Scope { layout: &layout, registers: &names.registers, params: &[] };
    let mut actions = Actions {
        asm: &mut asm,
        scope: no_params,
        names: &names,
        state,
        logs: &mut logs,
        egress_spec,
        mcast_grp,
        action: 0,
    };
    let parser = parser::load(root, &mut actions)?;
    let checksums = load_checksums(root, &mut actions)?;
    let (deparser, deparser_code) = load_deparser(root, &mut actions)?;

    let mut action_code = Vec::new();
    for (index, source) in sources.iter().enumerate() {
        let (mut slot, mut places) = (params, Vec::new());
        for bits in &source.params {
            places.push(Num::Place(Place { slot, bits: *bits, signed: false, saturating: false }));
            slot += limbs(*bits) as u16;
        }
        actions.action = index as u16;
        action_code.push(actions.asm.here());
        if with_params(&mut actions, &places, &source.primitives)? {
            actions.asm.emit(Code::EndIfExit, 64, 0, state.exit, 0);
        }
        actions.asm.emit(Code::Return, 64, 0, 0, 0);
    }

    let action_names: Vec<String> = infos.iter().map(|info| info.name.clone()).collect();
    let meter_targets = meter_targets(root, &layout, &names)?;
    let (mut tables, mut profiles, mut marks) = (Vec::<Table>::new(), Vec::new(), Vec::new());
    let (mut ingress, mut egress) = (None, None);
    for at in root.get("pipelines")?.items()? {
        let scope = Scope { layout: &layout, registers: &names.registers, params: &[] };
        let mut context = Context {
            scope,
            action_ids: &action_ids,
            actions: &infos,
            meters: &meter_targets,
            profiles: &[],
        };
        let mut add = |at: &At, profile: table::Profile| {
            if profiles.iter().any(|known: &table::Profile| known.name == profile.name) {
                return at.fail("another action profile has this name");
            }
            profiles.push(profile);
            Ok(())
        };
        for profile in at.list("action_profiles")? {
            add(&profile, context.profile(&profile)?)?;
        }
        for table in at.list("tables")? {
            if let Some(profile) = context.profile_of_table(&table)? {
                add(&table, profile)?;
            }
        }
        context.profiles = &profiles;
        let first = tables.len();
        for table in at.list("tables")? {
            tables.push(context.table(&table)?);
            if tables.len() >= usize::from(u16::MAX) {
                return table.fail("there are too many tables");
            }
        }
        let flow = Flow::load(&at, first)?;
        let inline = |actions: &mut Actions, at: &At, action: u16, args: &[u64]| {
            let source = &sources[usize::from(action)];
            let (mut rest, mut nums) = (args, Vec::new());
            for bits in &source.params {
                let Some((value, tail)) = rest.split_at_checked(limbs(*bits)) else {
                    return at.fail("the action needs arguments");
                };
                nums.push(Num::limbs(value));
                rest = tail;
            }
            actions.action = action;
            with_params(actions, &nums, &source.primitives)
        };
        let call = |at: &At| match action_ids.get(&at.int()?) {
            Some(id) => Ok(id.0),
            None => at.fail("there is no action with this id"),
        };
        let start = flow.emit(&mut actions, &mut tables, &action_names, inline, call, &mut marks)?;
        let name = at.get("name")?;
        match name.str()? {
            "ingress" => ingress = Some(start),
            "egress" => egress = Some(start),
            other => return name.fail(format_args!("a pipeline named {other:?} is not supported")),
        }
    }
    let (Some(ingress), Some(egress)) = (ingress, egress) else {
        return root.get("pipelines")?.fail("expected an ingress and an egress pipeline");
    };
    for table in &tables {
        if let Some(profile) = table.profile {
            profiles[usize::from(profile)].actions.extend(&table.info.actions);
        }
    }
    asm.check_size(root)?;
    let Asm { mut code, mut wide, header_ops, consts, temps, whole, .. } = asm;
    marks.sort_by_key(|(pc, _)| *pc);

    let mut program = Program {
        stamp: 0,
        engine: Engine::default(),
        json: String::new(),
        places: OnceLock::new(),
        vars: layout.vars,
        temps: usize::from(temps),
        capacity: 0,
        consts,
        code: Vec::new(),
        wide: Vec::new(),
        header_ops,
        logs,
        marks,
        standard,
        state,
        metadata: Vec::new(),
        params,
        parser,
        shapes: Vec::new(),
        type_shapes: layout.types.iter().map(|ty| Shape::new(ty, None)).collect(),
        deparser,
        deparser_code,
        checksums,
        calculations,
        register_words: registers.iter().map(|array| array.size * limbs(array.bits)).sum(),
        registers,
        counters,
        meters,
        actions: infos,
        action_code,
        tables,
        profiles,
        field_lists,
        learn_lists,
        ingress,
        egress,
        compiled: Compiled::default(),
        layout: Layout::default(),
    };
    for op in &mut code {
        op.finish();
        for (role, operand) in op.operands() {
            if matches!(role, Role::Read | Role::Write | Role::Update) {
                *operand = program.place(*operand);
            }
        }
    }
    for op in &mut wide {
        for operand in [&mut op.d, &mut op.a, &mut op.b] {
            operand.slot = program.place(operand.slot);
        }
    }
    (program.code, program.wide) = (code, wide);
    program.capacity = capacity(program.vars + (program.temps + program.consts.len()).max(WINDOW))
        .ok_or_else(|| root.error("the program takes too many words"))?;
    program.place_rest();
    let metadata = layout.headers.iter().filter(|header| header.metadata);
    program.metadata = metadata.map(|header| (header.base, layout.types[header.ty].slots)).collect();
    let (read, written) = program.used(&[]);
    let shape = |(index, header): (usize, &layout::Header)| {
        let ty = &layout.types[header.ty];
        if whole.contains(&HeaderId(index as u16)) {
            return Shape::new(ty, None);
        }
        let test = |set: &BTreeSet<Slot>, rel: u16| set.contains(&(header.base + rel));
        Shape::new(ty, Some((&|rel| test(&read, rel), &|rel| test(&written, rel))))
    };
    program.shapes = layout.headers.iter().enumerate().map(shape).collect();
    program.layout = layout;
    program.compiled = Compiled::new(&program, &whole);
    Ok(program)
}

/// The smallest size of header vectors that fits.
fn capacity(slots: usize) -> Option<usize> {
    CAPACITIES.into_iter().find(|capacity| slots <= *capacity)
}

/// Compiles the body of an action.
fn with_params(actions: &mut Actions, params: &[Num], primitives: &[At]) -> Result<bool, LoadError> {
    let scope = Scope { layout: actions.scope.layout, registers: actions.scope.registers, params };
    let mut inner = Actions {
        asm: &mut *actions.asm,
        scope,
        names: actions.names,
        state: actions.state,
        logs: &mut *actions.logs,
        egress_spec: actions.egress_spec,
        mcast_grp: actions.mcast_grp,
        action: actions.action,
    };
    let exits = inner.body(primitives)?;
    if let Some(last) = primitives.last() {
        inner.asm.check_size(last)?;
    }
    Ok(exits)
}

/// Refuses a format of another major version. As in BMv2, JSON without a version is taken for the current one.
fn check_version(root: &At) -> Result<(), LoadError> {
    let Some(version) = root.opt("__meta__").and_then(|meta| meta.opt("version")) else { return Ok(()) };
    let [major, _minor] = version.tuple()?;
    match major.int()? {
        MAJOR_VERSION => Ok(()),
        other => version.fail(format_args!(
            "version {other} of the format is not supported, only {MAJOR_VERSION}: compile with a current p4c"
        )),
    }
}

type Arrays = (Names, Vec<Array>, Vec<Array>, Vec<Array>);

fn load_arrays(root: &At) -> Result<Arrays, LoadError> {
    let mut names = Names::default();
    let load = |key: &str, index: &mut HashMap<String, u16>| {
        let mut arrays = Vec::new();
        for at in root.list(key)? {
            let name = at.name()?;
            if index.insert(name.clone(), arrays.len() as u16).is_some()
                || arrays.len() >= usize::from(u16::MAX)
            {
                return at.fail("another array has this name");
            }
            let bits = match key {
                "register_arrays" => {
                    const MAX_REGISTER_BITS: usize = 4096;
                    match at.get("bitwidth")?.size(MAX_REGISTER_BITS)? {
                        0 => return at.get("bitwidth")?.fail("a register needs a width"),
                        bits => bits as u32,
                    }
                }
                _ => 0,
            };
            let packets = match at.opt("type") {
                Some(kind) if key == "meter_arrays" => match kind.str()? {
                    "packets" => true,
                    "bytes" => false,
                    other => return kind.fail(format_args!("a meter of {other:?} is not supported")),
                },
                _ => false,
            };
            if key == "meter_arrays" && at.get("rate_count")?.int()? != 2 {
                return at.get("rate_count")?.fail("only meters with two rates are supported");
            }
            let direct = at.flag("is_direct", false)?;
            // A direct counter has no size, it has a cell for each entry of its table.
            let size = if direct { 0 } else { at.get("size")?.size(MAX_CELLS)? };
            arrays.push(Array { name, size, bits, direct, packets, base: 0, step: 0 });
        }
        Ok(arrays)
    };
    let mut registers = load("register_arrays", &mut names.registers)?;
    interleave(&mut registers);
    let counters = load("counter_arrays", &mut names.counters)?;
    let meters = load("meter_arrays", &mut names.meters)?;
    Ok((names, registers, counters, meters))
}

/// Lays register arrays of one size out cell by cell: a packet reads the same cell of several (that of its port), and
/// so finds them in one cache line.
fn interleave(registers: &mut [Array]) {
    let mut end = 0;
    for first in 0..registers.len() {
        if registers[first].step > 0 {
            continue;
        }
        let size = registers[first].size;
        let (begin, mut step) = (end, 0);
        for array in registers.iter_mut().filter(|array| array.size == size) {
            array.base = begin + step;
            step += limbs(array.bits);
        }
        registers.iter_mut().filter(|array| array.size == size).for_each(|array| array.step = step);
        end += size * step;
    }
}

fn meter_targets(
    root: &At,
    layout: &Layout,
    names: &Names,
) -> Result<HashMap<String, (u16, Option<Place>)>, LoadError> {
    let scope = Scope { layout, registers: &names.registers, params: &[] };
    let mut targets = HashMap::new();
    for (index, at) in root.list("meter_arrays")?.iter().enumerate() {
        let direct = at.flag("is_direct", false)?;
        let target = if direct { Some(scope.place(&at.get("result_target")?)?) } else { None };
        if target.is_some_and(|target| target.bits > 64) {
            return at.get("result_target")?.fail("a colour fits 64 bits");
        }
        targets.insert(at.name()?, (index as u16, target));
    }
    Ok(targets)
}

fn load_lists(
    root: &At,
    layout: &Layout,
    names: &mut Names,
) -> Result<(Vec<FieldList>, Vec<FieldList>), LoadError> {
    let registers = HashMap::new();
    let scope = Scope { layout, registers: &registers, params: &[] };
    let load = |key: &str, ids: &mut Vec<i64>| {
        let mut lists = Vec::new();
        for at in root.list(key)? {
            let mut fields = Vec::new();
            for element in at.list("elements")? {
                let kind = element.get("type")?;
                match kind.str()? {
                    "field" => {
                        let place = scope.place(&element.get("value")?)?;
                        fields.push((place.slot, place.bits));
                    }
                    // A constant in a list that is preserved has nowhere to go.
                    "hexstr" if key == "field_lists" => {}
                    other => {
                        return kind.fail(format_args!("a list element of type {other:?} is not supported"));
                    }
                }
            }
            ids.push(at.get("id")?.int()?);
            lists.push(FieldList { name: at.name()?, fields });
        }
        Ok(lists)
    };
    Ok((load("field_lists", &mut names.field_lists)?, load("learn_lists", &mut names.learn_lists)?))
}

fn load_checksums(root: &At, actions: &mut Actions) -> Result<Vec<Checksum>, LoadError> {
    let mut checksums = Vec::new();
    for at in root.list("checksums")? {
        let kind = at.get("type")?;
        if kind.str()? != "generic" {
            return kind.fail(format_args!("a checksum of type {} is not supported", kind.value));
        }
        let name_at = at.get("calculation")?;
        let Some(calculation) = actions.names.calculations.get(name_at.str()?) else {
            return name_at.fail(format_args!("there is no calculation {}", name_at.value));
        };
        let target_at = at.get("target")?;
        let target = actions.scope.place(&target_at)?;
        if target.bits > 64 {
            return target_at.fail("a checksum fits 64 bits");
        }
        let [header, _] = target_at.tuple()?;
        let header = actions.scope.layout.header(actions.scope.layout.header_id(&header)?);
        let condition = match at.opt("if_cond") {
            Some(condition) => {
                let value = actions.scope.bool(&condition)?;
                Some(action::condition(actions.asm, &condition, &value)?)
            }
            None => None,
        };
        checksums.push(Checksum {
            name: at.name()?,
            calculation: *calculation,
            target,
            valid: (!header.metadata).then_some(header.base + VALID),
            condition,
            verify: at.flag("verify", true)?,
            update: at.flag("update", true)?,
        });
    }
    Ok(checksums)
}

/// The headers in order with their blocks, and the code that runs before they are emitted.
type Deparser = (Vec<(HeaderId, Slot)>, Option<Pc>);

fn load_deparser(root: &At, actions: &mut Actions) -> Result<Deparser, LoadError> {
    let deparsers = root.get("deparsers")?;
    let [at] = deparsers.tuple()?;
    let mut order = Vec::new();
    for header in at.get("order")?.items()? {
        let id = actions.scope.layout.header_id(&header)?;
        order.push((id, actions.scope.layout.header(id).base));
    }
    let primitives = at.list("primitives")?;
    if primitives.is_empty() {
        return Ok((order, None));
    }
    let start = actions.asm.here();
    actions.body(&primitives)?;
    actions.asm.emit(Code::End, 64, 0, 0, 0);
    Ok((order, Some(start)))
}

/// A field that simple_switch knows by name, if the program has it.
fn well_known(layout: &Layout, header: &str, field: &str) -> Option<Place> {
    let found = layout.well_known(header, field).filter(|found| layout.field_type(*found).bits <= 64)?;
    let bits = layout.field_type(found).bits;
    Some(Place { slot: layout.slot(found), bits, signed: false, saturating: false })
}

/// The fields that simple_switch itself reads and writes. One that the program does not have gets a slot of its own, in
/// which nothing else shows: it begins as 0 with each packet.
fn standard(root: &At, layout: &mut Layout) -> Result<(Standard, Place, Option<Place>), LoadError> {
    const QUEUEING: &str = "queueing_metadata";
    let find = |field: &str| {
        let missing =
            || root.error(format_args!("the program has no standard_metadata.{field}: is it v1model?"));
        well_known(layout, "standard_metadata", field).ok_or_else(missing)
    };
    let (ingress_port, packet_length) = (find("ingress_port")?, find("packet_length")?);
    let (egress_port, instance_type) = (find("egress_port")?, find("instance_type")?);
    let egress_spec = find("egress_spec")?;
    let mcast_grp = well_known(layout, "intrinsic_metadata", "mcast_grp");
    // Some of these are as good as none (`SimpleSwitch::check_queueing_metadata`).
    let queueing = ["enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"]
        .iter()
        .all(|field| well_known(layout, QUEUEING, field).is_some());
    let mut optional = |header: &str, field: &str| {
        let found = well_known(layout, header, field).filter(|_| queueing || header != QUEUEING);
        match found {
            Some(place) => Ok((place.slot, place.bits)),
            None => layout.take(root, 1).map(|slot| (slot, 64)),
        }
    };
    let (enq_timestamp, enq_timestamp_bits) = optional(QUEUEING, "enq_timestamp")?;
    let (deq_timedelta, deq_timedelta_bits) = optional(QUEUEING, "deq_timedelta")?;
    let (enq_qdepth, qdepth_bits) = optional(QUEUEING, "enq_qdepth")?;
    let mut slot = |header: &str, field: &str| optional(header, field).map(|(slot, _)| slot);
    let standard = Standard {
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
    };
    Ok((standard, egress_spec, mcast_grp))
}

impl Program {
    /// Where a variable, temporary or constant is in the end.
    fn place(&self, slot: Slot) -> Slot {
        let (vars, temps) = (self.vars as u16, self.temps as u16);
        match slot {
            slot if slot >= CONSTS => vars + temps + (slot - CONSTS),
            slot if slot >= TEMPS => vars + (slot - TEMPS),
            slot => slot,
        }
    }

    /// Gives the slots outside the code their places.
    fn place_rest(&mut self) {
        let (vars, temps) = (self.vars as u16, self.temps as u16);
        let place = |slot: &mut Slot| {
            *slot = match *slot {
                slot if slot >= CONSTS => vars + temps + (slot - CONSTS),
                slot if slot >= TEMPS => vars + (slot - TEMPS),
                slot => slot,
            }
        };
        for checksum in &mut self.checksums {
            checksum.condition.iter_mut().for_each(|condition| place(&mut condition.slot));
        }
        for op in self.parser.states.iter_mut().flat_map(|state| &mut state.ops) {
            match op {
                ParseOp::ExtractVarbit { length, .. } | ParseOp::ExtractNextVarbit { length, .. } => {
                    place(&mut length.slot)
                }
                ParseOp::Advance(condition) => place(&mut condition.slot),
                ParseOp::Verify { condition, error } => {
                    place(&mut condition.slot);
                    place(&mut error.slot);
                }
                ParseOp::Extract { .. } | ParseOp::ExtractNext { .. } => {}
                ParseOp::Lookahead { .. } | ParseOp::Run(_) => {}
            }
        }
        for value in self.logs.iter_mut().flat_map(|log| &mut log.values) {
            place(&mut value.slot);
        }
    }

    /// The slots that the program reads and writes, other than through headers as a whole. The checksums at the indices
    /// `on_wire` do not count, nor do calculations that only they use.
    pub(super) fn used(&self, on_wire: &[usize]) -> (BTreeSet<Slot>, BTreeSet<Slot>) {
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        let range = |slot: Slot, bits: u32| slot..slot + limbs(bits) as u16;
        for op in &self.code {
            for (role, operand) in op.clone().operands() {
                if matches!(role, Role::Read | Role::Update) {
                    read.insert(*operand);
                }
                if matches!(role, Role::Write | Role::Update) {
                    written.insert(*operand);
                }
            }
        }
        for op in &self.wide {
            read.extend([op.a, op.b].iter().flat_map(|operand| operand.slot..operand.slot + operand.limbs));
            written.extend(op.d.slot..op.d.slot + op.d.limbs);
        }
        let slotted = |index: usize| {
            let mut users = self.checksums.iter().enumerate();
            let hashed = self.code.iter().any(|op| op.code == Code::Hash && usize::from(op.a) == index);
            let uses = |(number, checksum): (usize, &Checksum)| {
                usize::from(checksum.calculation) == index && !on_wire.contains(&number)
            };
            on_wire.is_empty() || hashed || users.any(uses)
        };
        let calculations = self.calculations.iter().enumerate().filter(|(index, _)| slotted(*index));
        let selectors = self.profiles.iter().filter_map(|profile| profile.selector.as_ref());
        for calculation in calculations.map(|(_, calculation)| calculation).chain(selectors) {
            for input in &calculation.inputs {
                match input {
                    Input::Field { slot, bits, .. } => read.extend(range(*slot, *bits)),
                    Input::Varbit { .. } | Input::Const { .. } | Input::Payload => {}
                }
            }
        }
        for (number, checksum) in self.checksums.iter().enumerate() {
            if on_wire.contains(&number) {
                continue;
            }
            read.insert(checksum.target.slot);
            if checksum.update {
                written.insert(checksum.target.slot);
            }
            read.extend(checksum.condition.map(|condition| condition.slot));
        }
        for table in &self.tables {
            read.extend(table.key.iter().flat_map(|key| range(key.slot, key.bits)));
            written.extend(table.meter.map(|(_, target)| target.slot));
        }
        for list in self.field_lists.iter().chain(&self.learn_lists) {
            read.extend(list.fields.iter().flat_map(|(slot, bits)| range(*slot, *bits)));
        }
        for state in &self.parser.states {
            for part in &state.key {
                if let KeyPart::Slot { slot, bits } = part {
                    read.extend(range(*slot, *bits));
                }
            }
            for op in &state.ops {
                match op {
                    ParseOp::Verify { condition, error } => read.extend([condition.slot, error.slot]),
                    ParseOp::Advance(length) => _ = read.insert(length.slot),
                    ParseOp::ExtractVarbit { length, .. } | ParseOp::ExtractNextVarbit { length, .. } => {
                        read.insert(length.slot);
                    }
                    op => {
                        let place = lookahead_place(op);
                        written.extend(place.iter().flat_map(|place| range(place.slot, place.bits)));
                    }
                }
            }
        }
        for value in self.logs.iter().flat_map(|log| &log.values) {
            read.extend(value.slot..value.slot + value.limbs);
        }
        (read, written)
    }
}
