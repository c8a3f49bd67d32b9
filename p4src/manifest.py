#!/usr/bin/env python3
"""Builds and checks p4src/build: what was compiled from what.

  manifest.py --build hpcc fncc   compile, then write build/manifest.json
  manifest.py --check             fail when a source or an artifact is not the one in the manifest;
                                  where the same p4c is installed, recompile and compare bytes

Only the standard library is used. Exit status 0: all agrees; 1: it does not; 2: p4c failed.
"""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from agreement import differences, options, sha256, verdict

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
MANIFEST = BUILD / "manifest.json"
# What p4c is asked to do; {out} is build/ in earnest and a temporary directory in a check.
COMMAND = "p4c-bm2-ss --p4v 16 --p4runtime-files {out}/{program}.p4info.txtpb -o {out}/{program}.json {program}.p4"


def sources():
    """Every .p4 file, by its name relative to p4src."""
    found = [*HERE.glob("*.p4"), *HERE.glob("include/*.p4"), *HERE.glob("controls/*.p4")]
    return {path.relative_to(HERE).as_posix(): sha256(path) for path in sorted(found)}


def artifacts(program, out=BUILD):
    names = [f"{program}.json", f"{program}.p4info.txtpb"]
    return {name: sha256(out / name) if (out / name).exists() else None for name in names}


def p4c_version(p4c):
    """The version line of the compiler, or None if it is not there."""
    if shutil.which(p4c) is None:
        return None
    answer = subprocess.run([p4c, "--version"], capture_output=True, text=True, check=False)
    for line in (answer.stdout + answer.stderr).splitlines():
        if line.lower().startswith("version"):
            return line.split(None, 1)[1].split(" (")[0]
    return None


def compile_program(program, p4c, flags, out):
    command = shlex.split(COMMAND.format(program=program, out=out))
    done = subprocess.run([p4c, *shlex.split(flags), *command[1:]], cwd=HERE, check=False)
    if done.returncode != 0:
        sys.exit(2)


def build(programs, p4c, flags):
    version = p4c_version(p4c)
    if version is None:
        print(f"{p4c}: not found; install p4c, or say where it is: make p4 P4C=/path/to/p4c-bm2-ss", file=sys.stderr)
        sys.exit(2)
    BUILD.mkdir(exist_ok=True)
    for program in programs:
        compile_program(program, p4c, flags, "build")
    manifest = {
        "compiler": f"p4c-bm2-ss {version}",
        "command": COMMAND.format(program="<program>", out="build"),
        "sources": sources(),
        "programs": {program: artifacts(program) for program in programs},
    }
    MANIFEST.write_text(json.dumps(manifest, indent=2) + "\n")


def check(p4c, flags):
    if not MANIFEST.exists():
        print("p4src/build/manifest.json is missing: run `make p4` and commit p4src/build", file=sys.stderr)
        return 1
    manifest = json.loads(MANIFEST.read_text())
    problems = list(differences("source", manifest["sources"], sources()))
    for program, recorded in manifest["programs"].items():
        problems += differences("artifact", recorded, artifacts(program))
    version = p4c_version(p4c)
    if version is None:
        print(f"not recompiled: {p4c} is not installed")
    elif f"p4c-bm2-ss {version}" != manifest["compiler"]:
        print(f"not recompiled: p4c {version} is installed, the artifacts are by {manifest['compiler']}")
    else:
        with tempfile.TemporaryDirectory() as out:
            for program, recorded in manifest["programs"].items():
                compile_program(program, p4c, flags, out)
                problems += differences("recompiled", recorded, artifacts(program, pathlib.Path(out)))
    return verdict(problems, "p4src/build", "make p4")


def main():
    arguments = options(__doc__, "p4c-bm2-ss")
    if arguments.build:
        build(arguments.programs, arguments.p4c, arguments.p4c_flags)
        return 0
    return check(arguments.p4c, arguments.p4c_flags)


if __name__ == "__main__":
    sys.exit(main())
