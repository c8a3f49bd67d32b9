//! The references between tables that a program declares with `@refers_to(table, field)` at a key field or at a
//! parameter of an action, as sai_p4 does: the value is also the value of that field in an entry of that table.

use super::index::Index;
use super::object::Object;
use crate::p4::config::v1::Table;
use std::collections::BTreeSet;

impl Index {
    /// Returns the ids of all tables in an order in which entries can be deleted: a table precedes those to which its
    /// entries refer. Otherwise, and in a cycle of references, the order is that of the P4Info, in which p4c lists
    /// tables as the program applies them.
    ///
    /// ```
    /// # use p4runtime::p4info::Index;
    /// let index = Index::from_text(r#"
    ///     tables { preamble { id: 1 name: "member" } }
    ///     tables { preamble { id: 2 name: "route" } action_refs { id: 3 } }
    ///     actions { preamble { id: 3 name: "spread" } params { id: 1 annotations: "@refers_to(member , group)" } }"#)?;
    /// assert_eq!(index.deletion_order(), [2, 1]);
    /// # Ok::<(), p4runtime::p4info::P4InfoError>(())
    /// ```
    pub fn deletion_order(&self) -> Vec<u32> {
        let mut remaining: Vec<(u32, BTreeSet<u32>)> =
            self.tables.iter().map(|table| (table.preamble().id, self.references(table))).collect();
        let mut order = Vec::with_capacity(remaining.len());
        while !remaining.is_empty() {
            let is_referenced = |id: u32| {
                remaining.iter().any(|(other, referenced)| *other != id && referenced.contains(&id))
            };
            let next = remaining.iter().position(|(id, _)| !is_referenced(*id)).unwrap_or(0);
            order.push(remaining.remove(next).0);
        }
        order
    }

    /// Returns the ids of the tables to which entries of a table refer.
    fn references(&self, table: &Table) -> BTreeSet<u32> {
        let actions = table.action_refs.iter().filter_map(|action| self.actions.id(action.id));
        let params = actions.flat_map(|action| &action.params).flat_map(|param| &param.annotations);
        let fields = table.match_fields.iter().flat_map(|field| &field.annotations);
        // Other referents, such as `builtin::multicast_group_table`, are not tables of the program.
        let referent = |annotation: &String| {
            let (table, _field) = annotation.strip_prefix("@refers_to(")?.split_once(',')?;
            Some(self.tables.named(table.trim()).ok()?.preamble().id)
        };
        fields.chain(params).filter_map(referent).collect()
    }
}
