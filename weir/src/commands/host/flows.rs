//! Lists of flows in YAML or CSV, chosen by the file's extension.

use super::options::Mac;
use crate::commands::files::read;
use crate::console::Failure;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;
use weir_agent::{FlowEntry, FlowPlan};
use weir_host::Announcement;
use weir_units::{Bytes, Time};

/// First port of the dynamic range (RFC 6335).
pub(super) const FIRST_PORT: u16 = 49_152;

/// Returns the UDP port of the flow at `index`, if the flow at index 0 has the port `first`. After 65535 the ports wrap
/// around to [`FIRST_PORT`].
pub(super) fn port(first: u16, index: u16) -> u16 {
    match first.checked_add(index) {
        Some(port) => port,
        None => FIRST_PORT + (u32::from(first) + u32::from(index) - 65_536) as u16 % (65_535 - FIRST_PORT),
    }
}

/// Reads a list of flows; errors name the file and the index of the flow, from 0.
pub(super) fn load(path: &Path) -> Result<Vec<FlowPlan>, Failure> {
    let text = read(path)?;
    let invalid = |reason: String| Failure::Input(format!("{}: {reason}", path.display()));
    let entries = match path.extension().and_then(|extension| extension.to_str()) {
        Some("csv") => from_csv(&text),
        Some("yaml" | "yml") => from_yaml(&text),
        _ => return Err(invalid("unknown format: a list of flows must be a .yaml or .csv file".to_owned())),
    };
    plans(&entries.map_err(invalid)?).map_err(invalid)
}

/// Parses the entries of a list; errors name the index of the flow, from 0.
pub(super) fn plans(entries: &[FlowEntry]) -> Result<Vec<FlowPlan>, String> {
    let flows = entries.iter().enumerate();
    flows
        .map(|(index, entry)| plan(index, entry).map_err(|reason| format!("flow {index}: {reason}")))
        .collect()
}

fn from_csv(text: &str) -> Result<Vec<FlowEntry>, String> {
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    reader.deserialize().collect::<Result<_, _>>().map_err(|error| error.to_string())
}

fn from_yaml(text: &str) -> Result<Vec<FlowEntry>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    serde_yaml::from_str(text).map_err(|error| error.to_string())
}

/// Parses an entry. Its index selects the default port.
fn plan(index: usize, entry: &FlowEntry) -> Result<FlowPlan, String> {
    fn field<T: FromStr>(name: &str, text: &Option<String>) -> Result<Option<T>, String>
    where
        T::Err: std::fmt::Display,
    {
        text.as_ref().map(|text| text.parse().map_err(|error| format!("{name}: {error}"))).transpose()
    }
    let peer: Ipv4Addr =
        entry.peer.parse().map_err(|_| format!("peer: invalid IPv4 address \"{}\"", entry.peer))?;
    Ok(FlowPlan {
        peer,
        peer_mac: field::<Mac>("mac", &entry.mac)?.map(|mac| mac.0),
        entropy_port: entry.port.unwrap_or_else(|| port(FIRST_PORT, (index % usize::from(u16::MAX)) as u16)),
        start: field("start", &entry.start)?.unwrap_or(Time::ZERO),
        stop: field("stop", &entry.stop)?,
        size: field::<Bytes>("size", &entry.size)?,
        announcement: entry.announces.as_deref().map(|list| announcement(list, entry.incast)).transpose()?,
    })
}

/// Parses the senders of an incast, separated by commas or spaces. Without a number the incast has number 0.
pub(super) fn announcement(list: &str, incast: Option<u32>) -> Result<Announcement, String> {
    let addresses = list.split([',', ' ']).filter(|text| !text.is_empty());
    let sender = |text: &str| text.parse().map_err(|_| format!("announces: invalid IPv4 address \"{text}\""));
    Ok(Announcement {
        incast: incast.unwrap_or(0),
        senders: addresses.map(sender).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn load_text(name: &str, text: &str) -> Result<Vec<FlowPlan>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(name);
        fs::write(&path, text).unwrap();
        load(&path).map_err(|failure| match failure {
            Failure::Input(reason) => reason.replace(dir.path().to_str().unwrap(), ""),
            other => panic!("{other:?}"),
        })
    }

    #[test]
    fn yaml_and_csv_are_equivalent() {
        let yaml = "- {peer: 10.0.2.2, size: 1MB, start: 300us, port: 50000, announces: 10.0.1.1 10.0.1.2, incast: 7}\n\
                    - {peer: 10.0.3.3, stop: 1s, mac: '02:00:0a:00:03:03'}\n";
        let csv = "peer, size, start, stop, port, mac, announces, incast\n\
                   10.0.2.2, 1MB, 300us,, 50000,, 10.0.1.1 10.0.1.2, 7\n10.0.3.3,,, 1s,, 02:00:0a:00:03:03,,\n";
        let flows = load_text("f.yaml", yaml).unwrap();
        assert_eq!(flows, load_text("f.csv", csv).unwrap());
        assert_eq!(flows.len(), 2);
        assert_eq!(flows[0].size, Some(Bytes::new(1_000_000)));
        assert_eq!((flows[0].start, flows[0].entropy_port), (Time::from_us(300), 50_000));
        let senders = [1, 2].map(|host| Ipv4Addr::new(10, 0, 1, host)).to_vec();
        assert_eq!(flows[0].announcement, Some(Announcement { incast: 7, senders }));
        assert_eq!((flows[1].size, flows[1].entropy_port), (None, FIRST_PORT + 1));
        assert_eq!((flows[1].stop, flows[1].peer_mac), (Some(Time::from_secs(1)), Some([2, 0, 10, 0, 3, 3])));
        assert_eq!(load_text("f.yaml", "\n").unwrap(), []);
    }

    #[test]
    fn errors_name_the_file_and_the_flow() {
        let error_of = |name, text| load_text(name, text).unwrap_err();
        assert_eq!(error_of("f.yaml", "- {peer: h2}"), "/f.yaml: flow 0: peer: invalid IPv4 address \"h2\"");
        assert!(error_of("f.yaml", "- {peer: 10.0.0.1, size: 1XB}").starts_with("/f.yaml: flow 0: size: "));
        assert!(
            error_of("f.yaml", "- {peer: 10.0.0.1, announces: h2}")
                .contains("announces: invalid IPv4 address \"h2\"")
        );
        assert!(error_of("f.yaml", "- {peer: 10.0.0.1, sise: 1MB}").contains("sise"));
        assert!(error_of("f.csv", "peer,port\n10.0.0.1,99999\n").contains("line: 2"));
        assert!(error_of("f.txt", "").contains(".yaml"));
    }

    #[test]
    fn ports_wrap_around() {
        assert_eq!(port(50_000, 3), 50_003);
        assert_eq!(port(65_535, 0), 65_535);
        assert_eq!(port(65_535, 1), FIRST_PORT);
        assert!((0..=u16::MAX).all(|index| port(40_000, index) >= 40_000));
    }
}
