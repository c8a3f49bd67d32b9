#!/usr/bin/env python3
"""Generates the STF tests <program>/<control>-<case>.stf.

  make_stf.py DIR   write all of them into DIR, and remove others there
  make_stf.py       update the examples, the few that are kept beside this file (an empty file becomes one)

The expected bytes come from wire.py, a second implementation of the wire format.
"""

import pathlib
import sys

import cases_dart
import cases_ecn
import cases_fncc
import cases_hpcc
import cases_hpcc_plus
import cases_policy
import cases_queue
import cases_rcp
import cases_rocc
import cases_shared
import cases_weir
import cases_xpass

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = {
    "hpcc": cases_hpcc, "hpcc_plus": cases_hpcc_plus, "fncc": cases_fncc, "ecn": cases_ecn, "rocc": cases_rocc, "rcp": cases_rcp,
    "dart": cases_dart,
    "xpass": cases_xpass,
    "weir": cases_weir,
}


def tests(program):
    """Returns the text of every test of a program by its name."""
    cases = [*cases_shared.cases(), *cases_queue.cases(program), *cases_policy.cases(), *PROGRAMS[program].cases()]
    return {name: stf.text() for name, stf in cases}


def update(path, text):
    # A file that is up to date is left alone: another process may be reading it.
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def write(directory):
    generated = {directory / program / f"{name}.stf": text for program in PROGRAMS for name, text in tests(program).items()}
    for path in set(directory.glob("*/*.stf")) - generated.keys():
        path.unlink()
    for path, text in generated.items():
        update(path, text)


def examples():
    """Returns the generated text of every file that is kept beside this one; None if no such test is generated."""
    return {path: tests(path.parent.name).get(path.stem) for path in sorted(HERE.glob("*/*.stf"))}


def main():
    if len(sys.argv) > 2 or sys.argv[1:2] == ["--help"]:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    if len(sys.argv) == 2:
        write(pathlib.Path(sys.argv[1]))
        return 0
    for path, text in examples().items():
        if text is None:
            path.unlink()
        else:
            update(path, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
