//! The options by which every subcommand names the fabric and its program.

use super::super::read;
use crate::console::Failure;
use bfruntime::BfrtInfo;
use clap::ValueEnum;
use serde::Deserialize;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use weir_client::Program;
use weir_controller::import::{Imported, import, with_formats};
use weir_controller::plan::{Chip, PortMap, PriorityTraffic, TargetConfig, Tofino};
use weir_controller::profile::{DeflectionConfig, EcnConfig};
use weir_controller::routes::RoutingMethod;
use weir_controller::topology::{Topology, TopologyFile, TopologySpec, build, build_parts};
use weir_controller::{PlanOptions, Routes, routes};
use weir_experiment::artifacts::find_p4info;
use weir_experiment::file::{Entries, EntriesSpec, OffOr, PfcSpec};
use weir_experiment::topologies::Topologies;
use weir_experiment::yaml::{self, Positions, join_path, with_file_position};

/// The fabric.
#[derive(Debug, clap::Args)]
pub struct FabricArgs {
    /// Topology: an experiment file or a topology in YAML, a p4 tutorials topology.json, a p4-utils p4app.json or
    /// topology.json, or an HPCC topology file
    #[arg(long, short, value_name = "FILE")]
    pub topology: PathBuf,

    /// Routing method that makes paths symmetric, `auto`, `ecmp` or `trees`; by default the file's, else auto
    #[arg(long, value_name = "METHOD", value_parser = method)]
    routing: Option<RoutingMethod>,
}

/// The program.
#[derive(Debug, clap::Args)]
pub struct ProgramArgs {
    /// Program of p4src as p4c-bm2-ss compiles it (BMv2 JSON), or for Tofino the bfrt.json of a program of p4src/tna
    #[arg(long, short, value_name = "PROGRAM.json")]
    program: Option<PathBuf>,

    /// Its P4Info in text format; by default beside it, with the ending .p4info.txtpb or .p4info.txt
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,

    /// Chip of the switches, with a bfrt.json; by default tofino2
    #[arg(long, value_name = "CHIP", help_heading = "Tofino")]
    chip: Option<ChipName>,

    /// The switches' own numbers of the topology's ports, a YAML file such as {ports: {1: 132, 2: 140}}; by default the
    /// front ports of the first pipe in order
    #[arg(long, value_name = "FILE", help_heading = "Tofino")]
    ports: Option<PathBuf>,
}

/// A chip as people write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChipName {
    /// Tofino 1
    Tofino,
    /// Tofino 2
    Tofino2,
}

/// A fabric with its routes.
pub struct Fabric {
    /// Checked.
    pub topology: Topology,
    /// The method by which the routes are computed again.
    pub method: RoutingMethod,
    /// The routes while all links are up.
    pub routes: Routes,
    /// Options of the tables' other entries.
    pub options: PlanOptions,
    /// Entries that the file gives besides the plan's.
    pub entries: Vec<Entries>,
    /// The file is an experiment whose switches pause each other.
    pub lossless: bool,
    /// The file's directory, and what another tool wrote into the file.
    pub imported: Option<(PathBuf, Imported)>,
}

impl FabricArgs {
    /// Reads the file, whose topology may be of one of `kinds`, and computes the routes.
    pub fn load(&self, kinds: &Topologies) -> Result<Fabric, Failure> {
        let Source { mut file, imported, topology, text } = Source::read(&self.topology, kinds)?;
        let place = |reason: String| in_place(&self.topology, &text, &reason);
        let options = PlanOptions {
            ecn: file.ecn.on().copied(),
            deflection: file.deflection,
            ..PlanOptions::default()
        };
        let options =
            options.prioritise(PriorityTraffic { feedback: file.ack_priority, ..PriorityTraffic::default() });
        let method = self.routing.unwrap_or(file.routing);
        let routes = routes(&topology, method).map_err(|error| place(error.to_string()))?;
        let directory = self.topology.parent().unwrap_or(Path::new("")).to_owned();
        file.entries.iter_mut().for_each(|entries| entries.file = directory.join(&entries.file));
        let entries = Entries::read(&file.entries, &topology);
        let entries = entries.map_err(|(key, reason)| place(format!("{key}: {reason}")))?;
        let imported = imported.map(|imported| (directory, imported));
        Ok(Fabric { topology, method, routes, options, entries, lossless: file.lossless, imported })
    }
}

/// Reads a topology from any file that `--topology` takes.
pub fn topology(path: &Path, kinds: &Topologies) -> Result<Topology, Failure> {
    Source::read(path, kinds).map(|source| source.topology)
}

/// Returns the same, with what another tool wrote into the file.
pub fn imported_topology(path: &Path, kinds: &Topologies) -> Result<(Topology, Option<Imported>), Failure> {
    Source::read(path, kinds).map(|source| (source.topology, source.imported))
}

/// A file with a topology.
struct Source {
    file: File,
    imported: Option<Imported>,
    topology: Topology,
    text: String,
}

impl Source {
    fn read(path: &Path, kinds: &Topologies) -> Result<Source, Failure> {
        let text = read(path)?;
        let place = |reason: String| in_place(path, &text, &reason);
        let mut imported = import(&text).map_err(|error| place(error.to_string()))?;
        let mut file = match &imported {
            Some(imported) => File::of(imported.topology.clone()),
            None => File::parse(&text, kinds).map_err(place)?,
        };
        if let TopologySpec::File(TopologyFile { path: named }) = &file.topology {
            let path = path.parent().unwrap_or(Path::new("")).join(named);
            let text = read(&path)?;
            let words = |reason: String| in_place(&path, &text, &reason);
            imported = import(&text).map_err(|error| words(error.to_string()))?;
            file.topology = match &imported {
                Some(imported) => imported.topology.clone(),
                None => File::parse(&text, kinds).map_err(words)?.topology,
            };
        }
        for warning in imported.iter().flat_map(|it| &it.warnings) {
            writeln!(std::io::stderr(), "warning: {}: {warning}", path.display())?;
        }
        // Switches that bring their entries need no routes of ours.
        let brings_entries = imported.as_ref().is_some_and(|it| !it.runtime.is_empty());
        let build = if brings_entries { build_parts } else { build };
        let topology = build(&file.topology).map_err(|error| place(format!("topology: {error}")))?;
        Ok(Source { file, imported, topology, text })
    }
}

fn in_place(path: &Path, text: &str, reason: &str) -> Failure {
    Failure::Input(with_file_position(&path.display().to_string(), text, reason))
}

impl Fabric {
    /// Returns the additional contents of a file that another tool wrote; `None` for Weir's own formats.
    pub fn imported(&self) -> Option<&Imported> {
        self.imported.as_ref().map(|(_, imported)| imported)
    }
}

impl ProgramArgs {
    /// Reads the program and its P4Info, or its bfrt.json.
    pub fn load(&self) -> Result<Arc<Program>, Failure> {
        if let Some(program) = self.tofino()? {
            return Ok(program);
        }
        if let Some(option) = self.for_tofino_only() {
            return Err(Failure::Input(format!("{option} is for a program for Tofino, a bfrt.json")));
        }
        let (p4info, program) = self.paths()?;
        load_program(&program, &p4info)
    }

    /// Reads a bfrt.json; `None` if the program is another file.
    fn tofino(&self) -> Result<Option<Arc<Program>>, Failure> {
        let Some(path) = &self.program else { return Ok(None) };
        let text = read(path)?;
        let is_named_so = path.to_string_lossy().ends_with("bfrt.json");
        let info = match BfrtInfo::parse(text.as_bytes()) {
            Ok(info) => info,
            Err(error) if is_named_so => {
                return Err(Failure::Input(format!("{}: {error}", path.display())));
            }
            Err(_) => return Ok(None),
        };
        if self.p4info.is_some() {
            return Err(Failure::input("--p4info: a bfrt.json describes the tables itself; leave it out"));
        }
        let program = Program::tofino(info);
        let program = program.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        Ok(Some(Arc::new(program)))
    }

    fn for_tofino_only(&self) -> Option<&'static str> {
        self.chip.map(|_| "--chip").or(self.ports.as_ref().map(|_| "--ports"))
    }

    /// Returns the options of plans for the program.
    pub fn options(&self, fabric: &Fabric, program: &Program) -> Result<PlanOptions, Failure> {
        if !program.is_for_tofino() {
            return Ok(fabric.options.clone());
        }
        let chip = match self.chip {
            Some(ChipName::Tofino) => Chip::Tofino1,
            Some(ChipName::Tofino2) | None => Chip::Tofino2,
        };
        let ports = self.ports.as_ref().map(|path| port_map(path, &fabric.topology)).transpose()?;
        let target = TargetConfig::Tofino(Tofino { chip, ports: ports.unwrap_or_default() });
        Ok(PlanOptions { target, ..fabric.options.clone() })
    }

    /// Returns the paths of the P4Info and the program.
    pub fn paths(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let Some(program) = &self.program else {
            return Err(Failure::input("name the program: --program p4src/build/fncc.json"));
        };
        let p4info = match &self.p4info {
            Some(path) => path.clone(),
            None => find_p4info(program).map_err(|reason| Failure::Input(format!("{reason} by --p4info")))?,
        };
        Ok((p4info, program.clone()))
    }

    /// Returns whether a program is named.
    pub fn is_given(&self) -> bool {
        self.program.is_some()
    }
}

/// Reads the numbers of ports.
fn port_map(path: &Path, topology: &Topology) -> Result<PortMap, Failure> {
    let text = read(path)?;
    let map: PortMap = yaml::read(&text).map_err(|error| in_place(path, &text, &error.to_string()))?;
    let unknown = map.switches.keys().find(|name| topology.switches.iter().all(|it| it.name != **name));
    match unknown {
        Some(name) => {
            Err(Failure::Input(format!("{}: switches: the topology has no switch {name}", path.display())))
        }
        None => Ok(map),
    }
}

/// Returns a program and its P4Info.
pub fn load_program(program: &Path, p4info: &Path) -> Result<Arc<Program>, Failure> {
    let json = read(program)?;
    let text = read(p4info)?;
    let place =
        |reason: String| Failure::Input(with_file_position(&p4info.display().to_string(), &text, &reason));
    let info = p4runtime::p4info::parse(&text).map_err(|error| place(error.to_string()))?;
    if !json.trim_start().starts_with('{') {
        return Err(Failure::Input(format!("{}: this is not BMv2 JSON", program.display())));
    }
    Ok(Arc::new(Program::new(info, json.into_bytes()).map_err(|error| place(error.to_string()))?))
}

fn method(text: &str) -> Result<RoutingMethod, String> {
    serde_yaml::from_str(text).map_err(|_| "use auto, ecmp or trees".to_owned())
}

/// The keys of an experiment file that concern the controller. The others are the experiment's.
#[derive(Deserialize)]
struct File {
    topology: TopologySpec,
    #[serde(default)]
    routing: RoutingMethod,
    #[serde(default = "off")]
    ecn: OffOr<EcnConfig>,
    #[serde(default)]
    ack_priority: bool,
    /// In an experiment the scheme says this.
    #[serde(default)]
    deflection: Option<DeflectionConfig>,
    #[serde(default)]
    entries: Vec<EntriesSpec>,
    #[serde(default = "on", rename = "pfc", deserialize_with = "is_on")]
    lossless: bool,
}

/// Experiments have PFC unless they say `pfc: off`.
fn on() -> bool {
    true
}
fn is_on<'de, D: serde::Deserializer<'de>>(pfc: D) -> Result<bool, D::Error> {
    OffOr::<PfcSpec>::deserialize(pfc).map(|pfc| pfc.on().is_some())
}

fn off() -> OffOr<EcnConfig> {
    OffOr::Off
}

impl File {
    fn parse(text: &str, kinds: &Topologies) -> Result<File, String> {
        let mut tree: serde_yaml::Value = yaml::read(text).map_err(|error| with_formats(text, error))?;
        let positions = Positions::of(text).map_err(|error| error.to_string())?;
        let own = |value: &mut serde_yaml::Value, place: &str| {
            let wrong =
                |(key, reason): (String, String)| positions.error(join_path(place, &key), reason).to_string();
            kinds.expand(value).map_err(wrong)
        };
        if let Some(topology) = tree.get_mut("topology") {
            return match own(topology, "topology")? {
                true => yaml::read_value(tree, &positions),
                false => yaml::read(text),
            }
            .map_err(|error| error.to_string());
        }
        if tree.get("kind").is_none() {
            return Err(with_formats(text, "this is no topology: it has neither `topology:` nor `kind:`"));
        }
        own(&mut tree, "")?;
        Ok(File::of(yaml::read_value(tree, &positions).map_err(|error| error.to_string())?))
    }

    fn of(topology: TopologySpec) -> File {
        File {
            topology,
            routing: RoutingMethod::Auto,
            ecn: off(),
            ack_priority: false,
            deflection: None,
            entries: Vec::new(),
            lossless: false,
        }
    }
}
