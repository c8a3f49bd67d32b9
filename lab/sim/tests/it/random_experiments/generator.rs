//! Draws experiment files from the JSON Schema of experiment files: every kind of topology, workload and fault and every
//! key that the schema has. A new kind or key is drawn without a change here if its values can be drawn from their type
//! or format; otherwise it needs a line in one of the tables below.

use super::values;
use serde_json::{Map, Value, json};
use weir_controller::topology::Topology;
use weir_experiment::rng::RandomStream;
use weir_experiment::{Catalogue, Experiment};
use weir_host::policy::Policy;
use weir_host::scheme::SchemeConfig;
use weir_units::{Bytes, Time};

/// Keys that no run depends on, or that need files of their own.
pub(crate) const NOT_DRAWN: [&str; 8] =
    ["name", "title", "paper", "sweep", "entries", "observe.csv", "observe.format", "program.p4info"];
/// Pairs of keys of which only one may be set.
const EXCLUSIVE: [(&str, &str); 1] = [("load", "every")];
/// Pairs of keys of which each requires the other.
const TOGETHER: [(&str, &str); 2] = [("reorder", "reorder_by"), ("coalesce_frames", "coalesce_time")];
/// How many in 100 files have a top-level key that may be absent; 33 if it is not listed.
const SHARES: [(&str, u64); 11] = [
    ("buffer", 40),
    ("faults", 55),
    ("flows", 60),
    ("model_rate", 6),
    ("nic", 15),
    ("policy", 25),
    ("program", 8),
    ("queues", 8),
    ("transport", 50),
    ("workload", 45),
    ("workloads", 45),
];
const DEFAULT_SHARE: u64 = 33;

/// Maximum number of hosts and switches of a fabric.
const MAX_NODES: usize = 40;
/// Number of full frames that the hosts could send in the longest run, all together. A run takes up to a second in an
/// unoptimised build.
const MAX_FRAMES: u64 = 5_000;
const MAX_DURATION: Time = Time::from_ms(1);
/// Number of draws until a topology or a value is valid; the last one is used even if it is not.
const ATTEMPTS: u64 = 12;

/// Draws experiment files.
pub(crate) struct Generator {
    pub(crate) catalogue: Catalogue,
    pub(crate) schema: Value,
}

impl Generator {
    pub(crate) fn new() -> Generator {
        let catalogue = Catalogue::builtin();
        let schema = catalogue.schema();
        Generator { catalogue, schema }
    }

    /// Returns the keys of the experiment with this seed. The same seed gives the same keys.
    pub(crate) fn draw(&self, seed: u64) -> Value {
        let (topology, fabric) = self.draw_topology(seed);
        let mut draw = Draw { generator: self, seed, fabric, duration: Time::ZERO, schemes: Vec::new() };
        draw.root(topology)
    }

    /// Follows a `$ref`.
    pub(crate) fn resolve<'s>(&'s self, schema: &'s Value) -> &'s Value {
        match schema["$ref"].as_str().and_then(|reference| reference.strip_prefix("#/$defs/")) {
            Some(name) => self.resolve(&self.schema["$defs"][name]),
            None => schema,
        }
    }

    fn draw_topology(&self, seed: u64) -> (Value, Option<Topology>) {
        let mut last = (Value::Null, None);
        let kinds = self.schema["$defs"]["TopologySpec"]["oneOf"].as_array().expect("kinds of topologies");
        let kind = &kinds[RandomStream::new(seed, "topology.kind").below(kinds.len() as u64) as usize];
        for attempt in 0..ATTEMPTS {
            let draw =
                Draw { generator: self, seed, fabric: None, duration: MAX_DURATION, schemes: Vec::new() };
            let path = format!("topology.{attempt}");
            let topology = match kind["properties"]["kind"]["const"].as_str() {
                Some("custom") => draw.custom_topology(&path),
                _ => draw.object(&path, kind),
            };
            let file = json!({"topology": &topology, "schemes": ["hpcc"], "policy": {}, "duration": "1us"});
            let parsed = self.parse(&file);
            let fits = |topology: &Topology| {
                topology.hosts.len() >= 2 && topology.hosts.len() + topology.switches.len() <= MAX_NODES
            };
            last = (topology, parsed.ok().map(|experiment| experiment.topology).filter(fits));
            if last.1.is_some() {
                break;
            }
        }
        last
    }

    /// Reads a file as if it were in the directory of this module, where the files are that it names.
    pub(crate) fn parse(&self, file: &Value) -> Result<Experiment, String> {
        // Tests run in the directory of their crate.
        let path = "tests/it/random_experiments/random.yaml";
        Experiment::parse(&yaml(file), path, "random", &[], None).map_err(|error| error.to_string())
    }
}

/// Returns the text of an experiment file.
pub(crate) fn yaml(file: &Value) -> String {
    serde_yaml::to_string(file).expect("plain data serialises")
}

/// The draw of one file. Every value has a random stream of its own, named by its path, so that a new key leaves the
/// values of others as they were.
struct Draw<'g> {
    generator: &'g Generator,
    seed: u64,
    /// `None` if the topology is invalid, or not drawn yet.
    fabric: Option<Topology>,
    duration: Time,
    schemes: Vec<Box<dyn SchemeConfig>>,
}

impl Draw<'_> {
    fn stream(&self, path: &str) -> RandomStream {
        RandomStream::new(self.seed, path)
    }

    fn below(&self, path: &str, limit: u64) -> u64 {
        self.stream(path).below(limit)
    }

    /// Returns true in `share` of 100 cases.
    fn chance(&self, path: &str, share: u64) -> bool {
        self.below(&format!("{path}?"), 100) < share
    }

    fn pick<'c, T>(&self, path: &str, choices: &'c [T]) -> &'c T {
        &choices[self.below(path, choices.len() as u64) as usize]
    }

    fn root(&mut self, topology: Value) -> Value {
        let mut file = Map::new();
        let mtu = *self.pick("mtu", &[1_518, 1_518, 1_000, 1_100, 4_200, 9_000]);
        let rates_of =
            |fabric: &Topology| fabric.hosts.iter().map(|host| fabric.link(host.link).rate.as_bps()).sum();
        // A fabric that could not be made small enough runs for a microsecond or so.
        let line_rates: u64 = self.fabric.as_ref().map_or(100_000_000_000_000, rates_of);
        let max = Time::from_secs_f64((MAX_FRAMES * mtu * 8) as f64 / line_rates as f64);
        let share = 30 + self.below("duration", 70);
        self.duration = Time::from_ns(max.min(MAX_DURATION).as_ns() * share / 100);
        file.insert("topology".into(), topology);
        file.insert("mtu".into(), Bytes::new(mtu).to_string().into());
        file.insert("duration".into(), self.duration.to_string().into());
        let queues = self.chance("queues", self.share("queues"));
        let schemes = self.draw_schemes(if queues { &["hpcc++"] } else { &[] });
        file.insert("schemes".into(), schemes);
        file.insert("observe".into(), json!({}));
        if queues {
            file.insert("ack_priority".into(), true.into());
        }
        let schema = &self.generator.schema;
        for (key, sub) in schema["properties"].as_object().expect("an object") {
            let is_drawn = !file.contains_key(key) && !NOT_DRAWN.contains(&key.as_str());
            if (is_drawn && self.chance(key, self.share(key))) || key == "observe" {
                file.insert(key.clone(), self.value(key, sub));
            }
        }
        self.make_consistent(&mut file);
        Value::Object(file)
    }

    fn share(&self, key: &str) -> u64 {
        SHARES.iter().find(|(name, _)| *name == key).map_or(DEFAULT_SHARE, |(_, share)| *share)
    }

    /// Adds what other keys require, and removes what they exclude.
    fn make_consistent(&self, file: &mut Map<String, Value>) {
        let has_traffic = ["flows", "workload", "workloads"].iter().any(|key| file.contains_key(*key));
        if !has_traffic {
            file.insert("workload".into(), self.value("workload", &json!({"$ref": "#/$defs/Workload"})));
        }
        let faults = file.get("faults").and_then(Value::as_array);
        if faults.is_some_and(|faults| faults.iter().any(|fault| fault["kind"] == "attack")) {
            file.entry("policy").or_insert_with(|| json!({}));
        }
        // A host runs one scheme, so a workload with its own is the only traffic.
        let own = |traffic: &Value| traffic.get("scheme").is_some();
        let flows = file.get("flows").and_then(Value::as_array).into_iter().flatten();
        let several = file.get("workloads").and_then(Value::as_array).into_iter().flatten();
        let all: Vec<(&str, Value)> = file
            .get("workload")
            .into_iter()
            .chain(several)
            .map(|workload| ("workload", workload.clone()))
            .chain(flows.map(|flow| ("flows", flow.clone())))
            .collect();
        if let Some((key, only)) = all.iter().find(|(_, traffic)| own(traffic)) {
            ["flows", "workload", "workloads"].iter().for_each(|key| drop(file.remove(*key)));
            let only = if *key == "flows" { json!([only]) } else { only.clone() };
            file.insert((*key).to_owned(), only);
            if let Some(schemes) = file.get_mut("schemes").and_then(Value::as_array_mut) {
                schemes.truncate(1);
            }
        }
    }

    /// Draws a value for the key at the end of `path`.
    fn value(&self, path: &str, schema: &Value) -> Value {
        if let Some(value) = self.named(path) {
            return value;
        }
        if let Some(reference) = schema["$ref"].as_str() {
            return match reference.rsplit('/').next() {
                Some("SchemeEntry") => self.other_scheme(path),
                Some("SetSpec") => self.policy_edit(path),
                Some("SizesSpec") if self.chance(path, 60) => self.sizes(path),
                Some("SizesSpec") => self.value(path, &json!({"$ref": "#/$defs/SizeRule"})),
                _ => self.value(path, self.generator.resolve(schema)),
            };
        }
        if let Some(options) = ["anyOf", "oneOf"].iter().find_map(|key| schema[*key].as_array()) {
            let options: Vec<&Value> = options.iter().filter(|option| option["type"] != "null").collect();
            let option: &&Value = self.pick(&format!("{path}|"), &options);
            return self.value(path, option);
        }
        if !schema["const"].is_null() {
            return schema["const"].clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return self.pick(path, choices).clone();
        }
        let kind = schema["type"].as_array().map_or(&schema["type"], |types| &types[0]);
        match kind.as_str() {
            Some("object") => self.object(path, schema),
            Some("array") => {
                let count = 1 + self.below(&format!("{path}#"), 3);
                (0..count).map(|i| self.value(&format!("{path}[{i}]"), &schema["items"])).collect()
            }
            Some("boolean") => (self.below(path, 2) == 1).into(),
            Some("integer") => values::integer(key_of(path), &mut self.stream(path)).into(),
            Some("number") => values::number(key_of(path), &mut self.stream(path)).into(),
            _ => {
                let format = schema["format"].as_str().unwrap_or_default();
                let quantity = values::quantity(key_of(path), format, self.duration, &mut self.stream(path));
                // Other texts name nodes: those that mean something else are in `named`.
                quantity.unwrap_or_else(|| self.host(path)).into()
            }
        }
    }

    fn object(&self, path: &str, schema: &Value) -> Value {
        let no_keys = Vec::new();
        let required = schema["required"].as_array().unwrap_or(&no_keys);
        let mut object = Map::new();
        for (key, sub) in schema["properties"].as_object().into_iter().flatten() {
            let path = format!("{path}.{key}");
            // A scheme of its own excludes all other traffic.
            let share = if key == "scheme" { 12 } else { DEFAULT_SHARE };
            let is_drawn =
                required.contains(&json!(key)) || path == "observe.interval" || self.chance(&path, share);
            if is_drawn && !NOT_DRAWN.contains(&path.as_str()) {
                object.insert(key.clone(), self.value(&path, sub));
            }
        }
        for (one, other) in EXCLUSIVE {
            let is_known = !schema["properties"][one].is_null() && !schema["properties"][other].is_null();
            if is_known {
                let (kept, removed) =
                    if self.chance(&format!("{path}.{one}|"), 50) { (one, other) } else { (other, one) };
                object.remove(removed);
                // A workload may need one of the two.
                if !object.contains_key(kept) && self.chance(&format!("{path}.{kept}!"), 95) {
                    let path = format!("{path}.{kept}");
                    object.insert(kept.to_owned(), self.value(&path, &schema["properties"][kept]));
                }
            }
        }
        for (one, other) in TOGETHER {
            for (key, missing) in [(one, other), (other, one)] {
                if object.contains_key(key) && !object.contains_key(missing) {
                    let path = format!("{path}.{missing}");
                    object.insert(missing.to_owned(), self.value(&path, &schema["properties"][missing]));
                }
            }
        }
        Value::Object(object)
    }

    /// Draws a text that names a part of the fabric, a file or a program; `None` if the type or format of the key is
    /// enough.
    fn named(&self, path: &str) -> Option<Value> {
        let section = path.split(['.', '[']).next().unwrap_or_default();
        let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
        let in_list = path.ends_with(']');
        Some(match (section, key_of(path)) {
            ("topology", "path") => (*self.pick(path, &["hosts.txt", "rack.yaml"])).into(),
            ("workload" | "workloads", "path") => "flows.txt".into(),
            ("workload" | "workloads", "from" | "to" | "hosts") => self.host_set(path).into(),
            ("queues", "hosts") => self.host_numbered(index_in(parent)).into(),
            ("flows", "from") => self.host(parent).into(),
            ("flows", "to") => self.other_host(parent).into(),
            ("faults" | "flows" | "policy", "hosts" | "announces") if in_list => self.host(path).into(),
            ("faults", "links") if in_list => self.link(path).into(),
            ("faults", "switch") => self.switch(path).into(),
            ("observe", "ports") => self.port(path).into(),
            ("observe", "sender") => (*self.pick(path, &["rtt", "window", "rate", "all"])).into(),
            ("observe", "size_classes") if !in_list => {
                json!(["1KB", "10KB", "50KB"][..1 + self.below(path, 3) as usize])
            }
            ("policy", "key") => {
                (*self.pick(path, &["sixteen characters or more", "0123456789abcdef"])).into()
            }
            ("program", "program") => {
                (*self.pick(path, &["weir", "ecn", "hpcc", "hpcc_plus", "fncc"])).into()
            }
            _ => return None,
        })
    }

    fn host(&self, path: &str) -> String {
        let hosts = self.fabric.as_ref().map_or(2, |fabric| fabric.hosts.len());
        self.host_numbered(self.below(path, hosts as u64) as usize)
    }

    /// Draws a host other than `host(path)`.
    fn other_host(&self, path: &str) -> String {
        let hosts = self.fabric.as_ref().map_or(2, |fabric| fabric.hosts.len()) as u64;
        let other = self.below(path, hosts) + 1 + self.below(&format!("{path}.other"), hosts - 1);
        self.host_numbered((other % hosts) as usize)
    }

    /// Returns the name of a host, from 0.
    fn host_numbered(&self, number: usize) -> String {
        let name = self.fabric.as_ref().and_then(|fabric| fabric.hosts.get(number)).map(|host| &host.name);
        name.cloned().unwrap_or_else(|| format!("h{}", number + 1))
    }

    /// Draws two to four hosts, as a list of names or as a range.
    fn host_set(&self, path: &str) -> String {
        let hosts = self.fabric.as_ref().map_or(2, |fabric| fabric.hosts.len());
        let first = self.below(path, hosts as u64 - 1) as usize;
        let last = (first + 1 + self.below(&format!("{path}-"), 3) as usize).min(hosts - 1);
        match self.below(&format!("{path}|"), 2) {
            0 => format!("{}-{}", self.host_numbered(first), self.host_numbered(last)),
            _ => (first..=last).map(|number| self.host_numbered(number)).collect::<Vec<_>>().join(", "),
        }
    }

    fn switch(&self, path: &str) -> String {
        let Some(fabric) = &self.fabric else { return "s1".to_owned() };
        self.pick(path, &fabric.switches).name.clone()
    }

    /// Draws a link, or a node for all of its links.
    fn link(&self, path: &str) -> String {
        let Some(fabric) = &self.fabric else { return "h1".to_owned() };
        let link = self.pick(path, &fabric.links);
        let [a, b] = [link.a, link.b].map(|end| fabric.node_name(end.node));
        match self.below(&format!("{path}|"), 4) {
            0 => a.to_owned(),
            1 => format!("{b}-{a}"),
            _ => format!("{a}-{b}"),
        }
    }

    /// Draws a port of a switch.
    fn port(&self, path: &str) -> String {
        let Some(fabric) = &self.fabric else { return "all".to_owned() };
        let switch = self.pick(path, &fabric.switches);
        let ports: Vec<_> = switch.ports().map(|(port, _)| port).collect();
        match self.below(&format!("{path}|"), 4) {
            0 => "all".to_owned(),
            _ => format!("{}:{}", switch.name, self.pick(&format!("{path}:"), &ports)),
        }
    }

    fn sizes(&self, path: &str) -> Value {
        let names = ["websearch", "fb_hadoop", "alistorage", "google_rpc2008", "data_mining"];
        match self.below(&format!("{path}:"), 3) {
            0 => (*self.pick(path, &names)).into(),
            _ => values::size(64, 60_000, &mut self.stream(path)).into(),
        }
    }

    /// Draws one or two schemes, of `only` if it is not empty.
    fn draw_schemes(&mut self, only: &[&'static str]) -> Value {
        let registry = &self.generator.catalogue.schemes;
        let names: Vec<&str> = if only.is_empty() { registry.names().collect() } else { only.to_vec() };
        let count = 1 + u64::from(self.chance("schemes", 30));
        let mut entries = Vec::new();
        for i in 0..count {
            let path = format!("schemes[{i}]");
            let name: &&str = self.pick(&path, &names);
            let (entry, config) = self.configured(&path, name);
            entries.push(entry);
            self.schemes.push(config);
        }
        entries.into()
    }

    /// Draws a scheme that can run beside the first one of the file, because it needs the same of switches and
    /// receivers.
    fn other_scheme(&self, path: &str) -> Value {
        let needs = |scheme: &dyn SchemeConfig| {
            let needs = scheme.needs();
            (needs.telemetry, needs.writes_grant, needs.reports_endpoint_delay, needs.transport.recovery)
        };
        let all = self.generator.catalogue.schemes.schemes();
        let fitting = all.filter(|scheme| needs(&**scheme) == needs(&*self.schemes[0]));
        // With its parameters of this file, the first one may need what no scheme does by default.
        let names: Vec<_> = fitting.map(|scheme| scheme.name()).chain([self.schemes[0].name()]).collect();
        let name: &&str = self.pick(path, &names);
        self.configured(path, name).0
    }

    /// Draws values of up to three parameters of a scheme.
    fn configured(&self, path: &str, name: &str) -> (Value, Box<dyn SchemeConfig>) {
        let schemes: Vec<_> = self.generator.catalogue.schemes.schemes().collect();
        let mut config =
            schemes.into_iter().find(|scheme| scheme.name() == name).expect("a name of the registry");
        let label = format!("{name} {path}").replace(['[', ']', '.'], "-");
        if self.chance(&format!("{path}.default"), 20) {
            return (json!({"scheme": name, "label": label}), config);
        }
        let mut set = Map::new();
        for n in 0..1 + self.below(&format!("{path}.set"), 3) {
            let path = format!("{path}.set[{n}]");
            let parameters = config.parameters();
            let parameter = self.pick(&path, &parameters);
            for attempt in 0..ATTEMPTS {
                let mut stream = self.stream(&format!("{path}.{attempt}"));
                let value = values::parameter(parameter, self.duration, &mut stream);
                if config.set(parameter.info.name, &value).is_ok() {
                    set.insert(parameter.info.name.to_owned(), value.into());
                    break;
                }
            }
        }
        (json!({"scheme": name, "label": label, "set": set}), config)
    }

    /// Draws a policy that all schemes of the file accept.
    fn policy_edit(&self, path: &str) -> Value {
        let at = values::quantity("at", values::TIME, self.duration, &mut self.stream(&format!("{path}.at")));
        let mut edit = json!({"at": at, "via": self.host(&format!("{path}.via"))});
        let registry = &self.generator.catalogue.schemes;
        for attempt in 0..ATTEMPTS {
            let path = format!("{path}.{attempt}");
            let parameters = self.pick(&path, &self.schemes).parameters();
            let mut stream = self.stream(&format!("{path}="));
            let (key, value) = match self.below(&format!("{path}:"), 6) {
                0 => ("lifetime".to_owned(), "50us".to_owned()),
                1 => ("T".to_owned(), "20us".to_owned()),
                2 => (
                    "scheme".to_owned(),
                    (*self.pick(&path, &registry.names().collect::<Vec<_>>())).to_owned(),
                ),
                _ => {
                    let parameter = self.pick(&path, &parameters);
                    (parameter.info.name.to_owned(), values::parameter(parameter, self.duration, &mut stream))
                }
            };
            let accepts =
                |scheme: &dyn SchemeConfig| Policy::of(scheme).edit(registry, &[(&key, &value)]).is_ok();
            if self.schemes.iter().all(|scheme| accepts(&**scheme)) {
                edit[key] = value.into();
                break;
            }
        }
        edit
    }

    /// Draws a random tree of switches with further links, some of them parallel, and hosts anywhere.
    fn custom_topology(&self, path: &str) -> Value {
        let prefix = self.pick(&format!("{path}.names"), &[("h", "s"), ("srv-", "leaf-"), ("a", "b_")]);
        let name = |prefix: &str, n: u64| format!("{prefix}{}", n + 1);
        let switches = 1 + self.below(&format!("{path}.switches"), 5);
        let hosts = 2 + self.below(&format!("{path}.hosts"), 5);
        let mut ends: Vec<(String, String)> = Vec::new();
        for switch in 1..switches {
            let to = self.below(&format!("{path}.tree[{switch}]"), switch);
            ends.push((name(prefix.1, to), name(prefix.1, switch)));
        }
        if switches > 1 {
            for extra in 0..self.below(&format!("{path}.extra"), 3) {
                let a = self.below(&format!("{path}.extra[{extra}]"), switches);
                let b = (a + 1 + self.below(&format!("{path}.extra[{extra}].b"), switches - 1)) % switches;
                ends.push((name(prefix.1, a), name(prefix.1, b)));
            }
        }
        for host in 0..hosts {
            let switch = self.below(&format!("{path}.at[{host}]"), switches);
            ends.push((name(prefix.0, host), name(prefix.1, switch)));
        }
        let fields = &self.generator.schema["$defs"]["LinkFields"];
        let links = (0..).zip(&ends).map(|(i, (a, b))| {
            let path = format!("{path}.links[{i}]");
            if self.chance(&path, 50) {
                return json!([a, b]);
            }
            let mut link = self.object(&path, fields);
            (link["a"], link["b"]) = (json!(a), json!(b));
            for end in ["a_port", "b_port"] {
                if !link[end].is_null() {
                    link[end] = (20 + i).into();
                }
            }
            link
        });
        let mut topology = json!({
            "kind": "custom",
            "hosts": (0..hosts).map(|n| name(prefix.0, n)).collect::<Vec<_>>(),
            "switches": (0..switches).map(|n| name(prefix.1, n)).collect::<Vec<_>>(),
            "links": links.collect::<Vec<_>>(),
        });
        for (key, format) in [("rate", values::RATE), ("delay", values::TIME)] {
            let path = format!("{path}.{key}");
            if self.chance(&path, DEFAULT_SHARE) {
                topology[key] = values::quantity(key, format, self.duration, &mut self.stream(&path)).into();
            }
        }
        if self.chance(&format!("{path}.addresses"), DEFAULT_SHARE) {
            let address = |n: u64| {
                let mut address = json!({"ip": format!("10.7.{n}.{}", n + 1)});
                if self.chance(&format!("{path}.mac"), 50) {
                    address["mac"] = format!("08:00:00:00:0{n}:11").into();
                }
                (name(prefix.0, n), address)
            };
            topology["addresses"] = Value::Object((0..hosts).map(address).collect());
        }
        topology
    }
}

/// Returns the last key of a path: `links` for `faults[0].links[1]`.
fn key_of(path: &str) -> &str {
    let last = path.rsplit('.').next().unwrap_or(path);
    last.split('[').next().unwrap_or(last)
}

/// Returns the index at the end of a path.
fn index_in(path: &str) -> usize {
    path.rsplit_once('[').and_then(|(_, index)| index.strip_suffix(']')?.parse().ok()).unwrap_or(0)
}
