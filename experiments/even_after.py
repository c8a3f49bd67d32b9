#!/usr/bin/env python3
"""Convergence times of the flows of a run, from its rates.csv, with goodput averaged over the last WINDOW microseconds.

Prints the first time after START at which Jain's index is above 0.95, the last time at which it is not, and the last time at
which a flow differs by more than 10 % from its mean over the last tenth of the run; also the goodput of all flows in the
millisecond after START, and in the last tenth. For several runs, such as those of a sweep: means with 95 % confidence
intervals.

  experiments/even_after.py runs/convergence-two-flows-1 --start 2000 --rtt 12.5
"""

import argparse
import collections
import csv
import itertools
import math
import pathlib
import statistics

WINDOW = 25
EVEN = 0.95
SETTLED = 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=pathlib.Path, nargs="+", metavar="RUN")
    parser.add_argument("--start", type=int, required=True, help="time at which the last flow joins, in us")
    parser.add_argument("--until", type=int, help="time at which a flow ends, in us, if before the end of the run")
    parser.add_argument("--rtt", type=float, required=True, help="base round-trip time in us")
    parser.add_argument("--window", type=int, default=WINDOW, help="interval over which goodput is averaged, in us")
    options = parser.parse_args()
    results = collections.defaultdict(list)
    for run in options.runs:
        for scheme, flows in read(run).items():
            results[scheme].append(examine(list(flows.values()), options))
    for scheme, runs in results.items():
        print(f"{scheme:18} {describe(runs, options.rtt)}")


def read(run):
    """Returns goodput by scheme, flow and microsecond."""
    schemes = collections.defaultdict(lambda: collections.defaultdict(dict))
    with (run / "rates.csv").open() as rows:
        for row in csv.DictReader(rows):
            schemes[row["scheme"]][row["flow"]][int(float(row["time_us"]))] = int(row["goodput_bps"])
    return schemes


def examine(flows, options):
    """Returns the three times after the start in us, None if never reached, and the two goodputs in Gbit/s."""
    start, end = options.start, options.until or max(flows[0])
    sums = [[0, *itertools.accumulate(flow.get(at, 0) for at in range(1, end + 1))] for flow in flows]
    times = range(start + 1, end + 1)

    def rates(now):
        return [flow[now] - flow[max(now - options.window, 0)] for flow in sums]

    def is_even(now):
        shares = rates(now)
        squares = sum(share * share for share in shares)
        return squares > 0 and sum(shares) ** 2 / (len(shares) * squares) > EVEN

    def goodput(since, until):
        return sum(flow[until] - flow[since] for flow in sums) / (until - since) / 1e9

    late = end - (end - start) // 10
    total = goodput(start, min(start + 1000, end)), goodput(late, end)
    first_even = next((at for at in times if is_even(at)), None)
    if first_even is None:
        return (None, None, None, *total)
    last_uneven = max((at for at in times if not is_even(at)), default=start)
    finals = [(flow[end] - flow[late]) / (end - late) * options.window for flow in sums]

    def is_settled(now):
        return all(abs(rate - final) <= SETTLED * final for rate, final in zip(rates(now), finals))

    unsettled = max((at for at in times if not is_settled(at)), default=start)
    return (*(at - start for at in (first_even, last_uneven, unsettled)), *total)


def describe(runs, rtt):
    even, last, settled, after, end = zip(*runs)
    goodput = f"goodput {mean(after)} Gbit/s in the ms that follows, {mean(end)} at the end"
    if None in even:
        return f"never even in {even.count(None)} of {len(runs)} runs; {goodput}"

    def time(values):
        return f"{mean(values)} us, {statistics.fmean(values) / rtt:.1f} round trips"

    return f"even after {time(even)}; last uneven after {time(last)}; settled after {time(settled)}; {goodput}"


def mean(values):
    """Formats the mean with its 95 % confidence interval by Student's t (Abramowitz and Stegun 26.7.5)."""
    average = statistics.fmean(values)
    if len(values) == 1:
        return f"{average:.1f}"
    z, freedom = statistics.NormalDist().inv_cdf(0.975), len(values) - 1
    t = (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
         + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3))
    return f"{average:.1f} ± {t * statistics.stdev(values) / math.sqrt(len(values)):.1f}"


if __name__ == "__main__":
    main()
