//! The schemes, workloads and topologies that experiment files can use.

use crate::topologies::Topologies;
use crate::workload::Workloads;
use weir_host::schemes::Registry;

/// The schemes, workloads and topologies that experiment files can use. Other crates add their own.
#[derive(Clone, Debug)]
pub struct Catalogue {
    pub schemes: Registry,
    pub workloads: Workloads,
    /// Topologies in addition to the built-in ones.
    pub topologies: Topologies,
}

impl Catalogue {
    /// Returns the built-in schemes, workloads and topologies.
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
