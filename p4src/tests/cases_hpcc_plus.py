"""What hpcc_plus.p4 does: all that hpcc.p4 does, and records as int_format says."""

import cases_hpcc
from cases_hpcc import ASKING, RATE, start
from stf import Stf
from wire import DATA, NACK, PROBE, length, queue_units, record, tx_units, weir_frame

LINK, SOJOURN, CONGESTED, QUEUE = 0x01, 0x02, 0x04, 0x08
IDS = "00010002"                     # switch 1, port 2


def pushed(kind=DATA, tx=0, queue=0, older="", hops=0, ids=IDS, **frame):
    """What leaves when a record with ids is pushed: 12 bytes more, one hop more."""
    return weir_frame(kind=kind, records=ids + record(RATE, tx_units(tx), queue) + older, int_hops=hops + 1,
                      path_id=0x001, ttl=63, **ASKING, **frame)


def links_exact():
    stf = start(
        """LINK: switch and port in front of the record, 12 bytes; IPv4 total length and checksum, UDP length follow. tx_bytes
counts the packet without records. A packet that was on its way before keeps what it has gathered, and path_id."""
    )
    sent = 0
    for kind in (DATA, PROBE):
        stf.packet(1, weir_frame(kind=kind, int_format=LINK, **ASKING))
        stf.expect(2, pushed(kind=kind, tx=sent, int_format=LINK))
        sent += length(weir_frame())
        stf.register_is("tx_bytes", 2, sent)
    older = "00fe0007" + record(8, 1, 2, timestamp=3)
    stf.register("tx_bytes", 2, 0)
    stf.packet(1, weir_frame(kind=DATA, int_format=LINK, int_hops=1, records=older, path_id=0xABC, **ASKING))
    stf.expect(2, weir_frame(kind=DATA, int_format=LINK, int_hops=2, records=IDS + record(RATE, 0, 0) + older,
                             path_id=0xABD, ttl=63, **ASKING))
    stf.register_is("tx_bytes", 2, length(weir_frame()))
    stf.note("bits that mean nothing change nothing; without LINK there are no ids")
    for bits in (0x70, 0xF1):
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
        sent += length(weir_frame(**waiting))
    return stf


def queue(share, sent):
    """What stands between ids and record: 12 bits of share, 20 bits of units sent."""
    return f"{share << 20 | tx_units(sent):08x}"


def queues_exact():
    stf = start(
        """QUEUE: share of the port and bytes sent of the packet's own queue, 4 bytes between ids and record. The bytes are
those of the queue (8 * port + priority) before the packet, without records; 0 is the share of a queue without an entry."""
    )
    stf.line("add queue_share port:2 priority:3 set_share(share:0x400)")
    stf.line("add data_class dscp:5 set_priority(priority:3)")
    size = length(weir_frame(kind=DATA, **ASKING))
    both = LINK | QUEUE
    stf.note("DATA of DSCP 5 waits in queue 3; others in queue 0")
    total, own = 0, {0: 0, 3: 0}
    for dscp in (5, 0, 5, 0):
        of, share = (3, 0x400) if dscp else (0, 0)
        stf.packet(1, weir_frame(kind=DATA, dscp=dscp, int_format=both, **ASKING))
        stf.expect(2, weir_frame(kind=DATA, dscp=dscp, int_format=both, int_hops=1, path_id=0x001, ttl=63,
                                 records=IDS + queue(share, own[of]) + record(RATE, tx_units(total), 0), **ASKING))
        total += size
        own[of] += size
        for which in (0, 3):
            stf.register_is("queue_tx_bytes", 8 * 2 + which, own[which])
    stf.register_is("tx_bytes", 2, total)
    stf.note("without ids")
    stf.packet(1, weir_frame(kind=PROBE, dscp=5, int_format=QUEUE, **ASKING))
    stf.expect(2, weir_frame(kind=PROBE, dscp=5, int_format=QUEUE, int_hops=1, path_id=0x001, ttl=63,
                             records=queue(0x400, own[3]) + record(RATE, tx_units(total), 0), **ASKING))
    stf.note("feedback does not choose its queue by DSCP, and is counted in its own")
    stf.packet(1, weir_frame(kind=NACK, dscp=5))
    stf.expect(2, weir_frame(kind=NACK, dscp=5, path_id=1, ttl=63))
    stf.register_is("queue_tx_bytes", 8 * 2, own[0] + length(weir_frame(kind=NACK)))
    return stf


def condition():
    stf = start(
        """CONGESTED: a record only if at least as many bytes are queued behind the packet as int_threshold has for its port
(here: left in the register by a packet of priority 1). Packets without the bit get one anyway; without an entry all do."""
    )
    stf.classify(DATA, 1)
    stf.line("add int_threshold port:2 set_threshold(bytes:8000)")
    sent = 0
    for left, bits, told in ((7999, CONGESTED, False), (8000, CONGESTED, True), (7999, 0, True),
                             (7999, CONGESTED | LINK, False), (8080, CONGESTED | LINK, True)):
        stf.register("queue_bytes", 2, left)
        stf.packet(1, weir_frame(kind=DATA, int_format=bits, **ASKING))
        size = length(weir_frame(kind=DATA, **ASKING))
        if told:
            ids = IDS if bits & LINK else ""
            stf.expect(2, pushed(tx=sent, queue=queue_units(left), ids=ids, int_format=bits))
        else:
            stf.expect(2, weir_frame(kind=DATA, int_format=bits, path_id=1, ttl=63, **ASKING))
        sent += size
        stf.register_is("tx_bytes", 2, sent)
    stf.note("another port, without an entry")
    stf.via("h3", 3)
    stf.profile(3, RATE)
    stf.packet(1, weir_frame(kind=DATA, dst="h3", int_format=CONGESTED, **ASKING))
    stf.expect(3, weir_frame(kind=DATA, dst="h3", int_format=CONGESTED, int_hops=1, path_id=1, ttl=63,
                             records=record(RATE, 0, 0), **ASKING))
    return stf


def cases():
    return cases_hpcc.cases() + [
        ("link_push-exact", links_exact()),
        ("link_push-nameless", links_nameless()),
        ("link_push-full", links_full()),
        ("link_push-sojourn", sojourn()),
        ("queue_push-exact", queues_exact()),
        ("record_condition-exact", condition()),
    ]
