#!/usr/bin/env python3
"""BMv2 and the embedded switch in real time: both on interfaces, driven by P4Runtime and Thrift, with the same frames.

  compare.py --bmv2 simple_switch_grpc [--weir target/release/weir] [--cases rates,meters] [--jobs 1]

Each case starts both switches with its program, in a network namespace that ends with this process, and reports the
result. Without --bmv2, both are the embedded switch, which tests the cases. It needs root, ethtool, and from PyPI
p4runtime-shell and thriftpy2.
"""

import argparse
import concurrent.futures
import pathlib
import shutil
import sys
import time

import bed

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "p4src/tests"))


def programs(name):
    """Returns the JSON and the P4Info of a program of p4src or of the tests."""
    folder = ROOT / ("switch/tests/programs" if name == "live" else "p4src/build")
    return folder / f"{name}.json", folder / f"{name}.p4info.txtpb"


def run(options, case):
    """Runs a case on both switches. Returns (whether they agree, description)."""
    from control import Info

    program, p4info = programs(case.program)
    weir = [options.weir, "switch"]

    def one(command):
        with bed.Side([*options.prefix, *command], Info(p4info), program, case.ports, case.loads) as side:
            return case.run(side)

    try:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            sides = [pool.submit(one, command) for command in ([options.bmv2] if options.bmv2 else weir, weir)]
            results = [side.result() for side in sides]
        return True, case.compare(*results)
    except bed.Difference as difference:
        return False, str(difference)


def main():
    import cases_laws
    import cases_queues
    import cases_tables

    cases = {case.name: case for case in (*cases_tables.CASES, *cases_queues.CASES, *cases_laws.CASES)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bmv2", help="simple_switch_grpc")
    parser.add_argument("--weir", default=str(ROOT / "target/release/weir"))
    parser.add_argument("--cases", default=",".join(cases), help="[%(default)s]")
    parser.add_argument("--jobs", type=int, default=1, help="cases at the same time [%(default)s]")
    options = parser.parse_args()
    for name in ("bmv2", "weir"):
        if command := getattr(options, name):
            found = shutil.which(command) or parser.error(f"{command} not found; see --help")
            setattr(options, name, str(pathlib.Path(found).resolve()))
    wanted = options.cases.split(",")
    for name in wanted:
        if name not in cases:
            parser.error(f"unknown case {name}; the cases are {', '.join(cases)}")
    bed.enter_namespace()
    options.prefix = bed.real_time()
    began, failed = time.monotonic(), 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for name, (same, found) in zip(wanted, pool.map(lambda name: run(options, cases[name]), wanted)):
            failed += not same
            print(f"{name}: {'' if same else 'DIFFERENT: '}{found}", flush=True)
    print(f"{'BMv2' if options.bmv2 else 'weir'} and weir, {len(wanted)} cases, {time.monotonic() - began:.0f} s")
    print(f"test result: {'FAILED' if failed else 'ok'}. {len(wanted) - failed} passed; {failed} failed; 0 ignored")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
