#!/usr/bin/env python3
"""When do the first two flows of a run share evenly? From runs/<run>/rates.csv: the first time after START that Jain's
index of the last WINDOW microseconds is above 0.95, and the last time that it was not.

  experiments/even_after.py runs/convergence-two-flows-1 --start 2000 --rtt 12.5
"""

import argparse
import collections
import csv
import pathlib

WINDOW = 25
EVEN = 0.95


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--start", type=int, required=True, help="us at which the second flow joins")
    parser.add_argument("--rtt", type=float, required=True, help="base round-trip time in us")
    options = parser.parse_args()
    schemes = collections.defaultdict(lambda: collections.defaultdict(dict))
    with (options.run / "rates.csv").open() as rows:
        for row in csv.DictReader(rows):
            schemes[row["scheme"]][row["flow"]][int(float(row["time_us"]))] = int(row["goodput_bps"])
    for scheme, flows in schemes.items():
        first, second = list(flows.values())[:2]

        def jain(now):
            a, b = (sum(flow.get(at, 0) for at in range(now - WINDOW + 1, now + 1)) for flow in (first, second))
            return (a + b) ** 2 / (2 * (a * a + b * b)) if a + b else 0

        even = [(at, jain(at) > EVEN) for at in range(options.start + 1, max(first))]
        began = next((at for at, is_even in even if is_even), None)
        uneven = max((at for at, is_even in even if not is_even), default=options.start)
        if began is None:
            print(f"{scheme:18} never")
            continue
        after = began - options.start
        print(f"{scheme:18} after {after} us, {after / options.rtt:.1f} round trips; last uneven at {uneven - options.start} us")


if __name__ == "__main__":
    main()
