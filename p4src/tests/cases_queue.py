"""queue_bytes, tx_bytes, classes and ECN: the same in every program, but for the length on the wire.

The queue is set by register_write. A packet of the lowest priority that leaves an empty port sets it
to 0; so where a test wants a queue to stay, its packet is of priority 1.
"""

from stf import Stf
from wire import CE, CNP, DATA, ECT0_AND_ECT1, EXPRESS, ICMP, NACK, NOT_ECT, length, plain_frame, weir_frame


def queue_bytes_counts(_program):
    stf = Stf(
        """queue_bytes is raised by a packet at ingress and lowered by as much at egress. A packet of the lowest priority
that leaves the port empty sets it to 0: a drift (here 1000 bytes, as after a tail drop) ends there."""
    )
    stf.via("h2", 2)
    stf.classify(NACK, 1)
    size = length(weir_frame(kind=NACK))
    stf.note(f"priority 1, {size} bytes: what was there stays")
    stf.register("queue_bytes", 2, 1000)
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.register_is("queue_bytes", 2, 1000)
    stf.note("priority 0: the port is empty, so the register is 0")
    stf.packet(1, weir_frame(kind=DATA))
    stf.expect(2, weir_frame(kind=DATA, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    stf.note("Other ports were not touched.")
    stf.register_is("queue_bytes", 1, 0)
    stf.register_is("tx_bytes", 1, 0)
    stf.register_is("tx_bytes", 2, 2 * size)
    return stf


def queue_bytes_wrap(_program):
    stf = Stf(
        """The registers at their ends. queue_bytes 16 below its wrap: the sum wraps at ingress, and at egress the
subtraction stops at 0. tx_bytes counts on through its wrap."""
    )
    stf.via("h2", 2)
    stf.classify(NACK, 1)
    size = length(weir_frame(kind=NACK))
    stf.register("queue_bytes", 2, 2**32 - 16)
    stf.register("tx_bytes", 2, 2**32 - 1)
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    stf.register_is("tx_bytes", 2, size - 1)
    return stf


def queue_bytes_dropped(_program):
    stf = Stf("A packet that is dropped in ingress is not counted into any queue.")
    stf.via("h2", 2)
    for frame in (weir_frame(kind=NACK, ttl=1), weir_frame(kind=NACK, dst="h3"), weir_frame(kind=9)):
        stf.packet(1, frame)
    for port in (0, 1, 2, 511):
        stf.register_is("queue_bytes", port, 0)
    return stf


def classes_priority(_program):
    stf = Stf(
        """The class of a packet is that of its kind and EXPRESS flag, else 0. Seen here by the rule that only a packet of priority 0 resets
queue_bytes. What is not Weir has priority 0."""
    )
    stf.via("h2", 2)
    stf.classify(NACK, 7)
    stf.note("NACK: priority 7, the register stays")
    stf.register("queue_bytes", 2, 500)
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.register_is("queue_bytes", 2, 500)
    stf.note("the same, EXPRESS, has no entry of its own: priority 0; with one, that")
    stf.packet(1, weir_frame(kind=NACK, flags=EXPRESS))
    stf.expect(2, weir_frame(kind=NACK, flags=EXPRESS, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    stf.classify(NACK, 3, express=1)
    stf.register("queue_bytes", 2, 500)
    stf.packet(1, weir_frame(kind=NACK, flags=EXPRESS))
    stf.expect(2, weir_frame(kind=NACK, flags=EXPRESS, ttl=63))
    stf.register_is("queue_bytes", 2, 500)
    stf.note("kind 3 has no entry: priority 0")
    stf.packet(1, weir_frame(kind=3))
    stf.expect(2, weir_frame(kind=3, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    stf.note("ICMP: priority 0")
    stf.register("queue_bytes", 2, 500)
    stf.packet(1, plain_frame(ICMP, b"12345678"))
    stf.expect(2, plain_frame(ICMP, b"12345678", ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    return stf


def queue_bytes_tail_drop(_program):
    stf = Stf(
        """A tail drop happens after ingress has counted the packet: queue_bytes is too high until the port is empty.
The queue holds one packet; the second of two that wait is dropped by the traffic manager."""
    )
    stf.via("h2", 2)
    size = length(weir_frame(kind=NACK))
    stf.line("queue_depth 1 2")
    stf.hold(2, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    stf.note("one waits, one is dropped; both were counted")
    stf.packet(1, weir_frame(kind=NACK, seq=1))
    stf.packet(1, weir_frame(kind=NACK, seq=2))
    stf.expect(2, weir_frame(kind=NACK, seq=1, ttl=63))
    stf.register_is("queue_bytes", 2, 2 * size)
    stf.note("the one leaves an empty port behind")
    stf.line("time 3s")
    stf.register_is("queue_bytes", 2, 0)
    stf.register_is("tx_bytes", 2, 2 * size)
    return stf


def queue_bytes_priorities(_program):
    stf = Stf(
        """deq_qdepth counts the packets of one priority only. A packet of priority 7 that overtakes leaves its own queue
empty, but not the port: what waits in priority 0 stays counted."""
    )
    stf.via("h2", 2)
    stf.classify(NACK, 7)
    stf.line("queue_rate 1 2 0    # priority 0 of port 2: one packet a second")
    stf.line("time 2s")
    size = length(weir_frame(kind=DATA))
    for seq in (1, 2, 3):
        stf.packet(1, weir_frame(kind=DATA, seq=seq))
    stf.expect(2, weir_frame(kind=DATA, seq=1, ttl=63))
    stf.line("wait")
    stf.note("1 has left, 2 and 3 wait; now the NACK overtakes them")
    stf.register_is("queue_bytes", 2, 2 * size)
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.register_is("queue_bytes", 2, 2 * size)
    stf.line("time 3s")
    for seq in (2, 3):
        stf.expect(2, weir_frame(kind=DATA, seq=seq, ttl=63))
    stf.register_is("queue_bytes", 2, 0)
    return stf


ALWAYS, NEVER = 2**32 - 1, 0
KMIN, KMAX = 1000, 3000


def marks(stf, queue, ecn, marked):
    stf.register("queue_bytes", 2, queue)
    stf.packet(1, weir_frame(kind=CNP, ecn=ecn))
    stf.expect(2, weir_frame(kind=CNP, ecn=CE if marked else ecn, ttl=63))


def ecn_ramp(_program):
    stf = Stf(
        f"""Marks by the bytes left in the queue: up to kmin {KMIN} never, above kmax {KMAX} always, between by slope. Only
ECT(0) and ECT(1); Not-ECT stays Not-ECT, CE stays CE. Slope 0 never marks between, 2^32 - 1 always does,
so the test does not depend on chance."""
    )
    stf.via("h2", 2)
    stf.via("h3", 3)
    stf.classify(CNP, 1)
    stf.profile(2, 7, KMIN, KMAX, ALWAYS)
    count = 0
    for queue, over in ((0, False), (KMIN, False), (KMIN + 1, True), (KMAX, True), (KMAX + 1, True), (2**32 - 2000, True)):
        stf.note(f"queue {queue}: {'marked' if over else 'not marked'}, if ECT")
        for ecn in (NOT_ECT, *ECT0_AND_ECT1, CE):
            marks(stf, queue, ecn, over and ecn in ECT0_AND_ECT1)
            count += over and ecn in ECT0_AND_ECT1
    stf.counted("ecn_marked", count)
    return stf


def ecn_slope_zero(_program):
    stf = Stf("Between kmin and kmax with slope 0: never. Above kmax: always, whatever the slope.")
    stf.via("h2", 2)
    stf.classify(CNP, 1)
    stf.profile(2, 7, KMIN, KMAX, NEVER)
    for queue, over in ((KMIN + 1, False), (KMAX, False), (KMAX + 1, True)):
        stf.note(f"queue {queue}")
        for ecn in ECT0_AND_ECT1:
            marks(stf, queue, ecn, over)
    return stf


def ecn_step(_program):
    stf = Stf("DCTCP's step: kmin = kmax. At the threshold not, one byte above it always.")
    stf.via("h2", 2)
    stf.classify(CNP, 1)
    stf.profile(2, 7, KMIN, KMIN, NEVER)
    for queue, over in ((KMIN - 1, False), (KMIN, False), (KMIN + 1, True)):
        stf.note(f"queue {queue}")
        for ecn in ECT0_AND_ECT1:
            marks(stf, queue, ecn, over)
    return stf


def ecn_off(_program):
    stf = Stf("kmax 0 switches marking off at any queue; other traffic than Weir's is marked where it is on.")
    stf.via("h2", 2)
    stf.classify(CNP, 1)
    stf.profile(2, 7, 0, 0, ALWAYS)
    for ecn in ECT0_AND_ECT1:
        marks(stf, 1000000, ecn, False)
    stf.counted("ecn_marked", 0)
    return stf


def cases(program):
    return [
        ("queue_bytes-counts", queue_bytes_counts(program)),
        ("queue_bytes-wrap", queue_bytes_wrap(program)),
        ("queue_bytes-tail_drop", queue_bytes_tail_drop(program)),
        ("queue_bytes-priorities", queue_bytes_priorities(program)),
        ("queue_bytes-dropped", queue_bytes_dropped(program)),
        ("classes-priority", classes_priority(program)),
        ("ecn-ramp", ecn_ramp(program)),
        ("ecn-slope_zero", ecn_slope_zero(program)),
        ("ecn-step", ecn_step(program)),
        ("ecn-off", ecn_off(program)),
    ]
