//! docs/schemes.md describes every scheme and its parameters.

use crate::variants::all_schemes;
use weir_host::parameter::Parameter;

#[test]
fn docs_have_the_table_of_every_scheme() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/schemes.md");
    let docs = std::fs::read_to_string(path).expect("docs/schemes.md is there");
    for scheme in all_schemes() {
        let mut table =
            String::from("| parameter | symbol | unit | default | takes | source | what it does |\n");
        table += "|---|---|---|---|---|---|---|\n";
        for parameter in scheme.parameters() {
            let Parameter { info: k, default, .. } = &parameter;
            let cells = [k.name, k.symbol, k.unit, default, k.range, k.source, k.help];
            table += &format!("| {} |\n", cells.join(" | "));
        }
        let heading = format!("\n## {}\n", scheme.name());
        let section = docs.split_once(&heading).map(|(_, rest)| rest.split("\n## ").next().unwrap_or(rest));
        let section =
            section.unwrap_or_else(|| panic!("docs/schemes.md has no section \"## {}\"", scheme.name()));
        assert!(section.contains(&table), "docs/schemes.md needs this table of {}:\n{table}", scheme.name());
        assert!(
            section.contains(scheme.about()),
            "docs/schemes.md needs this description of {}: {}",
            scheme.name(),
            scheme.about()
        );
    }
}
