#!/usr/bin/env python3
"""When do the flows of a run share evenly, and when have they settled? From runs/<run>/rates.csv, with goodput averaged
over the last WINDOW microseconds: the first time after START at which Jain's index is above 0.95, the last time at which
it is not, and the last time at which a flow is more than a tenth away from its mean over the last tenth of the run.

  experiments/even_after.py runs/convergence-two-flows-1 --start 2000 --rtt 12.5
"""

import argparse
import collections
import csv
import itertools
import pathlib

WINDOW = 25
EVEN = 0.95
SETTLED = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=pathlib.Path)
    parser.add_argument("--start", type=int, required=True, help="us at which the last flow joins")
    parser.add_argument("--until", type=int, help="us at which a flow leaves, if before the end of the run")
    parser.add_argument("--rtt", type=float, required=True, help="base round-trip time in us")
    parser.add_argument("--window", type=int, default=WINDOW, help="us over which goodput is averaged")
    options = parser.parse_args()
    schemes = collections.defaultdict(lambda: collections.defaultdict(dict))
    with (options.run / "rates.csv").open() as rows:
        for row in csv.DictReader(rows):
            schemes[row["scheme"]][row["flow"]][int(float(row["time_us"]))] = int(row["goodput_bps"])
    for scheme, flows in schemes.items():
        print(f"{scheme:18} {describe(list(flows.values()), options)}")


def describe(flows, options):
    end = options.until or max(flows[0])
    sums = [[0, *itertools.accumulate(flow.get(at, 0) for at in range(1, end + 1))] for flow in flows]
    times = range(options.start + 1, end + 1)

    def rates(now):
        return [flow[now] - flow[max(now - options.window, 0)] for flow in sums]

    def is_even(now):
        shares = rates(now)
        squares = sum(share * share for share in shares)
        return squares > 0 and sum(shares) ** 2 / (len(shares) * squares) > EVEN

    began = next((at for at in times if is_even(at)), None)
    if began is None:
        return "never"
    uneven = max((at for at in times if not is_even(at)), default=options.start)
    late = end - (end - options.start) // 10
    finals = [(flow[end] - flow[late]) / (end - late) * options.window for flow in sums]

    def is_settled(now):
        return all(abs(rate - final) <= SETTLED * final for rate, final in zip(rates(now), finals))

    unsettled = max((at for at in times if not is_settled(at)), default=options.start)
    after = [(at - options.start, (at - options.start) / options.rtt) for at in (began, uneven, unsettled)]
    even, last, settled = (f"{us} us, {trips:.1f} round trips" for us, trips in after)
    return f"even after {even}; last uneven after {last}; settled after {settled}"


if __name__ == "__main__":
    main()
