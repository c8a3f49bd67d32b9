"""What only hpcc.p4 does: records in DATA and PROBE packets that ask for them."""

from stf import Stf
from wire import ACK, DATA, NACK, PROBE, TELEMETRY, length, queue_units, record, tx_units, weir_frame

RATE = 12          # code of 100 Gbit/s
ASKING = dict(flags=TELEMETRY)


def start(title, priority=None):
    stf = Stf(title, paced=True)
    stf.via("h2", 2)
    stf.profile(2, RATE)
    stf.identify(0x001)
    if priority is not None:
        stf.classify(DATA, priority)
    return stf


def pushed(kind=DATA, tx=0, queue=0, older="", hops=0, rate=RATE, **frame):
    """What leaves when a record is pushed: 8 bytes more, one hop more."""
    return weir_frame(kind=kind, records=record(rate, tx_units(tx), queue_units(queue)) + older, int_hops=hops + 1,
                      path_id=0x001, ttl=63, **ASKING, **frame)


def int_push_exact():
    stf = start(
        """The record: prepended, 8 bytes. IPv4 total length and checksum, UDP length, int_hops and path_id follow;
payload and UDP checksum stay."""
    )
    stf.note("the first packet of the port: nothing sent before it, nothing queued behind it")
    for payload in ({}, dict(payload=b""), dict(payload=bytes(300))):
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=DATA, **payload, **ASKING))
        stf.expect(2, pushed(**payload))
    stf.note("the second port has its own count")
    stf.via("h3", 3)
    stf.packet(1, weir_frame(kind=DATA, dst="h3", **ASKING))
    stf.expect(3, pushed(dst="h3", rate=0))
    return stf


def int_push_padding():
    stf = start("Ethernet padding behind the packet stays behind it; lengths grow by 8 all the same.")
    stf.packet(1, weir_frame(kind=DATA, payload=b"", padding=bytes(4), **ASKING))
    stf.expect(2, pushed(payload=b"", padding=bytes(4)))
    return stf


def int_push_who():
    stf = start("Only DATA and PROBE that ask for telemetry get a record.")
    for kind in (DATA, PROBE):
        stf.note(f"kind {kind} with TELEMETRY among other flags, and without")
        stf.packet(1, weir_frame(kind=kind, flags=0xFB))
        stf.expect(2, weir_frame(kind=kind, flags=0xFB, path_id=1, ttl=63))
    stf.register("tx_bytes", 2, 0)
    stf.packet(1, weir_frame(kind=PROBE, **ASKING))
    stf.expect(2, pushed(kind=PROBE))
    for kind in (ACK, NACK, 3, 5, 6):
        stf.note(f"kind {kind} with TELEMETRY: no record")
        stf.packet(1, weir_frame(kind=kind, **ASKING))
        stf.expect(2, weir_frame(kind=kind, path_id=1, ttl=63, **ASKING))
    return stf


def int_push_hops():
    stf = start(
        """Records of earlier switches stay behind the new one, newest first. With seven there the eighth is pushed; a ninth
hop is not: forwarded as it came, but for TTL and path, and counted as int_full."""
    )
    older = "".join(f"7{hop:06x}{hop:05x}{hop:04x}" for hop in range(8, 0, -1))
    for hops in (1, 7):
        stf.note(f"{hops} before it")
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=DATA, int_hops=hops, records=older[: 16 * hops], **ASKING))
        stf.expect(2, pushed(hops=hops, older=older[: 16 * hops]))
    for hops in (8, 15):
        stf.note(f"int_hops {hops}: nothing pushed")
        stf.packet(1, weir_frame(kind=DATA, int_hops=hops, records=older, **ASKING))
        stf.expect(2, weir_frame(kind=DATA, int_hops=hops, records=older, path_id=1, ttl=63, **ASKING))
    stf.counted("int_full", 2)
    return stf


def int_push_queue():
    stf = start(
        """qLen: the bytes left behind this packet, in units of 80, rounded down, at most 65535. The packet itself does not
count. (DATA has priority 1 here, so that the register stays.)""",
        priority=1,
    )
    for queue in (0, 79, 80, 159, 160, 1000000, 5242799, 5242800, 5242880, 2**31, 2**32 - 1000):
        stf.note(f"{queue} bytes: {queue_units(queue)} units")
        stf.register("queue_bytes", 2, queue)
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=DATA, **ASKING))
        stf.expect(2, pushed(queue=queue))
    stf.note("an idle port: whatever the register says, a packet that leaves nothing behind it reports 0")
    stf.register("queue_bytes", 2, 12345)
    stf.register("tx_bytes", 2, 0)
    stf.packet(1, weir_frame(kind=PROBE, **ASKING))
    stf.expect(2, pushed(kind=PROBE))
    return stf


def int_push_wrap():
    stf = start("txBytes: units of 128 bytes modulo 2^20, before this packet, while the 32-bit register wraps.")
    for tx in (127, 128, 2**27 - 1, 2**27, 2**32 - 128, 2**32 - 1):
        stf.note(f"{tx} bytes sent: {tx_units(tx)} units")
        stf.register("tx_bytes", 2, tx)
        stf.packet(1, weir_frame(kind=DATA, **ASKING))
        stf.expect(2, pushed(tx=tx))
    return stf


def int_push_count():
    stf = start("""tx_bytes counts packets without records: neither the one that is pushed here nor those that are there already. The
record has what was sent before.""")
    older = "".join(f"7{hop:06x}{hop:05x}{hop:04x}" for hop in range(8, 0, -1))
    sent = 0
    for hops, size in ((0, 4), (0, 0), (1, 300), (7, 4)):
        stf.packet(1, weir_frame(kind=DATA, int_hops=hops, records=older[: 16 * hops], payload=bytes(size), **ASKING))
        stf.expect(2, pushed(tx=sent, hops=hops, older=older[: 16 * hops], payload=bytes(size)))
        sent += length(weir_frame(kind=DATA, payload=bytes(size), **ASKING))
        stf.register_is("tx_bytes", 2, sent)
    stf.note("through the wrap")
    stf.register("tx_bytes", 2, 2**32 - 1)
    stf.packet(1, weir_frame(kind=DATA, **ASKING))
    stf.expect(2, pushed(tx=2**32 - 1))
    stf.register_is("tx_bytes", 2, length(weir_frame(kind=DATA, **ASKING)) - 1)
    stf.note("a packet that claims records that it has not counts less, and at least 0")
    stf.register("tx_bytes", 2, 1000)
    stf.packet(1, weir_frame(kind=DATA, int_hops=7, payload=b"", **ASKING))
    stf.expect(2, pushed(tx=1000, hops=7, payload=b""))
    stf.register_is("tx_bytes", 2, 1000 + length(weir_frame(kind=DATA, payload=b"", **ASKING)) - 56)
    stf.note("a ninth record is not pushed, and the packet counts as it is")
    stf.register("tx_bytes", 2, 0)
    full = dict(kind=DATA, int_hops=8, records=older, **ASKING)
    stf.packet(1, weir_frame(**full))
    stf.expect(2, weir_frame(**full, path_id=1, ttl=63))
    stf.register_is("tx_bytes", 2, length(weir_frame(**full)))
    return stf


def int_push_rates():
    stf = Stf("The rate code is the one in the profile of the port that the packet leaves by.")
    for port in range(1, 16):
        stf.via(0x0A000100 + port, port)
        stf.profile(port, port)
    for port in range(1, 16):
        stf.packet(20, weir_frame(kind=DATA, dst=0x0A000100 + port, **ASKING))
        stf.expect(port, weir_frame(kind=DATA, dst=0x0A000100 + port, records=record(port, 0, 0), int_hops=1, ttl=63, **ASKING))
    return stf


def int_push_ecn():
    stf = start("A packet that gets a record and a mark: one checksum over both changes.", priority=1)
    stf.via("h3", 3)
    stf.profile(3, RATE, 100, 200, 0)
    stf.register("queue_bytes", 3, 8000)
    stf.packet(1, weir_frame(kind=DATA, dst="h3", ecn=2, **ASKING))
    stf.expect(3, pushed(dst="h3", ecn=3, queue=8000))
    stf.counted("ecn_marked", 1)
    return stf


def int_push_waiting():
    stf = start("Packets that wait in one queue: each record says what was sent before and what is left behind.")
    first = weir_frame(kind=NACK)
    stf.hold(2, first)
    stf.expect(2, weir_frame(kind=NACK, path_id=1, ttl=63))
    sizes = [900, 500, 100]
    lengths = [length(weir_frame(kind=DATA, payload=bytes(size), **ASKING)) for size in sizes]
    for size in sizes:
        stf.packet(1, weir_frame(kind=DATA, payload=bytes(size), **ASKING))
    stf.line("wait")
    stf.register_is("queue_bytes", 2, sum(lengths))
    stf.line("time 4s")
    sent = length(first)
    for number, size in enumerate(sizes):
        left = sum(lengths[number + 1 :])
        stf.note(f"{sent} bytes sent before it, {left} left behind it")
        stf.expect(2, pushed(tx=sent, queue=left, payload=bytes(size)))
        sent += lengths[number]
    stf.register_is("queue_bytes", 2, 0)
    stf.register_is("tx_bytes", 2, sent)
    return stf


def int_push_clock():
    stf = start("The timestamp is the switch's clock when the packet leaves, modulo 2^24 (embedded switch only).")
    now = 0
    for step in (1, 255, 2**24 - 300, 100, 5 * 2**24):
        now += step
        stf.note(f"{step} ns later")
        stf.line(f"time {step}ns")
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=DATA, **ASKING))
        stf.expect(2, weir_frame(kind=DATA, records=record(RATE, 0, 0, timestamp=now), int_hops=1, path_id=1, ttl=63, **ASKING))
    return stf


def cases():
    return [
        ("int_push-exact", int_push_exact()),
        ("int_push-padding", int_push_padding()),
        ("int_push-who", int_push_who()),
        ("int_push-hops", int_push_hops()),
        ("int_push-queue", int_push_queue()),
        ("int_push-wrap", int_push_wrap()),
        ("int_push-count", int_push_count()),
        ("int_push-waiting", int_push_waiting()),
        ("int_push-clock", int_push_clock()),
        ("int_push-rates", int_push_rates()),
        ("int_push-ecn", int_push_ecn()),
    ]
