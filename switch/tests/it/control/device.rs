//! A switch with one entity of every kind, and helpers that build requests.

use p4runtime::google::rpc::Code;
use p4runtime::p4::v1::action::Param;
use p4runtime::p4::v1::field_match::{Exact, FieldMatchType, Lpm, Optional, Range, Ternary};
use p4runtime::p4::v1::packet_replication_engine_entry::Type as Pre;
use p4runtime::p4::v1::table_action::Type as ActionType;
use p4runtime::p4::v1::update::Type;
use p4runtime::p4::v1::{self, entity::Entity as Kind, *};
use p4runtime::p4info::{self, Object};
use std::sync::Arc;
use weir_switch::control::{Control, ControlError};
use weir_switch::{Program, Switch, SwitchConfig};

const JSON: &str = include_str!("entities.json");
const P4INFO: &str = include_str!("entities.p4info.txtpb");

pub(super) struct Device {
    pub switch: Switch,
    pub control: Control,
}

impl Device {
    pub(super) fn new() -> Device {
        let switch = Switch::new(Program::from_json(JSON).unwrap(), SwitchConfig::new(1..=8), 1).unwrap();
        let index = Arc::new(p4info::Index::from_text(P4INFO).unwrap());
        let control = Control::new(index, &switch).unwrap();
        Device { switch, control }
    }
    pub(super) fn index(&self) -> &p4info::Index {
        self.control.p4info()
    }
    pub(super) fn write(&mut self, kind: Type, entity: Kind) -> Result<(), ControlError> {
        let update = Update { r#type: kind.into(), entity: Some(Entity { entity: Some(entity) }) };
        self.control.apply(&mut self.switch, &update)
    }
    pub(super) fn apply(&mut self, kind: Type, entity: Kind) {
        self.write(kind, entity.clone()).unwrap_or_else(|e| panic!("{e}: {entity:?}"));
    }
    /// Checks that a write fails with this code and message, and changes nothing.
    pub(super) fn expect_error(&mut self, kind: Type, entity: Kind, code: Code, message: &str) {
        let before = self.read_all();
        let error = self.write(kind, entity.clone()).expect_err(&format!("{entity:?}"));
        assert_eq!(error.code, code, "{error}");
        assert!(error.message.contains(message), "{error}");
        let is_unknown = error.message.contains("there is no ") || error.message.contains("wildcard");
        assert!(is_unknown || self.names_an_object(&error.message), "names no object: {error}");
        assert_eq!(self.read_all(), before, "{error}");
    }
    fn names_an_object(&self, message: &str) -> bool {
        fn names<T: Object>(objects: &p4info::Objects<T>) -> Vec<&str> {
            objects.iter().map(|object| object.preamble().name.as_str()).collect()
        }
        let index = self.index();
        let mut names = [
            names(&index.tables),
            names(&index.action_profiles),
            names(&index.counters),
            names(&index.meters),
            names(&index.registers),
            names(&index.value_sets),
            names(&index.digests),
            vec!["multicast group ", "clone session "],
        ]
        .into_iter()
        .flatten();
        names.any(|name| message.contains(name))
    }
    pub(super) fn read(&self, request: Kind) -> Result<Vec<Kind>, ControlError> {
        let found = self.control.read(&self.switch, &Entity { entity: Some(request) })?;
        Ok(found.into_iter().filter_map(|entity| entity.entity).collect())
    }
    /// Reads all entities.
    pub(super) fn read_all(&self) -> Vec<Kind> {
        let requests = [
            Kind::TableEntry(TableEntry {
                counter_data: Some(CounterData::default()),
                meter_config: Some(MeterConfig::default()),
                ..TableEntry::default()
            }),
            Kind::TableEntry(TableEntry { is_default_action: true, ..TableEntry::default() }),
            Kind::ActionProfileMember(ActionProfileMember::default()),
            Kind::ActionProfileGroup(ActionProfileGroup::default()),
            Kind::CounterEntry(CounterEntry::default()),
            Kind::MeterEntry(MeterEntry::default()),
            Kind::RegisterEntry(RegisterEntry::default()),
            pre(Pre::MulticastGroupEntry(MulticastGroupEntry::default())),
            pre(Pre::CloneSessionEntry(CloneSessionEntry::default())),
        ];
        requests.into_iter().flat_map(|request| self.read(request).unwrap()).collect()
    }

    pub(super) fn action(&self, name: &str, args: &[u64]) -> v1::Action {
        let info = self.index().actions.named(name).unwrap();
        let params = info.params.iter().zip(args);
        let params = params.map(|(info, &value)| Param { param_id: info.id, value: bytes(value) }).collect();
        v1::Action { action_id: info.preamble().id, params }
    }
    pub(super) fn call(&self, name: &str, args: &[u64]) -> Option<TableAction> {
        Some(TableAction { r#type: Some(ActionType::Action(self.action(name, args))) })
    }
    /// Returns an entry. A key field that is `None` is omitted.
    pub(super) fn entry(
        &self,
        table: &str,
        key: &[Option<FieldMatchType>],
        priority: i32,
        action: Option<TableAction>,
    ) -> TableEntry {
        let info = self.index().tables.named(table).unwrap();
        let fields = info.match_fields.iter().zip(key);
        let fields = fields.filter_map(|(info, part)| {
            Some(FieldMatch { field_id: info.id, field_match_type: Some(part.clone()?) })
        });
        TableEntry {
            table_id: info.preamble().id,
            r#match: fields.collect(),
            priority,
            action,
            ..TableEntry::default()
        }
    }
    pub(super) fn exact_one(&self, a: u64, c: u64) -> TableEntry {
        self.entry("exact_one", &[exact(a), exact(c)], 0, self.call("send", &[2]))
    }
    pub(super) fn table(&self, table: &str) -> Vec<TableEntry> {
        let request = self.entry(table, &[], 0, None);
        let found = self.read(Kind::TableEntry(request)).unwrap();
        let entry = |kind| match kind {
            Kind::TableEntry(entry) => entry,
            other => panic!("{other:?}"),
        };
        found.into_iter().map(entry).collect()
    }
}

pub(super) fn bytes(value: u64) -> Vec<u8> {
    p4runtime::value::from_uint(value.into())
}
pub(super) fn exact(value: u64) -> Option<FieldMatchType> {
    Some(FieldMatchType::Exact(Exact { value: bytes(value) }))
}
pub(super) fn lpm(value: u64, prefix_len: i32) -> Option<FieldMatchType> {
    Some(FieldMatchType::Lpm(Lpm { value: bytes(value), prefix_len }))
}
pub(super) fn ternary(value: u64, mask: u64) -> Option<FieldMatchType> {
    Some(FieldMatchType::Ternary(Ternary { value: bytes(value), mask: bytes(mask) }))
}
pub(super) fn range(low: u64, high: u64) -> Option<FieldMatchType> {
    Some(FieldMatchType::Range(Range { low: bytes(low), high: bytes(high) }))
}
pub(super) fn optional(value: u64) -> Option<FieldMatchType> {
    Some(FieldMatchType::Optional(Optional { value: bytes(value) }))
}
pub(super) fn pre(kind: Pre) -> Kind {
    Kind::PacketReplicationEngineEntry(PacketReplicationEngineEntry { r#type: Some(kind) })
}
pub(super) fn cell_index(index: i64) -> Option<v1::Index> {
    Some(v1::Index { index })
}
