#!/usr/bin/env python3
"""Builds and checks p4src/build, with a manifest of the sources and the artifacts.

  manifest.py --build hpcc fncc   compile, then write build/manifest.json
  manifest.py --check             fail if a source or an artifact differs from the manifest;
                                  if the same p4c is installed, recompile and compare bytes

Only the standard library is used. Exit status 0: success; 1: a difference; 2: p4c failed.
"""

import json
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from artifact_check import differences, options, report_problems, sha256

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE / "build"
MANIFEST = BUILD / "manifest.json"
# The command; {out} is build/, or a temporary directory for --check.
COMMAND = "p4c-bm2-ss --p4v 16 --p4runtime-files {out}/{program}.p4info.txtpb -o {out}/{program}.json {program}.p4"


def sources():
    """Returns the checksum of every .p4 file, by name relative to p4src."""
    paths = [*HERE.glob("*.p4"), *HERE.glob("include/*.p4"), *HERE.glob("controls/*.p4")]
    return {path.relative_to(HERE).as_posix(): sha256(path) for path in sorted(paths)}


def artifacts(program, out=BUILD):
    names = [f"{program}.json", f"{program}.p4info.txtpb"]
    return {name: sha256(out / name) if (out / name).exists() else None for name in names}


def p4c_version(p4c):
    """Returns the version of the compiler; None if it is not installed."""
    if shutil.which(p4c) is None:
        return None
    result = subprocess.run([p4c, "--version"], capture_output=True, text=True, check=False)
    for line in (result.stdout + result.stderr).splitlines():
        if line.lower().startswith("version"):
            return line.split(None, 1)[1].split(" (")[0]
    return None


def compile_program(program, p4c, flags, out):
    command = shlex.split(COMMAND.format(program=program, out=out))
    result = subprocess.run([p4c, *shlex.split(flags), *command[1:]], cwd=HERE, check=False)
    if result.returncode != 0:
        sys.exit(2)


def build(programs, p4c, flags):
    version = p4c_version(p4c)
    if version is None:
        print(f"{p4c}: not found; install p4c, or specify its path: make p4 P4C=/path/to/p4c-bm2-ss", file=sys.stderr)
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
        print(f"not recompiled: p4c {version} is installed, the artifacts were built with {manifest['compiler']}")
    else:
        with tempfile.TemporaryDirectory() as out:
            for program, recorded in manifest["programs"].items():
                compile_program(program, p4c, flags, out)
                problems += differences("recompiled", recorded, artifacts(program, pathlib.Path(out)))
    return report_problems(problems, "p4src/build", "make p4")


def main():
    arguments = options(__doc__, "p4c-bm2-ss")
    if arguments.build:
        build(arguments.programs, arguments.p4c, arguments.p4c_flags)
        return 0
    return check(arguments.p4c, arguments.p4c_flags)


if __name__ == "__main__":
    sys.exit(main())
