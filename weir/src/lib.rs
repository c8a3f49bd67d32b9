//! The command line of Weir and the report.
pub mod report;
