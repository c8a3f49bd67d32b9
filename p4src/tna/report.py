#!/usr/bin/env python3
"""Compiles the TNA programs for Tofino 1 and 2, and keeps what they need of the chip.

  report.py --build   compile and assemble; write build/ and the table in docs/tofino.md
  report.py --check   fail if a source, an artifact or the table is not that of build/resources.json

Of each program that fits, build/ also gets its text after the compiler's middle end, which execute/ runs.

The compiler is p4c's driver with the Tofino back end (p4c --target tofino --arch tna), which starts the assembler too; its
exit status is the verdict. Only the standard library is used. Exit status 0: everything agrees, or was assembled or does not
fit, which the table shows; 1: a check failed; 2: a program was refused for another reason, or there is no compiler.
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

from agreement import differences, options, sha256, verdict  # noqa: E402
from text import reduced  # noqa: E402

BUILD = HERE / "build"
REPORT = BUILD / "resources.json"
PAGE = P4SRC.parent / "docs" / "tofino.md"
BEGIN, END = "<!-- resources: make p4-tna -->", "<!-- end of resources -->"
PROGRAMS = ["ecn", "hpcc", "fncc", "dart", "weir"]
# With CLOTs, which only Tofino 2 has, the compiler writes assembly that its assembler refuses ("No length for clot").
# The text is that before the compiler pads what the parser reads, which changes no packet but needs the length of frames.
COMMANDS = {
    "tofino": "p4c --target tofino --arch tna --top4 FoldConstantHashes --dump {out} -g -o {out} {program}.p4",
    "tofino2": "p4c --target tofino2 --arch t2na -Xp4c=--no-clot --top4 FoldConstantHashes --dump {out} -g -o {out} {program}.p4",
}
TEXT = "{program}-*-MidEnd_*FoldConstantHashes.p4pp"
CHIPS = {"tofino": "Tofino 1", "tofino2": "Tofino 2"}
COLUMNS = ["ingress", "egress", "SRAM", "TCAM", "hash bits", "meter ALUs", "PHV"]
TABLE_TYPES = {"MatchAction_Direct", "Counter", "Register", "RegisterParam"}
DOES_NOT_FIT = re.compile(
    r"error: (tofino2? supports up to \d+ stages, using \d+|Table placement cannot make any more progress)")


def sources():
    """Every file that the programs are made of, by its name relative to p4src: those here, and what they include.

    Comments do not count, so that a change of words needs no Tofino compiler."""
    found, left = {}, list(HERE.glob("**/*.p4"))
    while left:
        path = left.pop().resolve()
        name = path.relative_to(P4SRC).as_posix()
        if name not in found:
            code = re.sub(r"\s*//.*|/\*.*?\*/", "", path.read_text())
            found[name] = hashlib.sha256(code.encode()).hexdigest()
            left += [path.parent / it for it in re.findall(r'^#include "(.+)"', code, re.MULTILINE)]
    return dict(sorted(found.items()))


def artifacts():
    return {path.name: sha256(path) for path in sorted(BUILD.iterdir()) if path != REPORT}


def used(logs):
    """Sums over all stages, the stages of each pipe, and the bits of the PHV containers in use."""
    stages = json.loads((logs / "resources.json").read_text())["resources"]["mau"]["mau_stages"]
    summary = (logs / "table_summary.log").read_text()
    # The log has a summary for each attempt; the last one counts.
    of_pipe = lambda pipe: int(re.findall(rf"Number of stages for {pipe} table allocation: (\d+)", summary)[-1])
    total = lambda kind, units: sum(len(stage[kind][units]) for stage in stages)
    containers = json.loads((logs / "phv.json").read_text())["containers"]
    return {
        "ingress": of_pipe("ingress"),
        "egress": of_pipe("egress"),
        "SRAM": total("rams", "srams"),
        "TCAM": total("tcams", "tcams"),
        "hash bits": total("hash_bits", "bits"),
        "meter ALUs": total("meter_alus", "meters"),
        "PHV": sum(it["bit_width"] for it in containers if it["slices"]),
    }


def bfrt(out):
    """The BF Runtime description without the tables that are not the program's (snapshots, hash configuration, debugging)."""
    description = json.loads((out / "bfrt.json").read_text())
    description["tables"] = [table for table in description["tables"] if table["table_type"] in TABLE_TYPES]
    return description


def compile_program(job):
    """Returns the resources of a program on a chip, why it does not fit, or None if it was refused."""
    program, target, p4c, flags = job
    with tempfile.TemporaryDirectory() as out:
        command = shlex.split(COMMANDS[target].format(out=out, program=program))
        done = subprocess.run([p4c, *shlex.split(flags), *command[1:]], cwd=HERE, check=False, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        out = pathlib.Path(out)
        if done.returncode != 0 or not (out / "pipe" / f"{target}.bin").exists():
            if reason := DOES_NOT_FIT.search(done.stdout):
                return {"refused": reason[1]}
            print(f"{done.stdout}\n{program} for {target}: exit status {done.returncode}", file=sys.stderr)
            return None
        text, = out.glob(TEXT.format(program=program))
        (BUILD / f"{program}.{target}.midend.txt").write_text(reduced(text.read_text()))
        if target == "tofino2":
            (BUILD / f"{program}.bfrt.json").write_text(json.dumps(bfrt(out), indent=1) + "\n")
        return used(out / "pipe" / "logs")


def table(report):
    lines = ["| program | chip | " + " | ".join(COLUMNS) + " |", "|---" * (len(COLUMNS) + 2) + "|"]
    for program, of_chip in report["programs"].items():
        for target, numbers in of_chip.items():
            cells = [f"{numbers[column]:,}" if column in numbers else "" for column in COLUMNS]
            if "refused" in numbers:
                cells[0] = f"does not fit: {numbers['refused']}"
            lines.append(f"| {program} | {CHIPS[target]} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def page_with(text, report):
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{table(report)}\n\n{END}{rest.split(END)[1]}"


def build(p4c, flags):
    if shutil.which(p4c) is None:
        print(f"{p4c}: not found; say where p4c's driver is: make p4-tna P4C=/path/to/p4c", file=sys.stderr)
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
    PAGE.write_text(page_with(PAGE.read_text(), report))
    return 0


def check():
    if not REPORT.exists():
        print(f"{REPORT.name} is missing: run `make p4-tna` and commit p4src/tna/build", file=sys.stderr)
        return 1
    report = json.loads(REPORT.read_text())
    problems = [*differences("source", report["sources"], sources()), *differences("artifact", report["artifacts"], artifacts())]
    text = PAGE.read_text()
    if page_with(text, report) != text:
        problems.append(f"{PAGE.name}: its table is not that of {REPORT.name}")
    return verdict(problems, "p4src/tna/build", "make p4-tna")


def main():
    arguments = options(__doc__, "p4c")
    return build(arguments.p4c, arguments.p4c_flags) if arguments.build else check()


if __name__ == "__main__":
    sys.exit(main())
