//! Error codes of operations on tables and action profiles.

use weir_switch::pipeline::{ConstPart, ObjectKind, TableError};

/// `TableOperationErrorCode` (standard.thrift).
pub(super) mod code {
    pub(crate) const TABLE_FULL: i32 = 1;
    pub(crate) const INVALID_HANDLE: i32 = 2;
    pub(crate) const COUNTERS_DISABLED: i32 = 4;
    pub(crate) const METERS_DISABLED: i32 = 5;
    pub(crate) const AGEING_DISABLED: i32 = 6;
    pub(crate) const INVALID_TABLE_NAME: i32 = 7;
    pub(crate) const INVALID_ACTION_NAME: i32 = 8;
    pub(crate) const WRONG_TABLE_TYPE: i32 = 9;
    pub(crate) const INVALID_MBR_HANDLE: i32 = 10;
    pub(crate) const MBR_STILL_USED: i32 = 11;
    pub(crate) const MBR_ALREADY_IN_GRP: i32 = 12;
    pub(crate) const MBR_NOT_IN_GRP: i32 = 13;
    pub(crate) const INVALID_GRP_HANDLE: i32 = 14;
    pub(crate) const GRP_STILL_USED: i32 = 15;
    pub(crate) const DUPLICATE_ENTRY: i32 = 17;
    pub(crate) const BAD_MATCH_KEY: i32 = 18;
    pub(crate) const INVALID_METER_OPERATION: i32 = 19;
    pub(crate) const DEFAULT_ENTRY_IS_CONST: i32 = 21;
    pub(crate) const INVALID_ACTION_PROFILE_NAME: i32 = 23;
    pub(crate) const NO_ACTION_PROFILE_SELECTION: i32 = 24;
    pub(crate) const IMMUTABLE_TABLE_ENTRIES: i32 = 25;
    pub(crate) const BAD_ACTION_DATA: i32 = 26;
    pub(crate) const NO_TABLE_KEY: i32 = 27;
}

/// Returns BMv2's code for an error. `UnknownAction`, `TooWide` and `Invalid` mean bad action data, because callers
/// have checked the key, and whether the table has the action, before.
fn error_code(error: &TableError) -> i32 {
    match error {
        TableError::Unknown { kind: ObjectKind::ActionProfile, .. } => code::INVALID_ACTION_PROFILE_NAME,
        TableError::Unknown { .. } => code::INVALID_TABLE_NAME,
        TableError::NoSuchHandle { kind: ObjectKind::Member, .. } => code::INVALID_MBR_HANDLE,
        TableError::NoSuchHandle { kind: ObjectKind::Group, .. } => code::INVALID_GRP_HANDLE,
        TableError::NoSuchHandle { .. } | TableError::OutOfBounds { .. } => code::INVALID_HANDLE,
        TableError::Duplicate { .. } => code::DUPLICATE_ENTRY,
        TableError::Full { .. } => code::TABLE_FULL,
        TableError::Immutable { what: ConstPart::DefaultAction, .. } => code::DEFAULT_ENTRY_IS_CONST,
        TableError::Immutable { .. } => code::IMMUTABLE_TABLE_ENTRIES,
        TableError::InUse { kind: ObjectKind::Group, .. } => code::GRP_STILL_USED,
        TableError::InUse { .. } => code::MBR_STILL_USED,
        TableError::NoSelector { .. } => code::NO_ACTION_PROFILE_SELECTION,
        TableError::UnknownAction { .. } | TableError::TooWide { .. } | TableError::Invalid(_) => {
            code::BAD_ACTION_DATA
        }
    }
}

/// The error code of a failed operation on a table.
pub(super) struct TableErrorCode(pub i32);

impl From<TableError> for TableErrorCode {
    fn from(error: TableError) -> TableErrorCode {
        TableErrorCode(error_code(&error))
    }
}

/// Returns the code for an invalid member: unknown action name, or another error.
pub(super) fn member_error(error: TableError) -> TableErrorCode {
    match error {
        TableError::UnknownAction { .. } => TableErrorCode(code::INVALID_ACTION_NAME),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names that contain the words of other errors.
    const MISLEADING_NAMES: [&str; 5] =
        ["the default action", "group 1", "has no action", "action profile", "member 1"];

    /// Returns an error of every kind, with its code for tables and for members.
    fn errors(text: &str) -> Vec<(TableError, i32, i32)> {
        let text = || text.to_owned();
        let unknown = |kind| TableError::Unknown { kind, name: text(), known: text() };
        let no_handle = |kind| TableError::NoSuchHandle { object: text(), kind, handle: 1 };
        let in_use = |kind| TableError::InUse { object: text(), kind, handle: 1 };
        let immutable = |what| TableError::Immutable { table: text(), what };
        let for_both = |error, code| (error, code, code);
        vec![
            for_both(unknown(ObjectKind::Table), 7),
            for_both(unknown(ObjectKind::ActionProfile), 23),
            for_both(no_handle(ObjectKind::Entry), 2),
            for_both(no_handle(ObjectKind::Member), 10),
            for_both(no_handle(ObjectKind::Group), 14),
            (TableError::UnknownAction { object: text(), name: text() }, 26, 8),
            for_both(TableError::Duplicate { table: text() }, 17),
            for_both(TableError::Full { table: text(), size: 1 }, 1),
            for_both(immutable(ConstPart::DefaultAction), 21),
            for_both(immutable(ConstPart::Entries), 25),
            for_both(TableError::TooWide { what: text(), bits: 1 }, 26),
            for_both(TableError::OutOfBounds { object: text(), index: 1, size: 1 }, 2),
            for_both(in_use(ObjectKind::Member), 11),
            for_both(in_use(ObjectKind::Group), 15),
            for_both(TableError::NoSelector { profile: text() }, 24),
            for_both(TableError::Invalid(text()), 26),
        ]
    }

    #[test]
    fn the_code_of_an_error_depends_on_its_kind_not_on_its_text() {
        for text in MISLEADING_NAMES {
            for (error, for_table, for_member) in errors(text) {
                assert_eq!(TableErrorCode::from(error.clone()).0, for_table, "{error:?}");
                assert_eq!(member_error(error.clone()).0, for_member, "{error:?}");
            }
        }
    }
}
