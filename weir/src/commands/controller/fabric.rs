//! The options by which the subcommands select the fabric and the P4 program.

use crate::commands::files::read;
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
use weir_controller::routes::RoutingMethod;
use weir_controller::thresholds::{DeflectionConfig, EcnConfig};
use weir_controller::topology::{Topology, TopologyFile, TopologySpec, build, build_parts};
use weir_controller::{PlanOptions, Routes, routes};
use weir_experiment::artifacts::find_p4info;
use weir_experiment::file::{Entries, EntriesSpec, ExperimentSpec, OffOr, PfcSpec, Scale};
use weir_experiment::topologies::Topologies;
use weir_experiment::yaml::{self, Positions, join_path, with_file_position};
use weir_units::Bandwidth;

#[derive(Debug, clap::Args)]
pub(super) struct FabricArgs {
    /// Topology: an experiment file or a topology in YAML, a p4 tutorials topology.json, a p4-utils p4app.json or
    /// topology.json, or an HPCC topology file
    #[arg(long, short, value_name = "FILE")]
    pub topology: PathBuf,

    /// Method for symmetric routes: `auto`, `ecmp`, `trees` or `up-down` [default: that of the file, otherwise auto]
    #[arg(long, value_name = "METHOD", value_parser = parse_method)]
    routing: Option<RoutingMethod>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ProgramArgs {
    /// Program of p4src compiled by p4c-bm2-ss (BMv2 JSON), or for Tofino the bfrt.json of a program of
    /// p4src/tna
    #[arg(long, short, value_name = "PROGRAM.json")]
    program: Option<PathBuf>,

    /// P4Info of the program in text format [default: the program's path with the extension .p4info.txtpb or
    /// .p4info.txt]
    #[arg(long, value_name = "FILE")]
    p4info: Option<PathBuf>,

    /// Chip of the switches, with a bfrt.json [default: tofino2]
    #[arg(long, value_name = "CHIP", help_heading = "Tofino")]
    chip: Option<ChipName>,

    /// Device ports of the topology's ports: a YAML file such as {ports: {1: 132, 2: 140}} [default: the
    /// front ports of the first pipe, in order]
    #[arg(long, value_name = "FILE", help_heading = "Tofino")]
    ports: Option<PathBuf>,
}

/// The value of `--chip`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ChipName {
    /// Tofino 1
    Tofino,
    /// Tofino 2
    Tofino2,
}

/// A topology with its routes and planning options.
pub(crate) struct Fabric {
    pub topology: Topology,
    /// Method by which routes are computed, also again when links fail.
    pub method: RoutingMethod,
    /// Routes with all links up.
    pub routes: Routes,
    /// Options for the entries other than routes.
    pub options: PlanOptions,
    /// Table entries that the file adds to those of the plan.
    pub entries: Vec<Entries>,
    /// True if the file is an experiment with PFC.
    pub has_pfc: bool,
    /// For a file in another tool's format: its directory, and the contents of that format.
    pub imported: Option<(PathBuf, Imported)>,
}

impl FabricArgs {
    /// Reads the topology file and computes the routes. `kinds` are the topology kinds that the file may use.
    pub(super) fn load(&self, kinds: &Topologies) -> Result<Fabric, Failure> {
        let ParsedTopology { mut file, imported, topology, text } =
            ParsedTopology::read(&self.topology, kinds, None)?;
        let invalid = |reason: String| input_error(&self.topology, &text, &reason);
        let options = PlanOptions {
            ecn: file.ecn.on().copied(),
            deflection: file.deflection,
            ..PlanOptions::default()
        };
        let options =
            options.prioritise(PriorityTraffic { feedback: file.ack_priority, ..PriorityTraffic::default() });
        let method = self.routing.unwrap_or(file.routing);
        let routes = routes(&topology, method).map_err(|error| invalid(error.to_string()))?;
        let directory = self.topology.parent().unwrap_or(Path::new("")).to_owned();
        file.entries.iter_mut().for_each(|entries| entries.file = directory.join(&entries.file));
        let entries = Entries::read(&file.entries, "entries", &topology);
        let entries = entries.map_err(|(key, reason)| invalid(format!("{key}: {reason}")))?;
        let imported = imported.map(|imported| (directory, imported));
        Ok(Fabric { topology, method, routes, options, entries, has_pfc: file.has_pfc, imported })
    }
}

/// Reads a topology in any format that `--topology` accepts.
pub(crate) fn topology(path: &Path, kinds: &Topologies) -> Result<Topology, Failure> {
    ParsedTopology::read(path, kinds, None).map(|parsed| parsed.topology)
}

/// Like [`topology`], and also returns the contents of a file in another tool's format.
pub(crate) fn imported_topology(
    path: &Path,
    kinds: &Topologies,
) -> Result<(Topology, Option<Imported>), Failure> {
    ParsedTopology::read(path, kinds, None).map(|parsed| (parsed.topology, parsed.imported))
}

/// Like [`imported_topology`], for switches that run a scale model. `rate` is that of its slowest hosts; `None` uses
/// `model_rate` of the file.
pub(crate) fn model_topology(
    path: &Path,
    kinds: &Topologies,
    rate: Option<Bandwidth>,
) -> Result<(Topology, Option<Imported>), Failure> {
    ParsedTopology::read(path, kinds, rate).map(|parsed| (parsed.topology, parsed.imported))
}

/// A topology file, and the topology that it describes.
struct ParsedTopology {
    file: FabricFile,
    imported: Option<Imported>,
    topology: Topology,
    text: String,
}

impl ParsedTopology {
    /// Reads a file. `rate` is that of a scale model's slowest hosts, instead of the file's `model_rate`.
    fn read(path: &Path, kinds: &Topologies, rate: Option<Bandwidth>) -> Result<ParsedTopology, Failure> {
        let text = read(path)?;
        let invalid = |reason: String| input_error(path, &text, &reason);
        let mut imported = import(&text).map_err(|error| invalid(error.to_string()))?;
        let mut file = match &imported {
            Some(imported) => FabricFile::from_topology(imported.topology.clone()),
            None => FabricFile::parse(&text, kinds).map_err(invalid)?,
        };
        // An experiment may refer to a topology file.
        if let TopologySpec::File(TopologyFile { path: target }) = &file.topology {
            let path = path.parent().unwrap_or(Path::new("")).join(target);
            let text = read(&path)?;
            let invalid = |reason: String| input_error(&path, &text, &reason);
            imported = import(&text).map_err(|error| invalid(error.to_string()))?;
            file.topology = match &imported {
                Some(imported) => imported.topology.clone(),
                None => FabricFile::parse(&text, kinds).map_err(invalid)?.topology,
            };
        }
        for warning in imported.iter().flat_map(|imported| &imported.warnings) {
            writeln!(std::io::stderr(), "warning: {}: {warning}", path.display())?;
        }
        // If the file lists the switches' entries, no routes are computed, so the topology may consist of unconnected
        // parts.
        let has_entries = imported.as_ref().is_some_and(|imported| !imported.runtime.is_empty());
        let build = if has_entries { build_parts } else { build };
        let build = |spec: &TopologySpec| build(spec).map_err(|error| invalid(format!("topology: {error}")));
        let mut topology = build(&file.topology)?;
        if let Some(model_rate) = rate.or(file.model_rate) {
            let scale = Scale::of_model(&topology, model_rate).map_err(|reason| match rate {
                Some(rate) => Failure::Input(format!("--rate {rate}: {reason}")),
                None => invalid(format!("model_rate: {reason}")),
            })?;
            scale.apply_to_topology(&mut file.topology);
            if let Some(ecn) = file.ecn.on_mut() {
                *ecn = scale.ecn(*ecn);
            }
            topology = build(&file.topology)?;
        }
        Ok(ParsedTopology { file, imported, topology, text })
    }
}

fn input_error(path: &Path, text: &str, reason: &str) -> Failure {
    Failure::Input(with_file_position(&path.display().to_string(), text, reason))
}

impl Fabric {
    /// Returns the contents of a file in another tool's format; `None` for Weir's own formats.
    pub(crate) fn imported(&self) -> Option<&Imported> {
        self.imported.as_ref().map(|(_, imported)| imported)
    }
}

impl ProgramArgs {
    /// Reads the program and its P4Info, or the bfrt.json.
    pub(super) fn load(&self) -> Result<Arc<Program>, Failure> {
        if let Some(program) = self.load_tofino()? {
            return Ok(program);
        }
        if let Some(option) = self.given_tofino_option() {
            return Err(Failure::Input(format!("{option} requires a program for Tofino (a bfrt.json)")));
        }
        let (p4info, program) = self.paths()?;
        load_program(&program, &p4info)
    }

    /// Reads the program as bfrt.json; `None` if the file has another format.
    fn load_tofino(&self) -> Result<Option<Arc<Program>>, Failure> {
        let Some(path) = &self.program else { return Ok(None) };
        let text = read(path)?;
        let has_bfrt_name = path.to_string_lossy().ends_with("bfrt.json");
        let info = match BfrtInfo::parse(text.as_bytes()) {
            Ok(info) => info,
            Err(error) if has_bfrt_name => {
                return Err(Failure::Input(format!("{}: {error}", path.display())));
            }
            // Probably BMv2 JSON.
            Err(_) => return Ok(None),
        };
        if self.p4info.is_some() {
            return Err(Failure::input(
                "--p4info: not allowed with a bfrt.json, which describes the tables itself",
            ));
        }
        let program = Program::tofino(info);
        let program = program.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))?;
        Ok(Some(Arc::new(program)))
    }

    /// Returns the first given option that requires a program for Tofino.
    fn given_tofino_option(&self) -> Option<&'static str> {
        self.chip.map(|_| "--chip").or(self.ports.as_ref().map(|_| "--ports"))
    }

    /// Returns the planning options for the program's target.
    pub(super) fn options(&self, fabric: &Fabric, program: &Program) -> Result<PlanOptions, Failure> {
        if !program.is_for_tofino() {
            return Ok(fabric.options.clone());
        }
        let chip = match self.chip {
            Some(ChipName::Tofino) => Chip::Tofino1,
            Some(ChipName::Tofino2) | None => Chip::Tofino2,
        };
        let ports = self.ports.as_ref().map(|path| read_port_map(path, &fabric.topology)).transpose()?;
        let target = TargetConfig::Tofino(Tofino { chip, ports: ports.unwrap_or_default() });
        Ok(PlanOptions { target, ..fabric.options.clone() })
    }

    /// Returns the paths of the P4Info and of the program, in this order.
    pub(super) fn paths(&self) -> Result<(PathBuf, PathBuf), Failure> {
        let Some(program) = &self.program else {
            return Err(Failure::input("--program is required, for example --program p4src/build/fncc.json"));
        };
        let p4info = match &self.p4info {
            Some(path) => path.clone(),
            None => find_p4info(program).map_err(|reason| Failure::Input(format!("{reason} by --p4info")))?,
        };
        Ok((p4info, program.clone()))
    }

    pub(super) fn is_given(&self) -> bool {
        self.program.is_some()
    }
}

/// Reads the map from the topology's ports to device ports.
fn read_port_map(path: &Path, topology: &Topology) -> Result<PortMap, Failure> {
    let text = read(path)?;
    let map: PortMap = yaml::read(&text).map_err(|error| input_error(path, &text, &error.to_string()))?;
    let unknown =
        map.switches.keys().find(|name| topology.switches.iter().all(|switch| switch.name != **name));
    match unknown {
        Some(name) => Err(Failure::Input(format!("{}: switches: unknown switch {name}", path.display()))),
        None => Ok(map),
    }
}

/// Reads a program for BMv2 and its P4Info.
pub(super) fn load_program(program: &Path, p4info: &Path) -> Result<Arc<Program>, Failure> {
    let json = read(program)?;
    let text = read(p4info)?;
    let invalid =
        |reason: String| Failure::Input(with_file_position(&p4info.display().to_string(), &text, &reason));
    let info = p4runtime::p4info::parse(&text).map_err(|error| invalid(error.to_string()))?;
    if !json.trim_start().starts_with('{') {
        return Err(Failure::Input(format!("{}: not BMv2 JSON", program.display())));
    }
    Ok(Arc::new(Program::new(info, json.into_bytes()).map_err(|error| invalid(error.to_string()))?))
}

/// Parses the value of `--routing`.
fn parse_method(text: &str) -> Result<RoutingMethod, String> {
    serde_yaml::from_str(text).map_err(|_| "expected auto, ecmp, trees or up-down".to_owned())
}

/// The fabric of a file: a topology with the keys of experiment files that matter to the controller.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FabricFile {
    topology: TopologySpec,
    /// Rate of the slowest hosts, if the switches run a scale model.
    #[serde(default, deserialize_with = "deserialize_rate")]
    model_rate: Option<Bandwidth>,
    #[serde(default)]
    routing: RoutingMethod,
    #[serde(default = "default_ecn")]
    ecn: OffOr<EcnConfig>,
    #[serde(default)]
    ack_priority: bool,
    /// Only for topology files: in an experiment the scheme determines the deflection.
    #[serde(default)]
    deflection: Option<DeflectionConfig>,
    #[serde(default)]
    entries: Vec<EntriesSpec>,
    #[serde(default = "default_has_pfc", rename = "pfc", deserialize_with = "deserialize_has_pfc")]
    has_pfc: bool,
}

/// Experiments use PFC unless they set `pfc: off`.
fn default_has_pfc() -> bool {
    true
}
fn deserialize_has_pfc<'de, D: serde::Deserializer<'de>>(pfc: D) -> Result<bool, D::Error> {
    OffOr::<PfcSpec>::deserialize(pfc).map(|pfc| pfc.on().is_some())
}

fn deserialize_rate<'de, D: serde::Deserializer<'de>>(rate: D) -> Result<Option<Bandwidth>, D::Error> {
    let text = String::deserialize(rate)?;
    text.parse().map(Some).map_err(serde::de::Error::custom)
}

fn default_ecn() -> OffOr<EcnConfig> {
    OffOr::Off
}

impl FabricFile {
    fn parse(text: &str, kinds: &Topologies) -> Result<FabricFile, String> {
        let mut tree: serde_yaml::Value = yaml::read(text).map_err(|error| with_formats(text, error))?;
        let positions = Positions::from_text(text).map_err(|error| error.to_string())?;
        let expand = |value: &mut serde_yaml::Value, key_path: &str| {
            let invalid = |(key, reason): (String, String)| {
                positions.error(join_path(key_path, &key), reason).to_string()
            };
            kinds.expand(value).map_err(invalid)
        };
        let is_experiment = tree.get("schemes").is_some();
        if let Some(topology) = tree.get_mut("topology") {
            let is_expanded = expand(topology, "topology")?;
            let file = match (is_experiment, is_expanded) {
                (true, true) => yaml::read_value(tree, &positions).map(FabricFile::from_experiment),
                (true, false) => yaml::read(text).map(FabricFile::from_experiment),
                (false, true) => yaml::read_value(tree, &positions),
                (false, false) => yaml::read(text),
            };
            return file.map_err(|error| error.to_string());
        }
        if tree.get("kind").is_none() {
            return Err(with_formats(text, "not a topology file: missing `topology` or `kind`"));
        }
        expand(&mut tree, "")?;
        Ok(FabricFile::from_topology(yaml::read_value(tree, &positions).map_err(|error| error.to_string())?))
    }

    fn from_experiment(spec: ExperimentSpec) -> FabricFile {
        FabricFile {
            topology: spec.topology,
            model_rate: spec.model_rate,
            routing: spec.routing,
            ecn: spec.ecn.unwrap_or_else(default_ecn),
            ack_priority: spec.ack_priority,
            deflection: None,
            entries: spec.entries,
            has_pfc: spec.pfc.on().is_some(),
        }
    }

    fn from_topology(topology: TopologySpec) -> FabricFile {
        FabricFile {
            topology,
            model_rate: None,
            routing: RoutingMethod::Auto,
            ecn: default_ecn(),
            ack_priority: false,
            deflection: None,
            entries: Vec::new(),
            // A topology file says nothing about PFC.
            has_pfc: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_experiment::Catalogue;

    /// A misspelt key would otherwise mean its default.
    #[test]
    fn unknown_keys_are_rejected_with_their_position() {
        let kinds = Catalogue::builtin().topologies;
        let error = |text: &str| FabricFile::parse(text, &kinds).map(|_| ()).unwrap_err();
        let topology = "topology: {kind: star, hosts: 2}\n";
        let in_topology_file = error(&format!("{topology}rooting: trees\n"));
        assert!(in_topology_file.starts_with("2:1: rooting: "), "{in_topology_file}");
        let in_experiment = error(&format!("{topology}schemes: [fncc]\nduration: 1ms\nrooting: trees\n"));
        assert!(in_experiment.starts_with("4:1: rooting: "), "{in_experiment}");
        let has_pfc = |keys: &str| FabricFile::parse(&format!("{topology}{keys}"), &kinds).unwrap().has_pfc;
        assert!(has_pfc("schemes: [fncc]\nduration: 1ms\n"));
        assert!(!has_pfc("schemes: [fncc]\nduration: 1ms\npfc: off\n"));
    }

    /// The loads of `weir top` are shares of these rates.
    #[test]
    fn a_scale_model_has_the_rates_of_its_links() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("x.yaml");
        let text = "topology: {kind: star, hosts: 2, rate: 100Gbps, delay: 1us}\n\
                    ecn: {kmin: 1KB, kmax: 2KB, pmax: 1, per: 100Gbps}\n";
        let kinds = Catalogue::builtin().topologies;
        let read = |text: &str, rate: Option<&str>| {
            std::fs::write(&file, text).unwrap();
            let parsed = ParsedTopology::read(&file, &kinds, rate.map(|rate| rate.parse().unwrap()))?;
            let ecn = parsed.file.ecn.on().copied().unwrap();
            Ok((
                parsed.topology.links[0].rate.to_string(),
                parsed.topology.links[0].delay,
                ecn.reference_rate.unwrap(),
            ))
        };
        let rate_of = |text: &str, rate| {
            let (link, delay, ecn): (String, _, Bandwidth) =
                read(text, rate).map_err(|error: Failure| error).unwrap();
            assert_eq!(link, ecn.to_string());
            (link, delay.to_string())
        };
        assert_eq!(rate_of(text, None), ("100Gbps".into(), "1us".into()));
        assert_eq!(rate_of(text, Some("10Mbps")), ("10Mbps".into(), "10ms".into()));
        let model = format!("{text}model_rate: 1Gbps\n");
        assert_eq!(rate_of(&model, None), ("1Gbps".into(), "100us".into()));
        assert_eq!(rate_of(&model, Some("10Mbps")), ("10Mbps".into(), "10ms".into()));
        let error = read(text, Some("1Tbps")).unwrap_err().to_string();
        assert_eq!(error, "--rate 1Tbps: must be above 0 and at most the file's 100Gbps");
        let error = read(&format!("{text}model_rate: 1Tbps\n"), None).unwrap_err().to_string();
        assert!(error.contains("x.yaml:3:13: model_rate: must be above 0"), "{error}");
    }
}
