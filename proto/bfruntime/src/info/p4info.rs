//! Converts a bfrt.json to a P4Info, so that controllers can plan entries by name for BMv2 and Tofino alike.

use super::BfrtInfo;
use super::table::{DataField, MATCH_PRIORITY, MatchType, Scope, Table, TableType};
use p4runtime::p4::config::v1 as p4;
use p4runtime::p4::config::v1::match_field::{Match, MatchType as P4Match};
use p4runtime::value;
use std::collections::{BTreeMap, BTreeSet};

/// The architecture in the P4Info of [`BfrtInfo::p4info`].
pub(super) const ARCHITECTURE: &str = "tna";

impl BfrtInfo {
    /// Returns a P4Info with the match-action tables and registers of the program, with the ids of bfrt.json. A
    /// parameter of register actions becomes a table without a key and with one action, `set`, whose id is that of
    /// the table. Tables with action profiles and counters are omitted.
    pub fn p4info(&self) -> p4::P4Info {
        let is_supported = |table: &&Table| !matches!(table.table_type, TableType::Other(_));
        let mut actions = BTreeMap::new();
        let (mut tables, mut direct_meters) = (Vec::new(), Vec::new());
        for table in self.tables().filter(is_supported) {
            for action in &table.actions {
                let params = action.fields.iter().map(param).collect();
                let preamble = Some(named(action.id, &action.name, &action.name));
                actions.entry(action.id).or_insert(p4::Action { preamble, params });
            }
            if table.table_type == TableType::RegisterParam {
                let name = format!("{}.set", table.name);
                let params = table.fields.iter().map(param).collect();
                let preamble = Some(named(table.id, &name, &name));
                actions.insert(table.id, p4::Action { preamble, params });
            }
            if table.field("$METER_SPEC_CIR_KBPS").is_some() {
                direct_meters.push(p4::DirectMeter {
                    preamble: Some(named(table.id, &table.name, &table.name)),
                    spec: Some(p4::MeterSpec {
                        unit: p4::meter_spec::Unit::Bytes.into(),
                        ..Default::default()
                    }),
                    direct_table_id: table.id,
                });
            }
            tables.push(p4_table(table, self.alias(table)));
        }
        let registers =
            self.tables().filter(|table| table.table_type == TableType::Other("Register".to_owned()));
        let registers = registers.map(|table| p4::Register {
            preamble: Some(named(table.id, &table.name, &self.alias(table))),
            size: i32::try_from(table.size).unwrap_or(i32::MAX),
            ..p4::Register::default()
        });
        p4::P4Info {
            pkg_info: Some(p4::PkgInfo { arch: ARCHITECTURE.to_owned(), ..p4::PkgInfo::default() }),
            tables,
            actions: actions.into_values().collect(),
            registers: registers.collect(),
            direct_meters,
            ..p4::P4Info::default()
        }
    }

    /// Returns the shortest dotted suffix of the table's name that no other table has.
    fn alias(&self, table: &Table) -> String {
        let suffixes: BTreeSet<&str> = self
            .tables()
            .filter(|other| other.id != table.id)
            .flat_map(|other| suffixes(&other.name))
            .collect();
        suffixes_shortest_first(&table.name)
            .into_iter()
            .find(|suffix| !suffixes.contains(suffix))
            .unwrap_or(&table.name)
            .to_owned()
    }
}

fn suffixes(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('.').map(|(dot, _)| &name[dot + 1..]).chain([name])
}

fn suffixes_shortest_first(name: &str) -> Vec<&str> {
    let mut all: Vec<&str> = suffixes(name).collect();
    all.sort_by_key(|suffix| suffix.len());
    all
}

fn named(id: u32, name: &str, alias: &str) -> p4::Preamble {
    p4::Preamble { id, name: name.to_owned(), alias: alias.to_owned(), ..p4::Preamble::default() }
}

fn param(field: &DataField) -> p4::action::Param {
    let bitwidth = field.kind.bits().unwrap_or_default() as i32;
    p4::action::Param { id: field.id, name: field.name.clone(), bitwidth, ..p4::action::Param::default() }
}

fn p4_table(table: &Table, alias: String) -> p4::Table {
    let keys = table.key.iter().filter(|field| field.name != MATCH_PRIORITY);
    let match_fields = keys.map(|field| {
        let kind = match field.match_type {
            MatchType::Exact => P4Match::Exact,
            MatchType::Lpm => P4Match::Lpm,
            MatchType::Ternary => P4Match::Ternary,
            MatchType::Range => P4Match::Range,
            MatchType::Optional => P4Match::Optional,
        };
        p4::MatchField {
            id: field.id,
            name: field.name.clone(),
            bitwidth: field.kind.bits().unwrap_or_default() as i32,
            r#match: Some(Match::MatchType(kind.into())),
            ..p4::MatchField::default()
        }
    });
    let reference = |id, scope: Scope| {
        let scope = match scope {
            Scope::TableAndDefault => p4::action_ref::Scope::TableAndDefault,
            Scope::TableOnly => p4::action_ref::Scope::TableOnly,
            Scope::DefaultOnly => p4::action_ref::Scope::DefaultOnly,
        };
        p4::ActionRef { id, scope: scope.into(), ..p4::ActionRef::default() }
    };
    let mut action_refs: Vec<_> = table.actions.iter().map(|it| reference(it.id, it.scope)).collect();
    // bfrt.json does not name the default action. An action that is allowed only in the default entry must be it.
    let default = table.actions.iter().find(|it| it.scope == Scope::DefaultOnly);
    let mut initial = default
        .filter(|it| it.fields.is_empty() && !table.has_const_default)
        .map(|it| p4::TableActionCall { action_id: it.id, arguments: Vec::new() });
    if table.table_type == TableType::RegisterParam {
        action_refs.push(reference(table.id, Scope::DefaultOnly));
        let argument = |field: &DataField| {
            let value = value::from_uint(field.default?.into());
            Some(p4::table_action_call::Argument { param_id: field.id, value })
        };
        let arguments: Option<Vec<_>> = table.fields.iter().map(argument).collect();
        initial = arguments.map(|arguments| p4::TableActionCall { action_id: table.id, arguments });
    }
    let const_default = default.or(table.actions.first()).filter(|_| table.has_const_default);
    p4::Table {
        preamble: Some(named(table.id, &table.name, &alias)),
        match_fields: match_fields.collect(),
        action_refs,
        const_default_action_id: const_default.map_or(0, |it| it.id),
        initial_default_action: initial,
        direct_resource_ids: table.field("$METER_SPEC_CIR_KBPS").map(|_| table.id).into_iter().collect(),
        size: i64::try_from(table.size).unwrap_or(i64::MAX),
        is_const_table: table.is_const,
        ..p4::Table::default()
    }
}
