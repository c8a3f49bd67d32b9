//! The compiled P4 programs, as committed in `p4src/build`, and which one a scheme needs.

use std::sync::Arc;
use weir_host::scheme::SwitchProgram;
use weir_proto::p4info::Index;
use weir_switch::program::Program;

/// A compiled program: what the switch loads and what its controller knows of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Artifact {
    /// Name of the P4 file, without ending.
    pub name: &'static str,
    /// BMv2 JSON.
    pub json: &'static str,
    /// P4Info in text format.
    pub p4info: &'static str,
}

macro_rules! artifact {
    ($name:literal) => {
        Artifact {
            name: $name,
            json: include_str!(concat!("../../p4src/build/", $name, ".json")),
            p4info: include_str!(concat!("../../p4src/build/", $name, ".p4info.txtpb")),
        }
    };
}

/// Every program of `p4src`.
pub const ARTIFACTS: &[Artifact] = &[
    artifact!("hpcc"),
    artifact!("hpcc_plus"),
    artifact!("fncc"),
    artifact!("ecn"),
    artifact!("rocc"),
    artifact!("rcp"),
    artifact!("dart"),
    artifact!("xpass"),
    artifact!("weir"),
];

impl Artifact {
    /// What p4c made of a program.
    pub fn of(program: SwitchProgram) -> &'static Artifact {
        ARTIFACTS.iter().find(|a| a.name == program.name()).expect("every program is compiled")
    }

    /// The program, ready for switches.
    pub fn load(&self) -> Result<(Arc<Program>, Arc<Index>), String> {
        let program = Program::from_json(self.json).map_err(|e| format!("{}.json: {e}", self.name))?;
        let p4info = Index::from_text(self.p4info).map_err(|e| format!("{}.p4info.txtpb: {e}", self.name))?;
        Ok((program, Arc::new(p4info)))
    }
}
