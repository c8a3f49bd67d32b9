"""What only rocc.p4 does: a fair rate per port, told by RATE packets and on ACKs."""

import laws
from stf import Stf
from wire import ACK, CE, CNP, DATA, NACK, RATE, TELEMETRY, WEIR_PORT, length, weir_frame

LINE = 100_000_000                   # kbit/s
SENT = 500_000                       # bytes in 40 us of that
UNIT_RATE, UNIT_QUEUE = 10_000, 600  # RoCC's, in kbit/s and bytes
# A period of one tick, and idle time counts once: whatever the clock, a packet computes once.
ALWAYS = laws.rocc_row(LINE, SENT, period=1, inverse=0)
NEVER = laws.rocc_row(LINE, SENT, period=2**32 - 1, inverse=0)
BACK = dict(src="h2", dst="h1", sport=WEIR_PORT, dport=4791)


def start(title, row):
    stf = Stf(title, paced=True)
    stf.via("h2", 2)
    stf.via("h1", 1)
    stf.classify(DATA, 1)            # what the test puts into the queue stays there
    if row:
        stf.line(laws.entry("rocc_port", "pi", 2, row))
    return stf


def step(stf, rate, queue, old, expected):
    stf.line("time 1us")
    stf.register("fair_rate", 2, rate)
    stf.register("rate_queue", 2, old)
    stf.register("queue_bytes", 2, queue)
    stf.packet(1, weir_frame())
    stf.expect(2, weir_frame(ttl=63))
    stf.register_is("fair_rate", 2, expected)
    stf.register_is("rate_queue", 2, queue)


def law():
    stf = start(
        """The PI controller at 100 Gbit/s. Rates are kbit/s, queues bytes; the paper's units are 10 Mbit/s and 600 B. First the
worked numbers of the scheme sheet, then every level of the gains, and the ends.""",
        ALWAYS,
    )
    worked = [(10000, 1200, 0, 10), (10000, 1000, 0, 5000), (10000, 600, 500, 9730), (3000, 600, 500, 2865),
              (10, 0, 0, 17.03125), (1000, 1200, 100, 651.25)]
    for rate, queue, old, expected in worked:
        stf.note(f"F {rate}, Q {queue}, Qold {old}: {expected}")
        step(stf, rate * UNIT_RATE, queue * UNIT_QUEUE, old * UNIT_QUEUE, int(expected * UNIT_RATE))
    edges = [LINE >> n for n in range(1, 7)] + [(LINE >> n) - 1 for n in range(1, 7)]
    for rate in edges:
        for queue, old in ((0, 150_000), (299_999, 0), (300_001, 300_001), (659_999, 600_000)):
            step(stf, rate, queue, old, laws.rocc_integers(ALWAYS, rate, queue, old, 1))
    stf.note("no rate yet: the most; a queue beyond any count: the least, and no wrap")
    for rate, queue, old in ((0, 300_000, 300_000), (LINE, 0, 0), (100_000, 2**31, 0), (100_000, 1, 2**32 - 1)):
        step(stf, rate, queue, old, laws.rocc_integers(ALWAYS, rate, queue, old, 1))
    return stf


def off():
    stf = start("A port without an entry computes no rate, tells none and lowers no grant.", None)
    stf.line("mirroring_add 1 1")
    stf.register("queue_bytes", 2, 900_000)
    stf.packet(1, weir_frame(flags=TELEMETRY))
    stf.expect(2, weir_frame(flags=TELEMETRY, ttl=63))
    stf.register_is("fair_rate", 2, 0)
    stf.packet(2, weir_frame(kind=ACK, grant=2**32 - 1, **BACK))
    stf.expect(1, weir_frame(kind=ACK, grant=2**32 - 1, ttl=63, **BACK))
    return stf


def clock():
    stf = start(
        """Once a period, by the first packet; if nothing waited, alpha * Qref for each period that was missed (embedded
switch only).""",
        laws.rocc_row(LINE, SENT, period=40_000, inverse=2**32 // 40_000),
    )
    rate, old, last, now = 100_000, 0, 0, 0
    for gap, queue in ((40_000, 0), (39_999, 600_000), (1, 600_000), (200_001, 300_000), (400_000, 0), (10**9, 0)):
        now += gap
        stf.note(f"{gap} ns later, {queue} bytes wait")
        stf.line(f"time {gap}ns")
        if now == 40_000:
            stf.register("fair_rate", 2, rate)
        if now - last >= 40_000:
            rate = laws.rocc_integers(laws.rocc_row(LINE, SENT, 40_000, 2**32 // 40_000), rate, queue, old, now - last)
            last, old = now, queue
        stf.register("queue_bytes", 2, queue)
        stf.packet(1, weir_frame())
        stf.expect(2, weir_frame(ttl=63))
        stf.register_is("fair_rate", 2, rate)
        stf.register_is("rate_time", 2, last)
    return stf


def notice(rate, port=2, **frame):
    """The RATE packet for a DATA frame of h1: from h2, as it leaves switch 1."""
    return weir_frame(kind=RATE, grant=rate, seq=port, path_id=1, payload=b"", eth_dst="h1", eth_src="s", **BACK, **frame)


def notices():
    stf = start(
        """A RATE packet, 66 bytes, goes to the source of each DATA packet with TELEMETRY, once after each computation: back by
the port it came in by, addresses and ports turned round, message and stamp kept, seq the port that is congested. tx_bytes
counts it.""",
        NEVER,
    )
    stf.identify(0x001)
    stf.line("mirroring_add 1 1")
    stf.line("mirroring_add 3 3")

    def data(port=1, told=None, **frame):
        stf.packet(port, weir_frame(**frame))
        stf.expect(2, weir_frame(path_id=1, ttl=63, **frame))
        if told:
            stf.expect(port, notice(told, message=frame.get("message", 7), stamp=frame.get("stamp", 0x55)))

    stf.register("fair_rate", 2, 5_000_000)
    stf.register("rate_time", 2, 77)
    want = dict(flags=TELEMETRY, payload=bytes(1000))
    stf.note("told once, however many packets pass")
    data(told=5_000_000, **want)
    data(**want)
    stf.register_is("tx_bytes", 1, 66)
    stf.note("another message of the host, and one that came in elsewhere")
    data(told=5_000_000, message=8, **want)
    data(port=3, told=5_000_000, message=9, stamp=0xFEDC, **want)
    stf.note("who does not ask is not told")
    data(message=10)
    stf.note("computed anew: told again")
    stf.register("rate_time", 2, 78)
    stf.register("fair_rate", 2, 6_000_000)
    data(told=6_000_000, **want)
    stf.note("records and marks of the data do not travel; Fmax is told too")
    stf.register("rate_time", 2, 79)
    stf.register("fair_rate", 2, LINE)
    data(told=LINE, int_hops=1, records="7000001000020003", concurrency=9, ecn=CE, **want)
    return stf


def grants():
    stf = start(
        """ACKs and NACKs that come in by the port take its rate as their grant if that is lower. Equal or 0 stays; other kinds
stay as they are.""",
        NEVER,
    )
    stf.register("fair_rate", 2, 5_000_000)
    for kind in (ACK, NACK, CNP, DATA):
        for grant in (0, 4_999_999, 5_000_000, 5_000_001, 2**32 - 1):
            after = min(grant, 5_000_000) if kind in (ACK, NACK) else grant
            stf.packet(2, weir_frame(kind=kind, grant=grant, **BACK))
            stf.expect(1, weir_frame(kind=kind, grant=after, ttl=63, **BACK))
    stf.note("from the other side there is no rate")
    stf.packet(1, weir_frame(kind=ACK, grant=2**32 - 1))
    stf.expect(2, weir_frame(kind=ACK, grant=2**32 - 1, ttl=63))
    stf.register_is("tx_bytes", 2, length(weir_frame()))
    return stf


def cases():
    return [("rocc_rate-law", law()), ("rocc_rate-off", off()), ("rocc_rate-clock", clock()),
            ("rate_feedback-once", notices()), ("fair_rate-grants", grants())]
