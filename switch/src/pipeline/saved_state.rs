//! Saves and restores what BMv2's `serialize_state` covers: table entries, default actions, action profiles, and the
//! rates of meter arrays. Handles are kept. Counters, registers and value sets are not saved, as in BMv2.

use super::Pipeline;
use super::api_types::{ActionCall, GroupHandle, KeyMatch, MemberHandle, MeterRates, TableError};
use crate::program::{ActionId, Program};
use serde_json::{Map, Value, json};

/// Version of the format.
const VERSION: u64 = 1;
/// Maximum handle, so that a damaged file cannot make the switch allocate all memory.
const MAX_HANDLE: u32 = 1 << 24;

impl Pipeline {
    /// Returns the state as JSON text.
    pub fn save_state(&self) -> String {
        let tables = self.program.tables().filter_map(|(id, info)| {
            let entries = self.table_entries(id).into_iter().filter(|entry| !entry.is_const).map(|entry| {
                json!({
                    "handle": entry.handle.0,
                    "key": entry.key.iter().map(key_to_json).collect::<Vec<_>>(),
                    "priority": entry.priority,
                    "action": action_to_json(&self.program, &entry.action),
                    "timeout": entry.idle_timeout,
                })
            });
            let default = self.table_default(id).filter(|_| !info.const_default);
            let table = json!({
                "entries": entries.collect::<Vec<_>>(),
                "default": default.as_ref().map(|call| action_to_json(&self.program, call)),
            });
            // p4c turns statements outside of tables into hidden tables without key.
            (!info.name.starts_with("tbl_")).then(|| (info.name.clone(), table))
        });
        let profiles = self.program.profiles.iter().zip(&self.state.profiles).map(|(profile, state)| {
            let members = self.members(&profile.name).unwrap_or_default();
            let members = members.iter().map(|(MemberHandle(handle), action)| {
                json!({ "handle": handle, "action": action_to_json(&self.program, action) })
            });
            let groups = (0..state.groups.len() as u32).filter_map(|handle| {
                Some(json!({ "handle": handle, "members": state.group_members(handle)? }))
            });
            let profile_state = json!({
                "members": members.collect::<Vec<_>>(),
                "groups": groups.collect::<Vec<_>>(),
            });
            (profile.name.clone(), profile_state)
        });
        let meters = self.program.meters.iter().zip(&self.state.meters).filter(|(array, _)| !array.is_direct);
        let meters = meters.map(|(array, cells)| {
            let rates = cells.iter().map(|cell| match cell.rates() {
                Some(MeterRates { cir, cburst, pir, pburst }) => json!([cir, cburst, pir, pburst]),
                None => Value::Null,
            });
            (array.name.clone(), Value::Array(rates.collect()))
        });
        let state = json!({
            "version": VERSION,
            "tables": tables.collect::<Map<_, _>>(),
            "action_profiles": profiles.collect::<Map<_, _>>(),
            "meters": meters.collect::<Map<_, _>>(),
        });
        state.to_string()
    }

    /// Restores a saved state in a new pipeline of the same program.
    ///
    /// # Errors
    ///
    /// The text is not a saved state, or belongs to another program. The pipeline then holds a part of the state.
    pub fn restore_state(&mut self, text: &str) -> Result<(), TableError> {
        let state: Value = serde_json::from_str(text)
            .map_err(|error| TableError::Invalid(format!("the saved state is not JSON: {error}")))?;
        if state["version"] != VERSION {
            return invalid(format!("the saved state has no version {VERSION}"));
        }
        // Entries refer to groups and members, and groups to members.
        for (name, profile) in entries(&state, "action_profiles")? {
            self.restore_profile(name, profile).map_err(|error| locate("action profile", name, &error))?;
        }
        for (name, table) in entries(&state, "tables")? {
            self.restore_table(name, table).map_err(|error| locate("table", name, &error))?;
        }
        for (name, cells) in entries(&state, "meters")? {
            for (index, rates) in list(cells)?.iter().enumerate().filter(|(_, rates)| !rates.is_null()) {
                let [cir, cburst, pir, pburst] = [0, 1, 2, 3].map(|part| rates[part].as_u64());
                let (Some(cir), Some(cburst), Some(pir), Some(pburst)) = (cir, cburst, pir, pburst) else {
                    return invalid(format!("meter {name}: cell {index} is not a list of four numbers"));
                };
                self.meter_set_rates(name, index, Some(MeterRates { cir, cburst, pir, pburst }))?;
            }
        }
        Ok(())
    }

    fn restore_profile(&mut self, name: &str, profile: &Value) -> Result<(), TableError> {
        let index = self.profile(name)?;
        for saved in list(&profile["members"])? {
            let handle = handle(&saved["handle"])?;
            let action = action(&saved["action"], |action| self.member_action_by_name(name, action))?;
            let member = self.resolve_member(index, &action)?;
            set_at(&mut self.state.profiles[index].members, handle, member);
        }
        for saved in list(&profile["groups"])? {
            let members = list(&saved["members"])?.iter().map(|member| Ok(MemberHandle(handle(member)?)));
            let members = self.check_members(index, &members.collect::<Result<Vec<_>, TableError>>()?)?;
            set_at(&mut self.state.profiles[index].groups, handle(&saved["handle"])?, members);
        }
        Ok(())
    }

    fn restore_table(&mut self, name: &str, table: &Value) -> Result<(), TableError> {
        let id = self.table_by_name(name)?;
        // `table_add` allocates the last freed or else the next handle. Entries allocated for unused handles therefore
        // keep later entries at their handles; they are freed at the end.
        let mut gaps = Vec::new();
        for saved in list(&table["entries"])? {
            let saved_handle = handle(&saved["handle"])?;
            let (definition, state) = (&self.program.tables[id], &mut self.state.tables[id]);
            while state.extras.entries.len() <= saved_handle as usize {
                gaps.push(state.alloc_entry(definition));
            }
            let key: Vec<KeyMatch> = list(&saved["key"])?.iter().map(key).collect::<Result<_, _>>()?;
            let priority = saved["priority"].as_i64().and_then(|priority| i32::try_from(priority).ok());
            let Some(priority) = priority else { return invalid("an entry has no priority") };
            let call = action(&saved["action"], |name| self.action_by_name(id, name))?;
            let entry = self.table_add(id, &key, priority, &call)?;
            if entry.0 != saved_handle {
                return invalid(format!("the handles are not in ascending order at {saved_handle}"));
            }
            if let Some(timeout @ 1..) = saved["timeout"].as_u64() {
                self.table_set_timeout(id, entry, timeout)?;
            }
        }
        // The free list is a stack: the lowest handle is allocated first.
        gaps.reverse();
        self.state.tables[id].extras.free.extend(gaps);
        match &table["default"] {
            Value::Null => Ok(()),
            default => {
                let call = action(default, |name| self.action_by_name(id, name))?;
                self.table_set_default(id, &call)
            }
        }
    }
}

fn invalid<T>(message: impl Into<String>) -> Result<T, TableError> {
    Err(TableError::Invalid(message.into()))
}

fn locate(kind: &str, name: &str, error: &TableError) -> TableError {
    TableError::Invalid(format!("saved state of {kind} {name}: {error}"))
}

/// Stores a value at the index of its handle, which may lie beyond the end.
fn set_at<V: Clone>(values: &mut Vec<Option<V>>, handle: u32, value: V) {
    let index = handle as usize;
    if values.len() <= index {
        values.resize(index + 1, None);
    }
    values[index] = Some(value);
}

fn entries<'a>(state: &'a Value, key: &str) -> Result<&'a Map<String, Value>, TableError> {
    state[key].as_object().ok_or_else(|| TableError::Invalid(format!("the saved state has no {key}")))
}

fn list(value: &Value) -> Result<&Vec<Value>, TableError> {
    value.as_array().ok_or_else(|| TableError::Invalid("a list is missing".into()))
}

fn handle(value: &Value) -> Result<u32, TableError> {
    let handle = value.as_u64().and_then(|handle| u32::try_from(handle).ok());
    match handle.filter(|handle| *handle <= MAX_HANDLE) {
        Some(handle) => Ok(handle),
        None => invalid(format!("{value} is not a handle")),
    }
}

fn hex(bytes: &[u8]) -> Value {
    Value::String(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

fn bytes(value: &Value) -> Result<Vec<u8>, TableError> {
    let digits = value.as_str().filter(|text| text.is_ascii() && text.len().is_multiple_of(2));
    let byte = |start: usize| u8::from_str_radix(digits?.get(start..start + 2)?, 16).ok();
    let bytes = (0..digits.map_or(0, str::len)).step_by(2).map(byte).collect::<Option<Vec<u8>>>();
    match bytes.filter(|_| digits.is_some()) {
        Some(bytes) => Ok(bytes),
        None => invalid(format!("{value} is not a number in hexadecimal")),
    }
}

fn key_to_json(key: &KeyMatch) -> Value {
    match key {
        KeyMatch::Exact(value) => json!({ "exact": hex(value) }),
        KeyMatch::Lpm { value, prefix_len } => json!({ "lpm": [hex(value), prefix_len] }),
        KeyMatch::Ternary { value, mask } => json!({ "ternary": [hex(value), hex(mask)] }),
        KeyMatch::Range { low, high } => json!({ "range": [hex(low), hex(high)] }),
        KeyMatch::Any => json!("any"),
    }
}

fn key(value: &Value) -> Result<KeyMatch, TableError> {
    if value == "any" {
        return Ok(KeyMatch::Any);
    }
    let kind = value.as_object().and_then(|fields| fields.iter().next());
    match kind.map(|(kind, parts)| (kind.as_str(), parts)) {
        Some(("exact", exact)) => Ok(KeyMatch::Exact(bytes(exact)?)),
        Some(("lpm", parts)) => {
            let prefix_len = parts[1].as_u64().and_then(|len| u16::try_from(len).ok());
            let Some(prefix_len) = prefix_len else {
                return invalid(format!("{value} has no prefix length"));
            };
            Ok(KeyMatch::Lpm { value: bytes(&parts[0])?, prefix_len })
        }
        Some(("ternary", parts)) => {
            Ok(KeyMatch::Ternary { value: bytes(&parts[0])?, mask: bytes(&parts[1])? })
        }
        Some(("range", parts)) => Ok(KeyMatch::Range { low: bytes(&parts[0])?, high: bytes(&parts[1])? }),
        _ => invalid(format!("{value} is not a match")),
    }
}

fn action_to_json(program: &Program, action: &ActionCall) -> Value {
    match action {
        ActionCall::Action { action, args } => {
            json!({ "action": program.action_name(*action), "args": args.iter().map(|arg| hex(arg)).collect::<Vec<_>>() })
        }
        ActionCall::Member(MemberHandle(member)) => json!({ "member": member }),
        ActionCall::Group(GroupHandle(group)) => json!({ "group": group }),
    }
}

/// Reads a call; `find` returns the action with a name.
fn action(
    value: &Value,
    find: impl FnOnce(&str) -> Result<ActionId, TableError>,
) -> Result<ActionCall, TableError> {
    if let Some(name) = value["action"].as_str() {
        let args = list(&value["args"])?.iter().map(bytes).collect::<Result<Vec<_>, _>>()?;
        return Ok(ActionCall::action(find(name)?, args));
    }
    match (&value["member"], &value["group"]) {
        (Value::Null, Value::Null) => invalid(format!("{value} is not an action")),
        (Value::Null, group) => Ok(ActionCall::Group(GroupHandle(handle(group)?))),
        (member, _) => Ok(ActionCall::Member(MemberHandle(handle(member)?))),
    }
}
