//! See ARCHITECTURE.md.

pub mod drops;
pub mod tm;
