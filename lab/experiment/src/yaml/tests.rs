use super::*;

const TEXT: &str = "\
topology: {kind: star, hosts: 4}
schemes:
  - fncc
  - {scheme: hpcc,
     label: x}
workloads:
  - kind: incast
    size: 256
";

fn position_of(path: &str) -> Option<(usize, usize)> {
    let positions = Positions::from_text(TEXT).unwrap();
    positions.get(path).map(|position| (position.line, position.column))
}

#[test]
fn keys_and_entries_have_positions() {
    assert_eq!(position_of("topology"), Some((1, 1)));
    assert_eq!(position_of("topology.hosts"), Some((1, 31)));
    assert_eq!(position_of("schemes[0]"), Some((3, 5)));
    assert_eq!(position_of("schemes[1].label"), Some((5, 13)));
    assert_eq!(position_of("workloads[0].size"), Some((8, 11)));
}

#[test]
fn a_missing_key_has_the_position_of_its_map() {
    assert_eq!(position_of("topology.delay"), Some((1, 1)));
    assert_eq!(position_of("workloads[0].load"), position_of("workloads[0]"));
    assert_eq!(position_of("workloads[7].load"), position_of("workloads"));
    assert_eq!(position_of("duration"), None);
}

#[test]
fn a_value_from_the_command_line_has_no_position() {
    let mut positions = Positions::from_text(TEXT).unwrap();
    let given = Override { assignment: "topology={kind: star}", origin: "--set" };
    positions.mark_overridden("topology", given);
    assert_eq!(positions.get("topology.hosts"), None);
    assert!(positions.get("schemes[0]").is_some());
}

#[test]
fn messages_about_files_have_a_line_and_a_column() {
    let with_position = |message: &str| with_file_position("x.yaml", TEXT, message);
    assert_eq!(with_position("3:7: not YAML"), "x.yaml:3:7: not YAML");
    assert_eq!(with_position("schemes[1].label: is taken"), "x.yaml:5:13: schemes[1].label: is taken");
    assert_eq!(with_position("no such thing: sorry"), "x.yaml: no such thing: sorry");
}

#[test]
fn unknown_keys_have_a_position_and_a_suggestion() {
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Flow {
        #[allow(dead_code)]
        start: u32,
    }
    let error = read::<Vec<Flow>>("- {start: 1}\n- {strat: 2}\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "2:4: [1].strat: unknown field `strat`, expected `start`; did you mean \"start\"?"
    );
}

#[test]
fn errors_about_kinds_and_numbers_do_not_name_rust_types() {
    let spec = |text: &str| read::<weir_controller::topology::TopologySpec>(text).unwrap_err().to_string();
    let stra = spec("{kind: stra, hosts: 2, rate: 1Gbps}");
    assert!(stra.starts_with("1:8: kind: ") && stra.ends_with("; did you mean \"star\"?"), "{stra}");
    assert_eq!(
        spec("{knd: star, hosts: 2, rate: 1Gbps}"),
        "1:2: missing field `kind`; is `knd` a misspelling?"
    );
    assert_eq!(
        spec("{kind: star, hosts: nine, rate: 1Gbps}"),
        "1:21: hosts: invalid type: string \"nine\", expected a whole number"
    );
    assert_eq!(
        spec("{kind: star, hosts: -4, rate: 1Gbps}"),
        "1:21: hosts: invalid value: integer `-4`, expected a whole number, 0 or more"
    );
    assert_eq!(
        spec("{kind: dumbbell, switches: 2, senders: -4, receivers: -4}"),
        "1:40: senders: invalid value: integer `-4`, expected a whole number, 0 or more"
    );
    assert_eq!(
        spec("{kind: star, hosts: 4.5, rate: 1Gbps}"),
        "1:21: hosts: invalid type: floating point `4.5`, expected a whole number"
    );
}

#[test]
fn a_tab_after_a_dash_has_its_position() {
    let error = read::<Vec<String>>("- a\n-\tb\n").unwrap_err().to_string();
    assert_eq!(error, "2:2: a tab; write a space instead");
}

#[test]
fn lists_instead_of_maps_and_duplicate_keys_are_rejected() {
    let spec = |text: &str| read::<weir_controller::topology::Star>(text).unwrap_err().to_string();
    assert_eq!(spec("[3]"), "1:1: invalid type: list, expected a map of keys");
    let duplicate = "rate: 1Gbps\nhosts: 2\nrate: 2Gbps\n";
    assert_eq!(spec(duplicate), "3:1: rate: duplicate key; first defined in line 1");
    let same_key_in_other_maps = "- {rate: 1}\n- {rate: 2, in: {rate: 3}}\n";
    assert!(Positions::from_text(same_key_in_other_maps).is_ok());
}

#[test]
fn a_value_in_a_map_of_several_kinds_has_its_own_position() {
    let spec = |text: &str| read::<weir_controller::topology::TopologySpec>(text).unwrap_err().to_string();
    assert!(
        spec("{kind: star, hosts: 2, rate: 100Gbsp}")
            .starts_with("1:30: rate: rate \"100Gbsp\" has an unknown")
    );
    assert!(
        spec("{kind: dumbbell, switches: 2, senders: 2, receivers: 1, rate: 1x, fabric_rate: 1x}")
            .starts_with("1:63: rate: ")
    );
}

#[test]
fn deep_nesting_is_rejected_within_a_second() {
    for (open, close) in [("[", "]"), ("{a: ", "}")] {
        let text = format!("a: {}1{}", open.repeat(200_000), close.repeat(200_000));
        let start = std::time::Instant::now();
        let error = Positions::from_text(&text).err().unwrap();
        assert!(
            error.to_string().starts_with("1:")
                && (error.reason.contains("nested") || error.reason.contains("recursion")),
            "{error}"
        );
        assert!(start.elapsed().as_secs_f64() < 1.0, "{:?}", start.elapsed());
    }
}
