//! Members and groups of action profiles in packet tests, on `data/tables.p4`.

use std::sync::Arc;
use weir_switch::program::Engine;
use weir_switch::{Program, stf};

const TABLES: &str = include_str!("../data/tables.json");

/// Returns the command that sends a packet to `by_profile` (6) or `by_selector` (7) with this port and address.
fn packet(what: u8, port: u16, addr: u32) -> String {
    format!("packet 3 {what:02x}00{addr:08x}{:032x}{port:04x}0000\n", 0)
}

/// Returns the command that expects the result that an action wrote.
fn expect(what: u8, port: u16, addr: u32, result: &str) -> String {
    format!("expect 1 {what:02x}00{addr:08x}{:032x}{port:04x}{result}$\n", 0)
}

fn run(engine: Engine, text: &str) -> stf::TestOutcome {
    let program: Arc<Program> = Program::load(TABLES, engine).unwrap();
    stf::run(program, text, "x.stf").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn entries_select_members_and_groups() {
    let text = [
        "act_prof_create_member shared result(value:0x11)\n",
        "act_prof_create_member shared drop()\n",
        "add by_profile key.port:1 member(0)\nadd by_profile key.port:2 member(1)\n",
        &packet(6, 1, 9),
        &expect(6, 1, 9, "0011"),
        &packet(6, 2, 9),
        "act_prof_modify_member shared 0 result(value:0x12)\n",
        &packet(6, 1, 9),
        &expect(6, 1, 9, "0012"),
        "remove all\nact_prof_delete_member shared 0\n",
        // ECMP: a group of two members, of which one leaves.
        "act_prof_create_member MyIngress.chosen result(value:0x21)\n",
        "act_prof_create_member chosen result(value:0x22)\n",
        "act_prof_create_group chosen\nact_prof_create_group chosen\n",
        "act_prof_add_member_to_group chosen 0 0\nact_prof_add_member_to_group chosen 1 0\n",
        "add by_selector key.port:1 group(0)\nadd by_selector key.port:2 member(1)\n",
        &(0..16).map(|addr| packet(7, 1, addr) + &expect(7, 1, addr, "002*")).collect::<String>(),
        "act_prof_remove_member_from_group chosen 0 0\n",
        &(0..16).map(|addr| packet(7, 1, addr) + &expect(7, 1, addr, "0022")).collect::<String>(),
        &packet(7, 2, 3),
        &expect(7, 2, 3, "0022"),
        "act_prof_delete_group chosen 1\nact_prof_delete_member chosen 0\n",
    ]
    .concat();
    for engine in [Engine::Compiled, Engine::Interpreter] {
        let outcome = run(engine, &text);
        assert!(outcome.passed(), "{outcome}");
    }
    // Both members of the group are chosen.
    let all_first = text.replace("002*", "0021");
    let outcome = run(Engine::Compiled, &all_first);
    assert!((1..16).contains(&outcome.failures.len()), "{outcome}");
}

#[test]
fn errors_name_the_position() {
    for (text, error) in [
        ("act_prof_create_group none", "1:23: there is no action profile \"none\""),
        ("act_prof_create_group shared", "1:23: action profile MyIngress.shared has no selector"),
        (
            "act_prof_create_member chosen drop()",
            "1:31: there is no action of action profile MyIngress.chosen",
        ),
        ("act_prof_create_member chosen result(value:0x12345)", "1:44: the value needs 17 bits"),
        ("act_prof_create_member chosen", "1:30: the line ends too early: an action like via(port:2)"),
        ("act_prof_delete_member chosen 3", "1:31: action profile MyIngress.chosen: there is no member 3"),
        ("act_prof_create_group chosen\nact_prof_add_member_to_group chosen 4 0", "2:37: "),
        ("act_prof_add_member_to_group chosen 0 7", "1:39: action profile MyIngress.chosen has no group 7"),
        (
            "act_prof_create_group chosen\nact_prof_remove_member_from_group chosen 2 0",
            "2:42: member 2 is not in",
        ),
        (
            "add by_profile key.port:1 member(5)",
            "1:34: action profile MyIngress.shared: there is no member 5",
        ),
        ("add by_profile key.port:1 result(value:5)", "1:5: table MyIngress.by_profile is implemented by"),
        ("add exact_one key.port:1 member(0)", "1:33: table MyIngress.exact_one has no action profile"),
        (
            "add by_profile key.port:1 group(0",
            "1:34: the line ends too early: `)` is missing after the number",
        ),
        ("act_prof_make chosen", "1:1: there is no command \"act_prof_make\""),
    ] {
        let found = stf::run(Program::from_json(TABLES).unwrap(), text, "x.stf").unwrap_err().to_string();
        assert!(found.starts_with(&format!("x.stf:{error}")), "{text}: {found}");
    }
}
