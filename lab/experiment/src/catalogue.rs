//! The names that an experiment file can use.

use crate::topologies::Topologies;
use crate::workload::Workloads;
use weir_host::schemes::Registry;

/// The schemes, workloads and topologies that an experiment file can name.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Congestion control schemes.
    pub schemes: Registry,
    /// Kinds of workloads.
    pub workloads: Workloads,
    /// Kinds of topologies, beside those that come with Weir.
    pub topologies: Topologies,
}

impl Catalogue {
    /// Returns what comes with Weir.
    #[must_use]
    pub fn builtin() -> Catalogue {
        let (schemes, workloads) = (Registry::builtin(), Workloads::builtin());
        Catalogue { schemes, workloads, topologies: Topologies::default() }
    }
}

impl Default for Catalogue {
    fn default() -> Catalogue {
        Catalogue::builtin()
    }
}
