#!/usr/bin/env python3
"""Generates the STF tests <program>/<control>-<case>.stf in this directory.

  make_stf.py           write the files
  make_stf.py --check   fail if a file differs from the generated one

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


def tests():
    """Yields (path, text) of every test."""
    for program, cases in PROGRAMS.items():
        for name, stf in [*cases_shared.cases(), *cases_queue.cases(program), *cases_policy.cases(), *cases.cases()]:
            yield HERE / program / f"{name}.stf", stf.text()


def main():
    generated = dict(tests())
    stale = [path for path in HERE.glob("*/*.stf") if path not in generated]
    if "--check" in sys.argv[1:]:
        outdated = stale + [path for path, text in generated.items() if not path.exists() or path.read_text() != text]
        for path in sorted(outdated):
            print(f"{path.relative_to(HERE)}: outdated; run p4src/tests/make_stf.py", file=sys.stderr)
        return 1 if outdated else 0
    for path in stale:
        path.unlink()
    for path, text in generated.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
