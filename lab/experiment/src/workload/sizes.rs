//! Distributions of flow sizes.

use crate::input::read_file;
use crate::rng::RandomStream;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};
use serde::ser::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;
use std::path::Path;
use weir_controller::topology::AsText;
use weir_host::suggest::did_you_mean;
use weir_units::Bytes;

/// Built-in distributions, from `experiments/workloads/`.
const BUILTIN: [(&str, &str); 5] = [
    ("websearch", include_str!("../../assets/workloads/websearch.csv")),
    ("fb_hadoop", include_str!("../../assets/workloads/fb_hadoop.csv")),
    ("alistorage", include_str!("../../assets/workloads/alistorage.csv")),
    ("google_rpc2008", include_str!("../../assets/workloads/google_rpc2008.csv")),
    ("data_mining", include_str!("../../assets/workloads/data_mining.csv")),
];

/// A distribution of flow sizes: `64KB`, `websearch`, `my/sizes.txt`, `{choice: [2KB, 8KB]}`,
/// `{uniform: {min: 1KB, max: 1MB}}` or `{pareto: {mean: 192MB, shape: 1.5}}`.
#[derive(Clone, Debug, PartialEq)]
pub enum SizesSpec {
    /// All flows have this size.
    Fixed(Bytes),
    /// The name of a built-in distribution, or the path of a file.
    Named(String),
    /// A parameterised distribution.
    Rule(SizeRule),
}

/// A parameterised distribution of flow sizes.
#[serde_with::serde_as]
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub enum SizeRule {
    /// One of these sizes, with equal probability.
    Choice(#[serde_as(as = "Vec<AsText>")] Vec<Bytes>),
    /// Uniform distribution over a range.
    Uniform {
        /// Smallest size.
        #[serde(alias = "least")]
        #[serde_as(as = "AsText")]
        min: Bytes,
        /// Largest size.
        #[serde(alias = "most")]
        #[serde_as(as = "AsText")]
        max: Bytes,
    },
    /// Pareto distribution.
    Pareto {
        /// Mean size.
        #[serde_as(as = "AsText")]
        mean: Bytes,
        /// Shape, above 1; a smaller shape gives a heavier tail.
        shape: f64,
    },
}

impl fmt::Display for SizesSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizesSpec::Fixed(size) => size.fmt(f),
            SizesSpec::Named(name) => name.fmt(f),
            SizesSpec::Rule(SizeRule::Choice(sizes)) => {
                let sizes: Vec<String> = sizes.iter().map(Bytes::to_string).collect();
                write!(f, "{}", sizes.join("/"))
            }
            SizesSpec::Rule(SizeRule::Uniform { min, max }) => write!(f, "{min} to {max}"),
            SizesSpec::Rule(SizeRule::Pareto { mean, shape }) => write!(f, "Pareto {mean}, {shape}"),
        }
    }
}

impl Serialize for SizesSpec {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            SizesSpec::Fixed(size) => serializer.collect_str(size),
            SizesSpec::Named(name) => serializer.serialize_str(name),
            // As a map, because serde_yaml writes enums as YAML tags.
            SizesSpec::Rule(rule) => serde_yaml::with::singleton_map::serialize(rule, serializer),
        }
    }
}

impl<'de> Deserialize<'de> for SizesSpec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct SizesVisitor;
        impl<'de> Visitor<'de> for SizesVisitor {
            type Value = SizesSpec;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size, the name of a distribution, a file or a rule like {choice: [2KB, 8KB]}")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<SizesSpec, E> {
                let is_number = text.trim_start().starts_with(|c: char| c.is_ascii_digit() || c == '-');
                // A file name may start with a digit, such as `25G.cdf`.
                if is_number && !is_path(text) {
                    return text.parse().map(SizesSpec::Fixed).map_err(E::custom);
                }
                Ok(SizesSpec::Named(text.to_owned()))
            }
            fn visit_u64<E: Error>(self, n: u64) -> Result<SizesSpec, E> {
                self.visit_str(&n.to_string())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SizesSpec, A::Error> {
                let rule = MapAccessDeserializer::new(map);
                serde_yaml::with::singleton_map::deserialize(rule).map(SizesSpec::Rule)
            }
        }
        deserializer.deserialize_any(SizesVisitor)
    }
}

impl JsonSchema for SizesSpec {
    fn schema_name() -> Cow<'static, str> {
        "SizesSpec".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let rule = generator.subschema_for::<SizeRule>();
        let format = "a size or a distribution: 64KB, websearch, {uniform: {min: 1KB, max: 1MB}}";
        json_schema!({"anyOf": [{"type": "string"}, rule], "format": format})
    }
}

impl SizesSpec {
    /// Resolves the relative path of a distribution file against `base`.
    pub(crate) fn resolve_paths(&mut self, base: &Path) {
        if let SizesSpec::Named(name) = self
            && builtin(name).is_none()
        {
            let path = base.join(&*name);
            if is_path(name) || path.is_file() {
                *name = path.display().to_string();
            }
        }
    }

    /// Reads the file, if any, and checks the distribution. An error has the path of the parameter, and the reason.
    pub(crate) fn resolve(&self) -> Result<Sizes, (String, String)> {
        let at = |parameter: &str, reason: String| Err((parameter.to_owned(), reason));
        let too_small = || "must be at least 1B".to_owned();
        let sizes = match self {
            SizesSpec::Fixed(size) => Sizes::Choice(vec![*size]),
            SizesSpec::Named(name) => Sizes::Cdf(read_cdf(name).map_err(|reason| (String::new(), reason))?),
            SizesSpec::Rule(SizeRule::Choice(sizes)) => Sizes::Choice(sizes.clone()),
            SizesSpec::Rule(SizeRule::Uniform { min, max }) => Sizes::Uniform { min: *min, max: *max },
            SizesSpec::Rule(SizeRule::Pareto { mean, shape }) => {
                if !(shape.is_finite() && *shape > 1.0) {
                    let reason =
                        format!("must be a number above 1, so that the mean is finite; found {shape}");
                    return at("pareto.shape", reason);
                }
                // Solves mean = min * shape / (shape - 1) for min.
                Sizes::Pareto { min: mean.as_f64() * (shape - 1.0) / shape, shape: *shape }
            }
        };
        match &sizes {
            Sizes::Choice(all) if all.is_empty() => {
                at("choice", "is empty; list at least one size".to_owned())
            }
            Sizes::Choice(all) => match all.iter().position(|size| *size == Bytes::ZERO) {
                Some(_) if matches!(self, SizesSpec::Fixed(_)) => at("", too_small()),
                Some(index) => at(&format!("choice[{index}]"), too_small()),
                None => Ok(sizes),
            },
            Sizes::Uniform { min, .. } if *min == Bytes::ZERO => at("uniform.min", too_small()),
            Sizes::Uniform { min, max } if max < min => {
                at("uniform.min", format!("`min` {min} is above `max` {max}"))
            }
            Sizes::Pareto { .. } if sizes.mean() < 1.0 => at("pareto.mean", too_small()),
            _ if sizes.mean() < 1.0 => at("", "the mean size must be at least 1B".to_owned()),
            _ => Ok(sizes),
        }
    }
}

/// Returns whether a text is the path of a file: it contains a directory, or an extension such as `.txt`.
fn is_path(text: &str) -> bool {
    let extension = text.rsplit_once('.').map(|(_, extension)| extension);
    text.contains('/')
        || extension.is_some_and(|extension| extension.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// Returns the built-in distribution with this name.
fn builtin(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|(builtin, _)| *builtin == name).map(|(_, text)| *text)
}

/// Reads the built-in distribution or the file `name`.
fn read_cdf(name: &str) -> Result<Cdf, String> {
    if let Some(text) = builtin(name) {
        return Cdf::parse(text);
    }
    if !is_path(name) && !Path::new(name).is_file() {
        let known: Vec<&str> = BUILTIN.iter().map(|(name, _)| *name).collect();
        let meant = did_you_mean(name, known.iter().copied());
        return Err(format!("\"{name}\" is not a distribution, use {} or a file{meant}", known.join(", ")));
    }
    let text = read_file(Path::new(name)).map_err(|error| format!("{name}: {error}"))?;
    Cdf::parse(&text).map_err(|reason| {
        format!(
            "{name}: {reason}; expected lines `size,probability`, or `size percent` as in the HPCC simulator"
        )
    })
}

/// A distribution of flow sizes after all checks: no size is 0, and the mean is finite.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sizes {
    Choice(Vec<Bytes>),
    Uniform { min: Bytes, max: Bytes },
    Pareto { min: f64, shape: f64 },
    Cdf(Cdf),
}

impl Sizes {
    /// Returns the exact mean in bytes.
    pub(crate) fn mean(&self) -> f64 {
        match self {
            Sizes::Choice(all) => all.iter().map(|size| size.as_f64()).sum::<f64>() / all.len() as f64,
            Sizes::Uniform { min, max } => (min.as_f64() + max.as_f64()) / 2.0,
            Sizes::Pareto { min, shape } => min * shape / (shape - 1.0),
            Sizes::Cdf(cdf) => cdf.mean(),
        }
    }

    /// Returns a lower bound of the sizes.
    pub(crate) fn min_size(&self) -> Bytes {
        match self {
            Sizes::Choice(all) => all.iter().copied().min().unwrap_or_default(),
            Sizes::Uniform { min, .. } => *min,
            Sizes::Pareto { .. } | Sizes::Cdf(_) => Bytes::new(1),
        }
    }

    /// Draws a size of at least one byte.
    pub(crate) fn draw(&self, stream: &mut RandomStream) -> Bytes {
        match self {
            Sizes::Choice(all) => all[stream.below(all.len() as u64) as usize],
            Sizes::Uniform { min, max } => Bytes::new(min.get() + stream.below(max.get() - min.get() + 1)),
            Sizes::Pareto { min, shape } => {
                // Inverse transform sampling; libm gives the same bits on every platform.
                let size = min * libm::exp(stream.exponential() / shape);
                Bytes::new((size as u64).max(1))
            }
            Sizes::Cdf(cdf) => Bytes::new((cdf.quantile(stream.uniform()) as u64).max(1)),
        }
    }
}

/// A cumulative distribution with linear interpolation between its points.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cdf {
    /// Size in bytes and cumulative probability, both non-decreasing. The probabilities range from 0 to 1.
    points: Vec<(f64, f64)>,
}

impl Cdf {
    /// Parses lines `size,probability`, or `size percent` as in the HPCC simulator. A header and empty lines are skipped.
    fn parse(text: &str) -> Result<Cdf, String> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> =
                line.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty()).collect();
            let header = points.is_empty() && words.first().is_some_and(|word| word.parse::<f64>().is_err());
            if words.is_empty() || header {
                continue;
            }
            let point = match words[..] {
                [size, probability] => size.parse().ok().zip(probability.parse().ok()),
                _ => None,
            };
            let is_valid = |&(size, probability): &(f64, f64)| {
                let last = points.last().copied().unwrap_or((0.0, 0.0));
                size.is_finite() && probability.is_finite() && size >= last.0 && probability >= last.1
            };
            let point = point.filter(is_valid);
            points.push(point.ok_or_else(|| {
                format!(
                    "line {number}: \"{line}\": expected size and cumulative probability, both non-decreasing"
                )
            })?);
        }
        let last = points.last().ok_or("the distribution has no points")?.1;
        let is_percent = last == 100.0;
        if !(is_percent || last == 1.0) {
            return Err(format!("the last probability must be 1, found {last}"));
        }
        if is_percent {
            points.iter_mut().for_each(|point| point.1 /= 100.0);
        }
        // A first probability above 0 means that this share of the flows has the first size.
        if points[0].1 > 0.0 {
            points.insert(0, (points[0].0, 0.0));
        }
        Ok(Cdf { points })
    }

    fn mean(&self) -> f64 {
        self.points.windows(2).map(|w| (w[1].1 - w[0].1) * (w[0].0 + w[1].0) / 2.0).sum()
    }

    /// Returns the size at this cumulative probability, which is in [0, 1).
    fn quantile(&self, probability: f64) -> f64 {
        let next =
            self.points.partition_point(|point| point.1 <= probability).clamp(1, self.points.len() - 1);
        let ((size, from), (next_size, to)) = (self.points[next - 1], self.points[next]);
        size + (next_size - size) * (probability - from) / (to - from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(yaml: &str) -> Sizes {
        serde_yaml::from_str::<SizesSpec>(yaml).unwrap().resolve().unwrap()
    }

    /// The means of docs/algorithms/methods.md#size-distributions.
    #[test]
    fn builtin_distributions_have_the_documented_means() {
        for (name, mean) in [
            ("websearch", 1_711_250.0),
            ("fb_hadoop", 120_420.75),
            ("alistorage", 40_869.8),
            ("google_rpc2008", 2_891.6),
            ("data_mining", 12_658_198.6),
        ] {
            let exact = sizes(name).mean();
            assert!((exact / mean - 1.0).abs() < 1e-4, "{name}: {exact}");
        }
    }

    /// The parts that `amp-fig14.yaml` sends by different schemes.
    #[test]
    fn data_mining_is_the_union_of_its_short_and_long_parts() {
        const SHORT: f64 = 0.8 + 0.1 * (100.0 - 10.0) / (400.0 - 10.0);
        let part = |name: &str| {
            sizes(&format!(
                "{}/../../experiments/workloads/data_mining-{name}.csv",
                env!("CARGO_MANIFEST_DIR")
            ))
            .mean()
        };
        let together = SHORT * part("short") + (1.0 - SHORT) * part("long");
        assert!((together / sizes("data_mining").mean() - 1.0).abs() < 1e-4, "{together}");
    }

    #[test]
    fn drawn_values_have_the_mean() {
        for (yaml, tolerance) in [
            ("websearch", 0.02),
            ("fb_hadoop", 0.05),
            ("64KB", 0.0),
            ("{choice: [2KB, 4KB, 8KB]}", 0.01),
            ("{uniform: {min: 1KB, max: 1MB}}", 0.01),
            ("{pareto: {mean: 192MB, shape: 2.5}}", 0.03),
        ] {
            let (sizes, mut stream) = (sizes(yaml), RandomStream::new(1, "sizes"));
            const DRAWS: u64 = 100_000;
            let sum: f64 = (0..DRAWS).map(|_| sizes.draw(&mut stream).as_f64()).sum();
            let ratio = sum / DRAWS as f64 / sizes.mean();
            assert!((ratio - 1.0).abs() <= tolerance, "{yaml}: {ratio}");
        }
    }

    #[test]
    fn a_distribution_is_linear_between_its_points() {
        let cdf = Cdf::parse("size_bytes,cumulative_probability\n0,0\n1000,0.5\n5000,1\n").unwrap();
        assert_eq!(
            (cdf.quantile(0.0), cdf.quantile(0.25), cdf.quantile(0.5), cdf.quantile(0.75)),
            (0.0, 500.0, 1000.0, 3000.0)
        );
        assert_eq!(cdf.mean(), 1750.0);
        assert_eq!(Cdf::parse("0 0\n1000 50\n5000 100").unwrap(), cdf, "as HPCC's files");
    }

    #[test]
    fn invalid_sizes_are_rejected() {
        let error = |yaml: &str| match serde_yaml::from_str::<SizesSpec>(yaml) {
            Ok(spec) => {
                let (path, reason) = spec.resolve().unwrap_err();
                format!("{path}: {reason}")
            }
            Err(e) => e.to_string(),
        };
        assert!(error("web").contains("use websearch, fb_hadoop"), "{}", error("web"));
        assert!(error("/nowhere/x.csv").contains("/nowhere/x.csv"));
        assert!(error("144_hosts.txt").contains("144_hosts.txt: No such file"));
        assert!(error("64").contains("unit"), "{}", error("64"));
        assert!(error("0B").contains("at least 1B"));
        assert!(error("{choice: []}").starts_with("choice: is empty"));
        assert_eq!(error("{choice: [1KB, 0B]}"), "choice[1]: must be at least 1B");
        assert_eq!(error("{uniform: {min: 0B, max: 1KB}}"), "uniform.min: must be at least 1B");
        assert_eq!(error("{uniform: {min: 2KB, max: 1KB}}"), "uniform.min: `min` 2KB is above `max` 1KB");
        assert_eq!(error("{pareto: {mean: 0B, shape: 2}}"), "pareto.mean: must be at least 1B");
        assert!(
            error("{pareto: {mean: 1MB, shape: 1}}").starts_with("pareto.shape: must be a number above 1")
        );
        assert!(error("{gauss: 1}").contains("gauss"));
        assert!(Cdf::parse("0,0\n10,0.5\n5,1\n").unwrap_err().contains("line 3"));
        assert!(Cdf::parse("0,0\n10,0.5\n").unwrap_err().contains("must be 1"));
    }

    /// The HPCC simulator's files have the extension `.txt`; others have none.
    #[test]
    fn the_format_of_a_distribution_is_detected_from_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str, text: &str| {
            std::fs::write(dir.path().join(name), text).unwrap();
            let mut spec: SizesSpec = serde_yaml::from_str(name).unwrap();
            spec.resolve_paths(dir.path());
            spec.resolve()
        };
        let hpcc = "0 0\n10000 50\n100000 100\n";
        let sizes = read("sizes.csv", hpcc);
        assert_eq!(sizes.as_ref().map(Sizes::mean), Ok(30_000.0));
        for name in ["sizes.txt", "25G.cdf", "sizes"] {
            assert_eq!(read(name, hpcc), sizes, "{name}");
            assert_eq!(read(name, "size_bytes,cumulative_probability\n0,0\n10000,0.5\n100000,1\n"), sizes);
        }
        let (_, reason) = read("other.txt", "one 1\ntwo 2\n").unwrap_err();
        assert!(
            reason.contains("other.txt: ")
                && reason.contains("`size,probability`")
                && reason.contains("`size percent`"),
            "{reason}"
        );
    }

    #[test]
    fn serialised_sizes_are_read_back_unchanged() {
        for yaml in [
            "64KB",
            "websearch",
            "my/sizes.txt",
            "{choice: [2KB, 4KB]}",
            "{uniform: {min: 1KB, max: 2KB}}",
            "{pareto: {mean: 192MB, shape: 1.5}}",
        ] {
            let spec: SizesSpec = serde_yaml::from_str(yaml).unwrap();
            let text = serde_yaml::to_string(&spec).unwrap();
            assert_eq!(serde_yaml::from_str::<SizesSpec>(&text).unwrap(), spec, "{text}");
        }
    }
}
