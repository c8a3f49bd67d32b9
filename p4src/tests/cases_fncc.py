"""What only fncc.p4 does: the All_INT_Table, written by what leaves a port, read by ACKs that come in by it."""

from stf import Stf
from wire import ACK, CNP, DATA, NACK, PROBE, TELEMETRY, WEIR_PORT, length, queue_units, record, tx_units, weir_frame

RATE_OUT, RATE_BACK = 12, 8          # 100 Gbit/s where data leaves, 10 Gbit/s where ACKs leave


def start(title, ack_priority=None):
    """h2 is behind port 2, h1 behind port 1: data leaves by 2, its ACK comes in by 2 and leaves by 1."""
    stf = Stf(title, paced=True)
    stf.via("h2", 2)
    stf.via("h1", 1)
    stf.profile(2, RATE_OUT)
    stf.profile(1, RATE_BACK)
    stf.identify(0x001)
    if ack_priority is not None:
        stf.classify(DATA, ack_priority)
    return stf


BACK = dict(src="h2", dst="h1", sport=WEIR_PORT, dport=4791, eth_src="h2", flags=TELEMETRY)


def ack(**frame):
    return weir_frame(**dict(kind=ACK) | BACK | frame)


def answered(tx=0, queue=0, older="", hops=0, rate=RATE_OUT, **frame):
    """The ACK as it leaves: with the entry of the port it came in by."""
    return weir_frame(records=record(rate, tx_units(tx), queue_units(queue)) + older, int_hops=hops + 1,
                      path_id=0x001, ttl=63, **dict(kind=ACK) | BACK | frame)


def all_int_idle():
    stf = start(
        """An ACK that comes in by a port that never sent anything: rate of that port, 0 bytes sent, 0 queued.
8 bytes longer, lengths and checksum right, concurrency (N) and payload untouched."""
    )
    stf.packet(2, ack(concurrency=3))
    stf.expect(1, answered(concurrency=3))
    stf.note("no payload")
    stf.packet(2, ack(payload=b""))
    stf.expect(1, answered(payload=b""))
    stf.note("a port without a profile: rate code 0, unknown")
    stf.packet(3, ack())
    stf.expect(1, answered(rate=0))
    return stf


def all_int_counts():
    stf = start(
        """Data is not touched; what it did to the port it left by is what the ACK reports: all bytes that left, in
units of 128, and nothing waiting."""
    )
    data = dict(kind=DATA, payload=bytes(1000))
    size = length(weir_frame(**data))
    for count in (1, 2):
        stf.packet(1, weir_frame(**data))
        stf.expect(2, weir_frame(**data, path_id=1, ttl=63))
    stf.note(f"two of {size} bytes have left")
    stf.packet(2, ack())
    stf.expect(1, answered(tx=2 * size))
    stf.note("another ACK, later: the same bytes")
    stf.packet(2, ack())
    stf.expect(1, answered(tx=2 * size))
    stf.note("the ACKs themselves left by port 1, and count without records: an ACK that comes in there says so")
    stf.packet(1, weir_frame(kind=ACK, flags=TELEMETRY))
    stf.expect(2, weir_frame(kind=ACK, flags=TELEMETRY, records=record(RATE_BACK, tx_units(2 * length(ack())), 0),
                             int_hops=1, path_id=1, ttl=63))
    return stf


def all_int_queue():
    stf = start(
        """qLen of the entry is what waits at the port now: queue_bytes of the port that the ACK came in by, in units of 80,
rounded down, at most 65535; not the queue of the port that the ACK leaves by."""
    )
    stf.register("queue_bytes", 1, 777777)
    for queue in (0, 79, 80, 100000, 5242799, 5242800, 2**32 - 1):
        stf.note(f"{queue} bytes: {queue_units(queue)} units")
        stf.register("queue_bytes", 2, queue)
        stf.packet(2, ack())
        stf.expect(1, answered(queue=queue))
    stf.note("Reading does not change it.")
    stf.register_is("queue_bytes", 2, 2**32 - 1)
    return stf


def all_int_wrap():
    stf = start("txBytes of the entry: units of 128 bytes modulo 2^20, through the wrap of the 32-bit register.")
    data = weir_frame(kind=DATA)
    sent = weir_frame(kind=DATA, path_id=1, ttl=63)
    for before in (2**27 - 1, 2**32 - 128, 2**32 - 1):
        stf.note(f"{before} bytes sent, then {length(data)} more")
        stf.register("tx_bytes", 2, before)
        stf.packet(1, data)
        stf.expect(2, sent)
        stf.packet(2, ack())
        stf.expect(1, answered(tx=(before + length(data)) % 2**32))
    return stf


def all_int_who():
    stf = start("Only ACKs and NACKs with TELEMETRY get a record; DATA, PROBE and the rest never do.")
    for kind in (DATA, CNP, PROBE, 5, 6):
        frame = dict(kind=kind, flags=TELEMETRY)
        stf.packet(1, weir_frame(**frame))
        stf.expect(2, weir_frame(**frame, path_id=1, ttl=63))
    stf.line("register_reset tx_bytes")
    stf.line("register_reset all_int_table")
    for kind, name in ((ACK, "ACK"), (NACK, "NACK")):
        stf.note(f"{name}, without TELEMETRY and with it")
        stf.packet(2, ack(kind=kind, flags=0))
        stf.expect(1, ack(kind=kind, flags=0, path_id=1, ttl=63))
        stf.packet(2, ack(kind=kind))
        stf.expect(1, answered(kind=kind))
    return stf


def int_push_hops():
    stf = start(
        """Records of earlier switches stay behind the new one: the sender's own switch comes first. A ninth hop is not
pushed: forwarded as it came, but for TTL and path, and counted as int_full."""
    )
    older = "".join(f"7{hop:06x}{hop:05x}{hop:04x}" for hop in range(8, 0, -1))
    for hops in (1, 7):
        stf.note(f"{hops} before it")
        stf.packet(2, ack(int_hops=hops, records=older[: 16 * hops]))
        stf.expect(1, answered(hops=hops, older=older[: 16 * hops]))
    for hops in (8, 15):
        stf.note(f"int_hops {hops}: nothing pushed")
        stf.packet(2, ack(int_hops=hops, records=older))
        stf.expect(1, weir_frame(kind=ACK, int_hops=hops, records=older, path_id=1, ttl=63, **BACK))
    stf.counted("int_full", 2)
    return stf


def all_int_waiting():
    stf = start("Data waits at port 2; ACKs that come in there report how much, as it drains.")
    first = weir_frame(kind=NACK)
    stf.hold(2, first)
    stf.expect(2, weir_frame(kind=NACK, path_id=1, ttl=63))
    sizes = [900, 500]
    lengths = [length(weir_frame(kind=DATA, payload=bytes(size))) for size in sizes]
    for size in sizes:
        stf.packet(1, weir_frame(kind=DATA, payload=bytes(size)))
        stf.expect(2, weir_frame(kind=DATA, payload=bytes(size), path_id=1, ttl=63))
    stf.line("wait")
    stf.note(f"{sum(lengths)} bytes wait: reported though nothing has left since they came")
    stf.packet(2, ack())
    stf.expect(1, answered(tx=length(first), queue=sum(lengths)))
    sent = length(first)
    for number in range(len(sizes)):
        stf.line("time 1100ms" if number == 0 else "time 1s")
        sent += lengths[number]
        stf.note(f"{number + 1} left: {sent} bytes sent, {sum(lengths[number + 1:])} waiting")
        stf.packet(2, ack())
        stf.expect(1, answered(tx=sent, queue=sum(lengths[number + 1 :])))
    return stf


def all_int_clock():
    stf = start(
        """The timestamp is of the moment that txBytes is of: when the port last sent. A port that sent nothing for more than
16384 ticks is idle, and the time is the present (embedded switch only)."""
    )
    stf.packet(1, weir_frame(kind=DATA))
    stf.expect(2, weir_frame(kind=DATA, path_id=1, ttl=63))
    now = 0
    for step, idle in ((1000, False), (16384 - 1000, False), (1, True), (100000, True), (7 * 2**24, True)):
        now += step
        stf.note(f"{step} ns later: {'idle, the present' if idle else 'the moment it sent'}")
        stf.line(f"time {step}ns")
        stf.packet(2, ack())
        stf.expect(1, weir_frame(kind=ACK, int_hops=1, path_id=1, ttl=63, **BACK,
                                 records=record(RATE_OUT, tx_units(length(weir_frame())), 0, timestamp=now if idle else 0)))
    return stf


def all_int_slow():
    stf = start("A port of up to 1 Gbit/s is idle after 2^20 ticks: a frame may take that long (embedded switch only).")
    for port, rate in enumerate((1, 7, 8), 4):
        stf.via(0x0A000100 + port, port)
        stf.profile(port, rate)
        stf.packet(1, weir_frame(kind=DATA, dst=0x0A000100 + port))
        stf.expect(port, weir_frame(kind=DATA, dst=0x0A000100 + port, path_id=1, ttl=63))
    now = 0
    for step, slow_idle in ((16385, False), (2**20 - 16385, False), (1, True)):
        now += step
        stf.line(f"time {step}ns")
        for port, rate in enumerate((1, 7, 8), 4):
            idle = slow_idle or rate == 8
            stf.packet(port, ack())
            stf.expect(1, weir_frame(kind=ACK, int_hops=1, path_id=1, ttl=63, **BACK,
                                     records=record(rate, tx_units(length(weir_frame())), 0, timestamp=now if idle else 0)))
    return stf


def all_int_periodic():
    stf = start(
        """With a period the entry is written by the first packet that leaves after it, and an ACK takes all of it, qLen
too, however old, until the port is idle for 16384 ticks more (embedded switch only: the clock is set)."""
    )
    stf.line("setdefault int_refresh refresh_every(ticks:5000)")
    data, sent = weir_frame(kind=DATA), weir_frame(kind=DATA, path_id=1, ttl=63)
    size = length(data)

    def reports(tx, queue, at):
        stf.packet(2, ack())
        stf.expect(1, weir_frame(kind=ACK, int_hops=1, path_id=1, ttl=63, **BACK,
                                 records=record(RATE_OUT, tx_units(tx), queue_units(queue), timestamp=at)))

    now, total = 0, 0
    for step, due in ((6000, True), (4999, False), (1, True), (2000, False)):
        now += step
        stf.line(f"time {step}ns")
        stf.packet(1, data)
        stf.expect(2, sent)
        total += size
        if due:
            then, counted = now, total
        stf.note(f"{now} ns, {total} bytes sent: the entry is of {then} ns and {counted} bytes")
        stf.register("queue_bytes", 2, 80000)
        reports(counted, 0, then)
    for step, idle in ((16384 + 3000, False), (1, True)):
        now += step
        stf.line(f"time {step}ns")
        stf.note("idle: the present" if idle else "not yet idle")
        reports(counted, 80000 if idle else 0, now if idle else then)
    return stf


def cases():
    return [
        ("all_int_table-idle", all_int_idle()),
        ("all_int_table-counts", all_int_counts()),
        ("all_int_table-queue", all_int_queue()),
        ("all_int_table-wrap", all_int_wrap()),
        ("all_int_table-waiting", all_int_waiting()),
        ("all_int_table-clock", all_int_clock()),
        ("all_int_table-slow", all_int_slow()),
        ("all_int_table-periodic", all_int_periodic()),
        ("all_int_table-who", all_int_who()),
        ("int_push-ack_hops", int_push_hops()),
    ]
