"""What only xpass.p4 does: credits, which are PROBE_REPLYs, beyond a port's rate are dropped."""

import cases_rocc
from stf import Stf
from wire import ACK, DATA, PROBE, PROBE_REPLY, length, weir_frame

BACK = cases_rocc.BACK
CREDIT = dict(kind=PROBE_REPLY, payload=b"", **BACK)


def start(title, interval, burst):
    stf = Stf(title, paced=True)
    stf.via("h2", 2)
    stf.via("h1", 1)
    if interval:
        stf.line(f"add credit_port port:1 shape(interval:{interval}, burst:{burst})")
    return stf


def credit(stf, passes, number=1):
    stf.packet(2, weir_frame(seq=number, **CREDIT))
    if passes:
        stf.expect(1, weir_frame(seq=number, ttl=63, **CREDIT))


def clock():
    stf = start(
        """Eight credits at once, then one in 132 ns on average: the rest is dropped as credit_limit. Time that no credit used adds
up to eight again, no more (embedded switch only).""",
        132 * 256, 7 * 132 * 256,
    )
    stf.line("time 10us")
    passed = dropped = 0
    virtual = 0                      # when the credits that passed would all have left, in 1/256 ns
    now = 10_000
    for gap, count in ((0, 10), (131, 2), (1, 2), (264, 3), (500_000, 12), (66, 1), (66, 1)):
        now += gap
        if gap:
            stf.note(f"{gap} ns later {count} come")
            stf.line(f"time {gap}ns")
        for _ in range(count):
            passes = virtual - now * 256 <= 7 * 132 * 256
            if passes:
                virtual = max(virtual, now * 256) + 132 * 256
            passed, dropped = passed + passes, dropped + (not passes)
            credit(stf, passes, passed + dropped)
    assert passed == 8 + 0 + 1 + 2 + 8 + 0 + 1, passed
    stf.dropped("credit_limit", dropped)
    stf.note("what was dropped was not sent, and its bytes do not stay in the queue's count")
    stf.register_is("tx_bytes", 1, passed * 66)
    stf.register_is("queue_bytes", 1, 0)
    return stf


def full():
    stf = start("The bucket is far ahead: no credit passes, and everything else does.", 1, 0)
    stf.register("credit_time", 1, 2**62)
    credit(stf, False)
    for kind in (DATA, ACK, PROBE, 2, 3, 6):
        frame = dict(kind=kind, **BACK)
        stf.packet(2, weir_frame(**frame))
        stf.expect(1, weir_frame(ttl=63, **frame))
    stf.dropped("credit_limit", 1)
    stf.register_is("credit_time", 1, 2**62)
    stf.note("by a port without an entry all pass")
    for _ in range(12):
        stf.packet(1, weir_frame(kind=PROBE_REPLY))
        stf.expect(2, weir_frame(kind=PROBE_REPLY, ttl=63))
    stf.register_is("tx_bytes", 2, 12 * length(weir_frame()))
    return stf


def cases():
    return [("credit_shaper-clock", clock()), ("credit_shaper-full", full())]
