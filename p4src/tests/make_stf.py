#!/usr/bin/env python3
"""Writes the STF tests beside it: <program>/<control>-<case>.stf, for every program it applies to.

  make_stf.py           write them
  make_stf.py --check   fail if a file differs from what would be written

The expected bytes come from wire.py, a second implementation; the files are what is run and read.
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
    """(path, text) of every test."""
    for program, own in PROGRAMS.items():
        for name, stf in [*cases_shared.cases(), *cases_queue.cases(program), *cases_policy.cases(), *own.cases()]:
            yield HERE / program / f"{name}.stf", stf.text()


def main():
    wanted = dict(tests())
    stale = [path for path in HERE.glob("*/*.stf") if path not in wanted]
    if "--check" in sys.argv[1:]:
        wrong = stale + [path for path, text in wanted.items() if not path.exists() or path.read_text() != text]
        for path in sorted(wrong):
            print(f"{path.relative_to(HERE)}: not what make_stf.py writes; run p4src/tests/make_stf.py", file=sys.stderr)
        return 1 if wrong else 0
    for path in stale:
        path.unlink()
    for path, text in wanted.items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
