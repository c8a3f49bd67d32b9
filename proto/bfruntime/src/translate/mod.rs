//! Converts P4Runtime entities to entries of BF Runtime tables, and back.
//!
//! | P4Runtime | BF Runtime |
//! |---|---|
//! | a table entry with an action; its direct meter in bytes | an entry of the table with the same id; data fields in kbit |
//! | a default action | the default entry |
//! | priority, the highest number matches first | `$MATCH_PRIORITY`, the lowest number matches first |
//! | an omitted field | LPM of length 0, mask 0, the whole range |
//! | the shortest byte string | a byte string of the field's width |
//! | a multicast group | an entry of `$pre.node` with the ports and one of `$pre.mgid` with the node, both with the group's id |
//! | a clone session | an entry of `$mirror.cfg` |

mod driver_fields;
mod from_bfrt;
mod message;
mod replication;
mod to_bfrt;
mod translator;

pub use driver_fields::METER_UNIT_BYTES;
pub use translator::{TranslateError, Translator};
