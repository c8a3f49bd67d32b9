#!/usr/bin/env python3
"""Compiles the TNA programs for Tofino 1 and 2, and records the resources that they use.

  report.py --build   compile and assemble; write build/ and the table in docs/tofino.md
  report.py --check   fail if a source, an artifact or the table differs from build/resources.json

For each program that fits, build/ also gets its P4 text after the compiler's mid-end, which execute/ runs.

The compiler is p4c's driver with the Tofino back end (p4c --target tofino --arch tna), which also runs the
assembler; its exit status decides whether a program fits. Only the standard library is used. Exit status 0: success, also if
a program does not fit, which the table shows; 1: a check failed; 2: another error of the compiler, or it is not installed.
"""

import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
P4SRC = HERE.parent
sys.path[:0] = [str(P4SRC), str(HERE / "execute")]

from artifact_check import differences, options, report_problems, sha256  # noqa: E402
from text import strip_architecture  # noqa: E402

BUILD = HERE / "build"
REPORT = BUILD / "resources.json"
PAGE = P4SRC.parent / "docs" / "tofino.md"
BEGIN, END = "<!-- resources: make p4-tna -->", "<!-- end of resources -->"
PROGRAMS = ["ecn", "hpcc", "fncc", "dart", "weir"]
# With CLOTs, which only Tofino 2 has, the compiler writes assembly that its assembler rejects ("No length for clot").
# The mid-end text is dumped before the pass that pads what the parser extracts. Padding changes no packet, but an executor
# would need the length of the frames.
COMMANDS = {
    "tofino": "p4c --target tofino --arch tna --top4 FoldConstantHashes --dump {out} -g -o {out} {program}.p4",
    "tofino2": "p4c --target tofino2 --arch t2na -Xp4c=--no-clot --top4 FoldConstantHashes --dump {out} -g -o {out} {program}.p4",
}
TEXT = "{program}-*-MidEnd_*FoldConstantHashes.p4pp"
CHIPS = {"tofino": "Tofino 1", "tofino2": "Tofino 2"}
COLUMNS = ["ingress", "egress", "SRAM", "TCAM", "hash bits", "meter ALUs", "PHV"]
TABLE_TYPES = {"MatchAction_Direct", "Counter", "Register", "RegisterParam"}
CONTROLLER_ANNOTATION = re.compile(r'@(?:refers_to\([^)]*\)|action_restriction\("[^"]*"\))\s+')
DOES_NOT_FIT = re.compile(
    r"error: (tofino2? supports up to \d+ stages, using \d+|Table placement cannot make any more progress)")


def sources():
    """Returns the checksum of every source file, by name relative to p4src: the files here, and what they include.

    Comments, and annotations that only a controller reads, are removed before, so that a change of these requires no
    Tofino compiler."""
    found, pending = {}, list(HERE.glob("**/*.p4"))
    while pending:
        path = pending.pop().resolve()
        name = path.relative_to(P4SRC).as_posix()
        if name not in found:
            code = re.sub(r"\s*//.*|/\*.*?\*/", "", path.read_text())
            code = CONTROLLER_ANNOTATION.sub("", code)
            found[name] = hashlib.sha256(code.encode()).hexdigest()
            pending += [path.parent / name for name in re.findall(r'^#include "(.+)"', code, re.MULTILINE)]
    return dict(sorted(found.items()))


def artifacts():
    return {path.name: sha256(path) for path in sorted(BUILD.iterdir()) if path != REPORT}


def sum_resources(logs):
    """Returns sums over all stages, the number of stages of each pipe, and the bits of the PHV containers in use."""
    stages = json.loads((logs / "resources.json").read_text())["resources"]["mau"]["mau_stages"]
    summary = (logs / "table_summary.log").read_text()
    # The log has a summary for each attempt; the last one counts.
    stages_of = lambda pipe: int(re.findall(rf"Number of stages for {pipe} table allocation: (\d+)", summary)[-1])
    total = lambda kind, units: sum(len(stage[kind][units]) for stage in stages)
    containers = json.loads((logs / "phv.json").read_text())["containers"]
    return {
        "ingress": stages_of("ingress"),
        "egress": stages_of("egress"),
        "SRAM": total("rams", "srams"),
        "TCAM": total("tcams", "tcams"),
        "hash bits": total("hash_bits", "bits"),
        "meter ALUs": total("meter_alus", "meters"),
        "PHV": sum(container["bit_width"] for container in containers if container["slices"]),
    }


def bfrt(out):
    """Returns the BF Runtime description with the program's own tables only (no snapshots, hash configuration, debugging)."""
    description = json.loads((out / "bfrt.json").read_text())
    description["tables"] = [table for table in description["tables"] if table["table_type"] in TABLE_TYPES]
    return description


def compile_program(job):
    """Returns the resources of a program on a chip, the reason why it does not fit, or None for other errors."""
    program, target, p4c, flags = job
    with tempfile.TemporaryDirectory() as out:
        command = shlex.split(COMMANDS[target].format(out=out, program=program))
        result = subprocess.run([p4c, *shlex.split(flags), *command[1:]], cwd=HERE, check=False, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out = pathlib.Path(out)
        if result.returncode != 0 or not (out / "pipe" / f"{target}.bin").exists():
            if reason := DOES_NOT_FIT.search(result.stdout):
                return {"refused": reason[1]}
            print(f"{result.stdout}\n{program} for {target}: exit status {result.returncode}", file=sys.stderr)
            return None
        text, = out.glob(TEXT.format(program=program))
        (BUILD / f"{program}.{target}.midend.txt").write_text(strip_architecture(text.read_text()))
        if target == "tofino2":
            (BUILD / f"{program}.bfrt.json").write_text(json.dumps(bfrt(out), indent=1) + "\n")
        return sum_resources(out / "pipe" / "logs")


def table(report):
    lines = ["| program | chip | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for program, chips in report["programs"].items():
        for target, numbers in chips.items():
            cells = [f"{numbers[column]:,}" if column in numbers else "" for column in COLUMNS]
            if "refused" in numbers:
                cells[0] = f"does not fit: {numbers['refused']}"
            lines.append(f"| {program} | {CHIPS[target]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def update_page(text, report):
    """Returns the page with the table of this report."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{rest.split(END)[1]}"


def build(p4c, flags):
    if shutil.which(p4c) is None:
        print(f"{p4c}: not found; specify the path of p4c's driver: make p4-tna P4C=/path/to/p4c", file=sys.stderr)
        return 2
    version = subprocess.run([p4c, "--version"], capture_output=True, text=True, check=False).stdout
    BUILD.mkdir(exist_ok=True)
    for path in BUILD.glob("*.midend.txt"):
        path.unlink()
    jobs = [(program, target, p4c, flags) for program in PROGRAMS for target in COMMANDS]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(compile_program, jobs))
    if None in results:
        return 2
    programs = {program: {} for program in PROGRAMS}
    for (program, target, _, _), result in zip(jobs, results):
        programs[program][target] = result
    report = {"compiler": version.split("(")[0].strip(), "commands": COMMANDS, "sources": sources(), "artifacts": artifacts(),
              "programs": programs}
    REPORT.write_text(json.dumps(report, indent=2) + "\n")
    PAGE.write_text(update_page(PAGE.read_text(), report))
    return 0


def check():
    if not REPORT.exists():
        print(f"{REPORT.name} is missing: run `make p4-tna` and commit p4src/tna/build", file=sys.stderr)
        return 1
    report = json.loads(REPORT.read_text())
    problems = [*differences("source", report["sources"], sources()), *differences("artifact", report["artifacts"], artifacts())]
    text = PAGE.read_text()
    if update_page(text, report) != text:
        problems.append(f"{PAGE.name}: the table differs from {REPORT.name}")
    return report_problems(problems, "p4src/tna/build", "make p4-tna")


def main():
    arguments = options(__doc__, "p4c")
    return build(arguments.p4c, arguments.p4c_flags) if arguments.build else check()


if __name__ == "__main__":
    sys.exit(main())
