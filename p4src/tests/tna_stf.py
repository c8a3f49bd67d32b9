#!/usr/bin/env python3
"""Runs STF tests of a v1model program on its TNA version, with entries, ports and depths converted as in docs/tofino.md.

  tna_stf.py weir tofino2 weir/*.stf      run tests on one chip; exit status 1 if one fails
  tna_stf.py --write                      update the tables in docs/tofino-tests.md

Frames are compared byte for byte. Only these conversions are made:

  ports      255, the CPU's, is exchanged with the chip's CPU port, and 446 with the port that recirculates. A packet-in or
             packet-out has its port in the lower bits
  depths     queue_bytes of a port are cells that stand in its queues, but in priority 0, which leaves an empty port. For
             ingress they are reported. qLen of a record that the switch wrote is what the chip computes of as many cells.
             Tests of thresholds, which have no record, take a byte as a cell, and a threshold as that number of cells
  entries    port_profile gets a ramp of its own; the candidates of deflect_port are spread over 16 entries; ticks of
             `deflection` go into the register parameter; `report` sends to mirror session 1
  counters   drops are those of both pipes; events of all controls
  waiting    where a test lets packets wait, qLen is of the whole cells of those that are expected behind it
  tx_bytes   of packet-ins lacks their two bytes, of packet-outs has them; copies of POLICY count

Checks of the registers queue_bytes, dft_flow and dft_out are left out: no such registers exist there.
"""

import json
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tna" / "execute"))

import make_stf  # noqa: E402
from run_bmv2 import Failure, matches, statements  # noqa: E402
from switch import CELL, CPU_PORT, RECIRCULATION_PORT, Switch  # noqa: E402
from text import UnsupportedError  # noqa: E402

V1MODEL_CPU, SPARE_PORT, SESSION = 255, 446, 1
QLEN_UNIT = 80                       # bytes
PORTS = {"port", "other", "profile_port"}            # keys and parameters with port numbers
SKIPPED_REGISTERS = {"queue_bytes", "dft_flow", "dft_out"}
TX_BYTES_OFFSET = {"packet_io-in": -2, "packet_io-out": 2}
POLICY_GROUP = bytes.fromhex("ef574549")
MAX_LIFETIME = 0x7FFF_FFFF
RECORD = 2 * (14 + 20 + 8 + 24)      # offset of the first record, in hexadecimal digits
RECORD_OF_SWITCH = re.compile(r"[0-9a-f]\*{6}[0-9a-f]{9}")
BRIDGE_BYTES = 3
DIFFERENCES = json.loads((HERE / "tna_differences.json").read_text())
NS_PER_UNIT = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}


def units(cells, chip):
    """Returns the depth that a chip writes into a record."""
    return min(cells, 65535) if chip == 1 else min(2 * cells + cells // 4 - cells // 16, 65535)


def number(text):
    return int(text, 0)


class Test:
    def __init__(self, switch, name):
        self.switch, self.chip, self.name = switch, switch.chip, name
        self.uses_cells = name.startswith(("ecn-", "deflect-")) and name != "ecn-untouched"
        self.expected, self.candidates, self.nodes, self.ramps, self.skipped = {}, {}, [], 0, 0
        self.rate_limited = set()            # ports with a rate

    # Units ------------------------------------------------------------------------------------

    def port(self, port):
        cpu, recirculation = CPU_PORT[self.chip], RECIRCULATION_PORT[self.chip]
        swaps = {V1MODEL_CPU: cpu, cpu: V1MODEL_CPU, recirculation: SPARE_PORT, SPARE_PORT: recirculation}
        return swaps.get(port, port)

    def cells(self, queue):
        return queue if self.uses_cells else min(queue // QLEN_UNIT, 65535) * QLEN_UNIT // CELL[self.chip]

    def threshold(self, queue):
        return units(queue, self.chip) if self.uses_cells else queue // QLEN_UNIT

    def frame(self, port, text, is_input):
        text = re.sub(r"\s", "", text).rstrip("$").lower()
        if port == V1MODEL_CPU and len(text) >= 4:
            word = int(text[:4], 16)
            text = f"{(word & 0x7F) << 9 | self.port(word >> 7):04x}{text[4:]}"
        if not is_input and RECORD_OF_SWITCH.match(text[RECORD : RECORD + 16]):
            queue = int(text[RECORD + 12 : RECORD + 16], 16) * QLEN_UNIT
            text = f"{text[: RECORD + 12]}{units(self.cells(queue), self.chip):04x}{text[RECORD + 16 :]}"
        return text

    # Entries ----------------------------------------------------------------------------------

    def values(self, text):
        found = {key: value for key, value in re.findall(r"(\w+)\s*:\s*([\w/]+)", text)}
        return {key: self.port(number(value)) if key in PORTS else value if "/" in value else number(value)
                for key, value in found.items()}

    def add(self, table, keys, action, values):
        if table == "port_profile":
            self.profile(keys, values)
            return
        if table == "deflection":
            self.candidates[keys["port"]] = [], values["ports"]
            self.switch.extern("lifetime").value = values["ticks"] or MAX_LIFETIME
            values = {"limit": self.threshold(values["limit"])}
        if table == "deflect_port":
            found, count = self.candidates[keys["port"]]
            found.append(values)
            for index in range(16) if len(found) == count else ():
                self.entry(table, {"port": keys["port"], "index": index}, action, found[index % count])
            return
        self.entry(table, keys, action, values)

    def profile(self, keys, values):
        """Adds a port with its own ramp. Between kmin and kmax the tests mark always or never."""
        low, high, slope = values["ecn_kmin"], values["ecn_kmax"], values["ecn_slope"]
        if high:
            if low != high and slope not in (0, 2**32 - 1):
                raise UnsupportedError(f"unsupported slope {slope} of a ramp")
            begin = self.threshold(low if slope else high) + 1
            self.ramps += 1
            self.entry("ecn_ramp", {"ramp": self.ramps, "depth": (begin, 65535)}, "mark_always", {})
        self.entry("port_profile", keys, "profile",
                   {"rate_code": values["rate_code"], "ecn_ramp": self.ramps if high else 0, "fabric": values["fabric"]})

    def entry(self, table, keys, action, values):
        table = self.switch.table(table)
        found = []
        for _, _, kind, name in table.keys:
            key = keys[name]
            if kind == "lpm":
                value, length = key.split("/")
                key = number(value), number(length)
            found.append(key)
        table.add(found, action, values)

    # Statements -------------------------------------------------------------------------------

    def do(self, text):
        word, _, rest = text.partition(" ")
        if not hasattr(self, f"do_{word}"):
            raise UnsupportedError(f"unsupported statement {word}")
        getattr(self, f"do_{word}")(rest)

    def do_add(self, text):
        table, keys, action, values = re.fullmatch(r"(\w+) (.*?) (\w+)\((.*)\)", text).groups()
        self.add(table, self.values(keys), action, self.values(values))

    def do_setdefault(self, text):
        name, action, values = re.fullmatch(r"(\w+) (\w+)\((.*)\)", text).groups()
        table = self.switch.table(name)
        table.default = table.bind_action(action, self.values(values))

    def do_packet(self, text):
        port, _, frame = text.partition(" ")
        self.switch.receive(self.port(number(port)), bytes.fromhex(self.frame(number(port), frame, True)))

    def do_expect(self, text):
        port, _, frame = text.partition(" ")
        self.expected.setdefault(self.port(number(port)), []).append(self.frame(number(port), frame, False) + "$")

    def do_wait(self, _):
        self.switch.run(self.switch.now)

    def do_time(self, text):
        amount, unit = re.fullmatch(r"([\d.]+)(\w+)", text).groups()
        self.switch.run(self.switch.now + int(float(amount) * NS_PER_UNIT[unit]))

    def do_queue_rate(self, text):
        rate, port, *priority = map(int, text.split())
        self.rate_limited.add(self.port(port))
        self.switch.rates[self.port(port), priority[0] if priority else None] = rate

    def do_queue_depth(self, text):
        packets, port = map(int, text.split())
        self.switch.limits[self.port(port)] = packets

    def do_mc_mgrp_create(self, text):
        self.switch.groups[int(text)] = []

    def do_mc_node_create(self, text):
        self.nodes.append([self.port(int(port)) for port in text.split()[1:]])

    def do_mc_node_associate(self, text):
        group, node = map(int, text.split())
        self.switch.groups[group] += self.nodes[node]

    def do_meter_set_rates(self, text):
        meter, entry, rates, _ = text.split()
        per_us, burst = rates.split(":")
        self.switch.extern(meter).set(int(entry), float(per_us) / 1000, int(burst), self.switch.now)

    def do_register_write(self, text):
        name, index, value = text.split()
        index, value = int(index), number(value)
        if name == "tx_bytes":
            self.switch.extern(name).cells[self.port(index)] = value
        elif name == "queue_bytes":
            port, cells = self.port(index), self.cells(value)
            self.switch.background_cells[port] = cells
            if "waiting" in self.switch.program.objects:
                depth = units(cells, self.chip)
                self.switch.extern("waiting").cells[port] = depth
                self.switch.extern("reported").cells[port] = depth >> 6
        elif name == "all_int_table" and value == 0:
            for part in ("all_int_time", "all_int_tx", "all_int_queue"):
                self.switch.extern(part).cells[self.port(index)] = 0
        else:
            raise UnsupportedError(f"unsupported value {value} of register {name}")

    def do_register_reset(self, name):
        for part in ("all_int_time", "all_int_tx", "all_int_queue") if name == "all_int_table" else [name]:
            self.switch.extern(part).reset()

    def do_register_check(self, text):
        name, index, number_text = text.split()
        if name in SKIPPED_REGISTERS:
            self.skipped += 1
            return
        if name != "tx_bytes":
            raise UnsupportedError(f"unsupported register {name}")
        port = self.port(int(index))
        value = self.switch.extern(name).read(port)
        sent = self.switch.sent.get(port, [])
        copies = [frame for frame in sent if frame[30:34] == POLICY_GROUP]
        expected = number(number_text) + TX_BYTES_OFFSET.get(self.name, 0) * len(sent) + sum(map(len, copies))
        if value != expected:
            raise Failure(f"{name}[{port}]: expected {expected}, found {value}")

    def do_check_counter(self, text):
        name, index, count = re.fullmatch(r"(\w+)\((\d+)\) packets == (\d+)", text).groups()
        found = self.switch.counter_sum(name, int(index))
        count = DIFFERENCES["counters"].get(self.name, {}).get(f"{name}({index})", [count])[0]
        if found != int(count):
            raise Failure(f"{name}({index}): expected {count}, found {found}")

    def waiting(self, frames):
        """Yields the expected frames of a port with a queue, last first: each record has the number of cells behind its packet."""
        behind = 0
        for text in reversed(frames):
            recorded = RECORD_OF_SWITCH.match(text[RECORD : RECORD + 16]) is not None
            if recorded:
                text = f"{text[: RECORD + 12]}{units(behind, self.chip):04x}{text[RECORD + 16 :]}"
            behind += -(-(len(text) // 2 - 8 * recorded + BRIDGE_BYTES) // CELL[self.chip])
            yield text

    def run(self, lines):
        """Executes a test. Raises Failure if the program behaves differently."""
        if "report" in {shown.split(".")[-1] for shown in self.switch.program.control_plane_names.values()}:
            self.switch.sessions[SESSION] = RECIRCULATION_PORT[self.chip]
            self.do_setdefault(f"report report_to(session:{SESSION})")
        for line, text in lines:
            try:
                self.do(text)
            except (Failure, UnsupportedError) as error:
                raise type(error)(f"line {line}: {error}") from error
        for port in self.rate_limited & self.expected.keys():
            self.expected[port] = list(self.waiting(self.expected[port]))[::-1]
        for port in self.expected.keys() | self.switch.sent.keys():
            expected, got = self.expected.get(port, []), [frame.hex() for frame in self.switch.sent.get(port, [])]
            for index in range(max(len(expected), len(got))):
                if index >= len(got) or index >= len(expected) or not matches(expected[index], got[index]):
                    raise Failure(f"port {port}, frame {index + 1}: expected {(expected + ['nothing'] * len(got))[index]},\n"
                                  f"got {(got + ['nothing'] * len(expected))[index]}")


CHIPS = {"tofino": 1, "tofino2": 2}
NAMES = {1: "Tofino 1", 2: "Tofino 2"}
BUILD = HERE.parent / "tna" / "build"
PAGE = HERE.parents[1] / "docs" / "tofino-tests.md"
BEGIN, END = "<!-- results: p4src/tests/tna_stf.py --write -->", "<!-- end of results -->"


def programs():
    """Yields (program, chip, mid-end text) of every program that fits a chip."""
    for path in sorted(BUILD.glob("*.midend.txt")):
        program, chip, *_ = path.name.split(".")
        yield program, CHIPS[chip], path.read_text()


def run(text, chip, name, test):
    """Runs the text of a test. Returns the number of skipped checks; raises Failure or UnsupportedError."""
    runner = Test(Switch(text, chip), name)
    runner.run(statements(test))
    return runner.skipped


def tables():
    """Returns the tables for the documentation: numbers of tests, and tests with a different result."""
    lines = ["| program | chip | tests | same bytes | differ |", "|---|---|---|---|---|"]
    count, programs_by_test = [0, 0], {}
    for program, chip, _ in programs():
        names = list(make_stf.tests(program))
        differ = [name for name in names if name in DIFFERENCES["tests"]]
        for name in differ:
            programs_by_test.setdefault(name, []).append(program)
        count = [count[0] + len(names), count[1] + len(differ)]
        lines.append(f"| {program} | {NAMES[chip]} | {len(names)} | {len(names) - len(differ)} | {len(differ)} |")
    lines += [f"| all | | {count[0]} | {count[0] - count[1]} | {count[1]} |", "", "| test | programs | why it differs |", "|---|---|---|"]
    for name, reason in DIFFERENCES["tests"].items():
        lines.append(f"| `{name}` | {', '.join(dict.fromkeys(programs_by_test[name]))} | {reason} |")
    return "\n".join(lines)


def page():
    """Returns the page with updated tables."""
    before, rest = PAGE.read_text().split(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n\n{END}{rest.split(END)[1]}"


def main():
    if sys.argv[1:] == ["--write"]:
        PAGE.write_text(page())
        return 0
    if len(sys.argv) < 4 or sys.argv[2] not in CHIPS:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    program, chip, *tests = sys.argv[1:]
    image = BUILD / f"{program}.{chip}.midend.txt"
    if not image.exists():
        print(f"{image}: unknown program, or it does not fit {NAMES[CHIPS[chip]]}", file=sys.stderr)
        return 2
    failed = 0
    for test in map(pathlib.Path, tests):
        try:
            run(image.read_text(), CHIPS[chip], test.stem, test.read_text())
            print(f"ok    {test}")
        except (Failure, UnsupportedError) as error:
            failed += 1
            print(f"FAIL  {test}: {error}")
            if test.stem in DIFFERENCES["tests"]:
                print(f"      as expected: {DIFFERENCES['tests'][test.stem]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
