#!/usr/bin/env python3
"""How often the random programs have each consumer of values, and how often a lost value is noticed.

  reach.py --programs 1000 [--first 0]
  reach.py --programs 100 --lose [--p4c p4c-bm2-ss] [--weir target/release/weir]

The first counts programs. With --lose, each value that only one consumer reads becomes 0 there, as in an engine that takes it
for unused, and the packets, counters, registers and log messages of the changed program are compared with its own.
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import tempfile

from consumers import CONSUMERS
from generate import Program

ROOT = pathlib.Path(__file__).resolve().parents[3]
# What a packet does, in the output of `weir trace`.
SEEN = re.compile(r"^(?:packet \d+|leaves by port \d+|    [0-9a-f]{4}  .*|    log: .*)", re.MULTILINE)


def lose(node, field, lost, written=False):
    """Returns the JSON with `lost` for the field wherever it is read, or also where it is written."""
    if node == field:
        return lost
    if isinstance(node, list):
        return [lose(it, field, lost, written) for it in node]
    if not isinstance(node, dict):
        return node
    new = {key: lose(it, field, lost, written) for key, it in node.items()}
    if written:
        return new
    if node.get("op") in ("assign", "set"):
        new["parameters"][0] = node["parameters"][0]
    if node.get("update") is True:
        new["target"] = node["target"]
    return new


def without(document, value):
    """Returns the program without this value."""
    scope, name = value.text.split(".")[-2:]
    scalars = next(it for it in document["header_types"] if it["name"] == "scalars_0")
    named = [it[0] for it in scalars["fields"] if it[0].endswith(f".{name}")]
    if scope == "meta" and not named:
        return None
    field = ["scalars", named[0]] if scope == "meta" else [scope, name]
    # The deparser reads all fields: for it, what is written is lost.
    changed = lose(document, field, ["scalars", "lost"], value.consumer.startswith("deparsed"))
    if changed == document:
        return None
    next(it for it in changed["header_types"] if it["name"] == "scalars_0")["fields"].append(["lost", value.width, False])
    # A header has whole bytes.
    bits = sum(it[1] for it in scalars["fields"] if not it[0].startswith("_padding")) + value.width
    fields = next(it for it in changed["header_types"] if it["name"] == "scalars_0")["fields"]
    fields[:] = [it for it in fields if not it[0].startswith("_padding")] + ([["_padding", -bits % 8, False]] if bits % 8 else [])
    return changed


def outcome(options, program, document, packets, folder):
    compiled, test = folder / "program.json", folder / "test.stf"
    compiled.write_text(json.dumps(document))
    cells = [f"counter_read {it['name']} {index}" for it in document["counter_arrays"] for index in range(it["size"])]
    cells += [f"register_read {it['name']} {index}" for it in document["register_arrays"] for index in range(it["size"])]
    test.write_text("\n".join([*program.setup, *packets, *cells]) + "\n")
    trace = subprocess.run([options.weir, "trace", compiled, "--stf", test], capture_output=True, text=True, check=True).stdout
    # It fails, since it expects no frames at the port of the packets.
    read = subprocess.run([options.weir, "stf", "--json", compiled, test], capture_output=True, text=True).stdout
    return SEEN.findall(trace), json.loads(read)["tests"][0]["notes"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first program [%(default)s]")
    parser.add_argument("--packets", type=int, default=30, help="for each program [%(default)s]")
    parser.add_argument("--lose", action="store_true", help="count lost values that are noticed")
    parser.add_argument("--p4c", default="p4c-bm2-ss")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    options = parser.parse_args()
    have, lost, noticed = (collections.Counter() for _ in range(3))
    for number in range(options.first, options.first + options.programs):
        program = Program(number)
        have.update(set(program.consumers))
        if not options.lose:
            continue
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "program.p4").write_text(program.text)
            subprocess.run([options.p4c, "--Wdisable", "-o", folder / "program.json", folder / "program.p4"], check=True, capture_output=True)
            document = json.loads((folder / "program.json").read_text())
            packets = [f"packet {program.port_in} {frame.hex()}" for frame in program.packets(options.packets)]
            right = outcome(options, program, document, packets, folder)
            for value in program.values:
                changed = without(document, value)
                lost[value.consumer] += 1
                noticed[value.consumer] += changed is not None and outcome(options, program, changed, packets, folder) != right
    print(f"{'consumer':22}{'programs':>9}" + f"{'lost':>7}{'noticed':>9}" * options.lose)
    for what in CONSUMERS:
        print(f"{what:22}{have[what]:9}" + f"{lost[what]:7}{noticed[what]:9}" * options.lose)


if __name__ == "__main__":
    main()
