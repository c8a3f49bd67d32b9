"""What only rcp.p4 does: RCP's rate of each port, least of the path on ACKs."""

import cases_rocc
import laws
from stf import Stf
from wire import ACK, CNP, DATA, NACK, length, weir_frame

LINE, RTT = 10_000_000, 20_000       # kbit/s, ns
ROW = laws.rcp_row(LINE, RTT, RTT)
BACK = cases_rocc.BACK
SIZE = length(weir_frame())


def start(title, row):
    stf = Stf(title, paced=True)
    stf.via("h2", 2)
    stf.via("h1", 1)
    stf.classify(DATA, 1)
    if row:
        stf.line(laws.entry("rcp_port", "rcp", 2, row))
    return stf


def clock():
    stf = start(
        """RCP at 10 Gbit/s and d = 20 us, computed once a T of 20 us. First the worked number of the scheme sheet: 5 Gbit/s,
12 Gbit/s arriving, 50 KB queued give 0.6 Gbit/s. What arrived is what left and how much the queue grew (embedded switch only).""",
        ROW,
    )
    # rate, bytes arrived, queue then and now, ns
    steps = [(5_000_000, 30_000, 50_000, 50_000, 20_000), (5_000_000, 0, 0, 0, 20_000), (5_000_000, 25_000, 0, 0, 20_000),
             (600_000, 40_000, 10_000, 20_000, 20_000), (10_000, 60_000, 0, 90_000, 31_000), (0, 25_000, 500, 500, 20_000),
             (1_000_000, 1_000, 0, 0, 10**9), (9_999_999, 10**9, 2**30, 2**30, 40_000), (5_000_000, 2**31, 0, 0, 20_000)]
    sent = 0
    for rate, arrived, before, queue, gap in steps:
        sent += SIZE
        stf.note(f"{rate} kbit/s; {gap} ns later {arrived} bytes have come, {queue} wait")
        stf.line(f"time {gap}ns")
        stf.register("fair_rate", 2, rate)
        stf.register("rate_queue", 2, before)
        stf.register("queue_bytes", 2, queue)
        stf.register("rate_sent", 2, (sent - arrived + queue - before) % 2**32)
        stf.packet(1, weir_frame())
        stf.expect(2, weir_frame(ttl=63))
        seen = arrived if arrived < 2**31 else 0
        expected = laws.rcp_integers(ROW, rate, seen, queue, gap)
        assert rate != 5_000_000 or arrived != 30_000 or abs(expected - 600_000) <= 300, expected
        stf.register_is("fair_rate", 2, expected)
        stf.register_is("rate_sent", 2, sent)
    stf.note("before T is over nothing is computed")
    stf.line("time 19999ns")
    stf.register("fair_rate", 2, 7)
    stf.packet(1, weir_frame())
    stf.expect(2, weir_frame(ttl=63))
    stf.register_is("fair_rate", 2, 7)
    return stf


def ends():
    stf = start("A full queue ends at the least rate and an idle port at the most, however long it took.", {**ROW, "period": 1})
    for rate, queue, arrived, expected in ((5_000_000, 2**26, 2**30, ROW["rmin"]), (9_999_999, 0, 0, ROW["rmax"])):
        stf.line("time 1s")
        stf.register("fair_rate", 2, rate)
        stf.register("queue_bytes", 2, queue)
        stf.register("rate_queue", 2, queue)
        stf.register("tx_bytes", 2, 0)
        stf.register("rate_sent", 2, (SIZE - arrived) % 2**32)
        stf.packet(1, weir_frame())
        stf.expect(2, weir_frame(ttl=63))
        stf.register_is("fair_rate", 2, expected)
    return stf


def grants():
    stf = start("ACKs and NACKs take the rate of the port they came in by, if it is lower. A port without one changes nothing.", None)
    stf.register("fair_rate", 2, 600_000)
    for kind in (ACK, NACK, CNP):
        for grant in (0, 599_999, 600_001, 2**32 - 1):
            after = min(grant, 600_000) if kind in (ACK, NACK) else grant
            stf.packet(2, weir_frame(kind=kind, grant=grant, **BACK))
            stf.expect(1, weir_frame(kind=kind, grant=after, ttl=63, **BACK))
    stf.packet(1, weir_frame(kind=ACK, grant=2**32 - 1))
    stf.expect(2, weir_frame(kind=ACK, grant=2**32 - 1, ttl=63))
    stf.register_is("fair_rate", 1, 0)
    return stf


def cases():
    return [("rcp_rate-clock", clock()), ("rcp_rate-ends", ends()), ("fair_rate-grants", grants())]
