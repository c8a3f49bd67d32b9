"""What hpcc_plus.p4 does: all that hpcc.p4 does, and records as int_format says."""

import cases_hpcc
from cases_hpcc import ASKING, RATE, start
from stf import Stf
from wire import DATA, NACK, PROBE, length, record, tx_units, weir_frame

LINK, SOJOURN = 0x01, 0x02
IDS = "00010002"                     # switch 1, port 2
LINK_RECORD = 12


def pushed(kind=DATA, tx=0, queue=0, older="", hops=0, ids=IDS, **frame):
    """What leaves when a record with ids is pushed: 12 bytes more, one hop more."""
    return weir_frame(kind=kind, records=ids + record(RATE, tx_units(tx), queue) + older, int_hops=hops + 1,
                      path_id=0x001, ttl=63, **ASKING, **frame)


def links_exact():
    stf = start(
        """LINK: switch and port in front of the record, 12 bytes; IPv4 total length and checksum, UDP length follow. tx_bytes
counts the packet as it is sent. A packet that was on its way before keeps what it has gathered, and path_id."""
    )
    sent = 0
    for kind in (DATA, PROBE):
        stf.packet(1, weir_frame(kind=kind, int_format=LINK, **ASKING))
        stf.expect(2, pushed(kind=kind, tx=sent, int_format=LINK))
        sent += length(weir_frame()) + LINK_RECORD
        stf.register_is("tx_bytes", 2, sent)
    older = "00fe0007" + record(8, 1, 2, timestamp=3)
    stf.register("tx_bytes", 2, 0)
    stf.packet(1, weir_frame(kind=DATA, int_format=LINK, int_hops=1, records=older, path_id=0xABC, **ASKING))
    stf.expect(2, weir_frame(kind=DATA, int_format=LINK, int_hops=2, records=IDS + record(RATE, 0, 0) + older,
                             path_id=0xABD, ttl=63, **ASKING))
    stf.note("bits that mean nothing change nothing; without LINK there are no ids")
    for bits in (0x7C, 0xFD):
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=DATA, int_format=bits, **ASKING))
        stf.expect(2, pushed(ids=IDS if bits & LINK else "", int_format=bits))
    return stf


def links_nameless():
    stf = Stf("A switch that was not given an id says 0; the port is right all the same.", paced=True)
    stf.via("h2", 300)
    stf.profile(300, RATE)
    stf.packet(1, weir_frame(kind=DATA, int_format=LINK, **ASKING))
    stf.expect(300, weir_frame(kind=DATA, int_format=LINK, records="0000012c" + record(RATE, 0, 0), int_hops=1, ttl=63,
                               **ASKING))
    return stf


def links_full():
    stf = start("A ninth hop is not pushed, ids neither; who does not ask gets neither.")
    older = "".join(f"{hop:04x}00017{hop:06x}{hop:05x}{hop:04x}" for hop in range(8, 0, -1))
    full = dict(kind=DATA, int_format=LINK, int_hops=8, records=older, **ASKING)
    stf.packet(1, weir_frame(**full))
    stf.expect(2, weir_frame(**full, path_id=1, ttl=63))
    stf.counted("int_full", 1)
    for kind, flags in ((DATA, 0), (NACK, 0x04)):
        stf.packet(1, weir_frame(kind=kind, flags=flags, int_format=LINK))
        stf.expect(2, weir_frame(kind=kind, flags=flags, int_format=LINK, path_id=1, ttl=63))
    return stf


def sojourn():
    stf = start(
        """SOJOURN: in place of qLen the time the packet was queued, in 4 ticks, at most 65535 units (embedded switch only:
the clock is set)."""
    )
    first = weir_frame(kind=NACK)
    stf.packet(1, weir_frame(kind=DATA, int_format=LINK | SOJOURN, **ASKING))
    stf.expect(2, pushed(int_format=LINK | SOJOURN))
    stf.register("tx_bytes", 2, 0)
    stf.hold(2, first)
    stf.expect(2, weir_frame(kind=NACK, path_id=1, ttl=63))
    waiting = dict(kind=DATA, payload=bytes(500), **ASKING)
    for bits in (SOJOURN, LINK | SOJOURN, 0):
        stf.packet(1, weir_frame(int_format=bits, **waiting))
    stf.line("wait")
    stf.line("time 4s")
    stf.note("each waited for a second or more: 65535 units of 4 ns; the last, without SOJOURN, left nothing behind")
    sent = length(first)
    for bits in (SOJOURN, LINK | SOJOURN, 0):
        ids, queue = IDS if bits & LINK else "", 65535 if bits & SOJOURN else 0
        stf.expect(2, pushed(tx=sent, queue=queue, ids=ids, int_format=bits, payload=bytes(500)))
        sent += length(weir_frame(**waiting)) + 8 + len(ids) // 2
    return stf


def cases():
    return cases_hpcc.cases() + [
        ("link_push-exact", links_exact()),
        ("link_push-nameless", links_nameless()),
        ("link_push-full", links_full()),
        ("link_push-sojourn", sojourn()),
    ]
