//! Workloads: sources that generate flows during a run.
//!
//! A source keeps only the state from which it generates the next flow, so memory does not grow with the length of the run.
//! The same experiment and seed give the same flows under every scheme, except in closed loops, where a flow starts when
//! another one has ended.
//!
//! Each kind of workload is one file with its keys and its source, and one line in [`Workloads::builtin`].

#![warn(missing_docs)]

mod all_to_all;
mod back_to_back;
mod context;
mod feed;
mod file;
mod flow_file;
mod incast;
mod jobs;
mod kind;
mod messages;
mod permutation;
mod poisson;
mod sizes;
mod source;

pub use context::{InvalidKey, RandomStreams, WorkloadContext};
pub(crate) use context::{host_set, undeclared_host};
pub use feed::FlowFeed;
pub use flow_file::{HPCC_START, write as write_flow_file};
pub(crate) use kind::{DynWorkload, schema_of_kind};
pub use kind::{Flows, SourceFactory, StaticFlow, Workload, WorkloadSpec, Workloads};
pub use sizes::{SizeRule, SizesSpec};
pub use source::{Arrival, FlowEnd, FlowSource, SenderAnnouncement};

impl Workloads {
    /// Returns the built-in kinds.
    #[must_use]
    pub fn builtin() -> Workloads {
        Workloads::default()
            .with::<all_to_all::AllToAllSpec>()
            .with::<back_to_back::BackToBackSpec>()
            .with::<file::FileSpec>()
            .with::<incast::IncastSpec>()
            .with::<jobs::JobsSpec>()
            .with::<messages::MessagesSpec>()
            .with::<permutation::PermutationSpec>()
            .with::<poisson::PoissonSpec>()
    }
}
