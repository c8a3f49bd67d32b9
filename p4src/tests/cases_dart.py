"""What only dart.p4 does: IOFD, short messages deflected in order.

The way of everything is port 2, the candidate is port 3. A test makes port 2 crowded by writing its queue_bytes; a
packet of priority 0 that leaves the port empty sets them to 0 again.
"""

import wire
from stf import Stf
from wire import ACK, DATA, END, ESCAPE, RETRANSMIT, START, length, weir_frame

LIMIT, ENTRIES = 15000, 8
WAY, OTHER = 2, 3


def start(title, to=(OTHER,), lifetime=0, tokens=range(16), **more):
    """`tokens`: how many packets may have to be deflected, all in priority 0."""
    stf = Stf(title, **{"paced": True, **more})
    stf.via("h2", WAY)
    for count in tokens:
        stf.escape(count)
    if to:
        stf.deflect(WAY, LIMIT, list(to), lifetime)
    return stf


def crowded(stf, queue=LIMIT + 1, port=WAY):
    stf.register("queue_bytes", port, queue)


def passes(stf, by, ingress=1, flags=0, tokens=4, left=None, sets=0, **more):
    """A packet that leaves `by` this port with `left` tokens and the flags `sets` added."""
    stf.packet(ingress, weir_frame(flags=flags, tokens=tokens, **more))
    stf.expect(by, weir_frame(flags=flags | sets, tokens=tokens if left is None else left, ttl=63, **more))


def deflected(stf, tokens=4, by=OTHER, **more):
    passes(stf, by, tokens=tokens, left=tokens - 1, sets=ESCAPE, **more)


def flow_of(src="h1", message=7):
    return wire.IP[src] << 32 | message


def entry_is(stf, index, tokens=0, port=0, message=None):
    stf.register_is("dft_out", index, tokens << 9 | port)
    if message is not None:
        stf.register_is("dft_flow", index, flow_of(message=message))


def message():
    stf = start(
        """A message whose START meets a crowded port takes another way, all its packets the same: a token less each, and
END frees the entry. The port is crowded for the START only. What is sent again after END takes the usual way."""
    )
    crowded(stf)
    deflected(stf, flags=START)
    entry_is(stf, 0, 4, OTHER, message=7)
    stf.note("The way is free again, but the message stays where it is.")
    stf.register("queue_bytes", WAY, 0)
    deflected(stf, seq=0x2000)
    stf.note("START again, as when its acknowledgement was lost: the same way, no second entry")
    crowded(stf)
    deflected(stf, flags=START | RETRANSMIT)
    entry_is(stf, 1)
    deflected(stf, flags=END, seq=0x3000)
    entry_is(stf, 0)
    stf.note("Sent again after END: the tables' way.")
    passes(stf, WAY, flags=RETRANSMIT, seq=0x2000)
    passes(stf, WAY, flags=END | RETRANSMIT, seq=0x3000)
    stf.counted("deflected", 4)
    stf.counted("dft_full", 0)
    stf.register_is("queue_bytes", OTHER, 0)
    stf.register_is("tx_bytes", OTHER, 4 * length(weir_frame()))
    return stf


def threshold():
    stf = start(
        """Up to the threshold nothing is deflected, above it is. A message of one packet leaves no entry. A port without an
entry in `deflection` is never crowded."""
    )
    stf.via("h3", 4)
    one = START | END
    for queue, over in ((0, False), (LIMIT, False), (LIMIT + 1, True), (2**32 - 2000, True)):
        stf.note(f"queue {queue}")
        crowded(stf, queue)
        (deflected if over else lambda stf, **packet: passes(stf, WAY, **packet))(stf, flags=one)
        entry_is(stf, 0)
    crowded(stf, port=4)
    passes(stf, 4, flags=one, dst="h3")
    stf.counted("deflected", 2)
    return stf


def tokens():
    stf = start(
        """A packet without tokens is never deflected. Each deflection takes one, and sets ESCAPE. A number of tokens without an
entry in `escape_class` is as good as none.""",
        tokens=(0, 1, 2, 4, 15),
    )
    for count in (3, 14):
        stf.note(f"{count} tokens, no entry")
        crowded(stf)
        passes(stf, WAY, flags=START | END, tokens=count)
        passes(stf, WAY, flags=START, tokens=count)
        entry_is(stf, 0)
    for count in (0, 1, 2, 4, 15):
        stf.note(f"{count} tokens")
        crowded(stf)
        if count == 0:
            passes(stf, WAY, flags=START | END, tokens=0)
        else:
            deflected(stf, tokens=count, flags=START | END)
    stf.counted("deflected", 4)
    return stf


def start_only():
    stf = start(
        """Only START makes an entry: a message is not parted in its middle, nor at its END. Nor does a START that is sent
again, since its END may have come through."""
    )
    for flags in (0, END, START | RETRANSMIT, START | END | RETRANSMIT):
        crowded(stf)
        passes(stf, WAY, flags=flags)
        entry_is(stf, 0)
    stf.counted("deflected", 0)
    return stf


def exact():
    stf = start(
        """A flow is a source and a message, both exact. Another message of the source, the message of another source, and
packets that are not DATA take the tables' way: an ACK's source and message may be another flow's."""
    )
    crowded(stf)
    deflected(stf, flags=START)
    stf.register("queue_bytes", WAY, 0)
    passes(stf, WAY, message=8)
    passes(stf, WAY, message=7 | 1 << 31)
    passes(stf, WAY, src="h3")
    for kind in range(1, 7):
        passes(stf, WAY, kind=kind)
        passes(stf, WAY, kind=kind, flags=START | END)
    crowded(stf)
    stf.note("other kinds start no flow either")
    passes(stf, WAY, kind=ACK, flags=START)
    deflected(stf)
    entry_is(stf, 0, 4, OTHER, message=7)
    entry_is(stf, 1)
    return stf


def full():
    stf = start(
        f"""There are {ENTRIES} entries, and none is overwritten: a START that finds no free one takes the tables' way, and so
does all its message. A message of one packet needs none. What END frees is used again."""
    )
    for number in range(ENTRIES):
        crowded(stf)
        deflected(stf, flags=START, message=number)
    stf.note("no entry is free")
    crowded(stf)
    passes(stf, WAY, flags=START, message=100)
    passes(stf, WAY, message=100)
    stf.counted("dft_full", 1)
    for number in range(ENTRIES):
        entry_is(stf, number, 4, OTHER, message=number)
    crowded(stf)
    deflected(stf, flags=START | END, message=101)
    stf.note("Each still finds its own; END of one makes room for one.")
    for number in reversed(range(ENTRIES)):
        deflected(stf, message=number)
    deflected(stf, flags=END, message=5)
    crowded(stf)
    deflected(stf, flags=START, message=102)
    entry_is(stf, 5, 4, OTHER, message=102)
    crowded(stf)
    passes(stf, WAY, flags=START, message=103)
    passes(stf, WAY, message=5)
    stf.counted("dft_full", 2)
    stf.counted("dft_reclaimed", 0)
    return stf


def visits():
    stf = start(
        """A message that passes twice has fewer tokens the second time, and only a packet's own visit counts. Here START is
deflected at its second visit: the others must not be at their first, nor END free on its first what they need on
their second."""
    )
    passes(stf, WAY, flags=START)
    crowded(stf)
    deflected(stf, flags=START | ESCAPE, tokens=3)
    entry_is(stf, 0, 3, OTHER, message=7)
    passes(stf, WAY, seq=0x2000)
    passes(stf, WAY, flags=END, seq=0x3000)
    entry_is(stf, 0, 3, OTHER)
    deflected(stf, flags=ESCAPE, tokens=3, seq=0x2000)
    stf.note("At a third visit there is one more entry.")
    crowded(stf)
    deflected(stf, flags=START | ESCAPE, tokens=1)
    entry_is(stf, 1, 1, OTHER, message=7)
    deflected(stf, flags=END | ESCAPE, tokens=3, seq=0x3000)
    entry_is(stf, 0)
    deflected(stf, flags=END | ESCAPE, tokens=1, seq=0x3000)
    entry_is(stf, 1)
    return stf


def not_back():
    stf = start(
        """Never to the port that the packet came by. Of two candidates the other is taken, whichever was drawn; of one there is
none left.""",
        to=(OTHER, 4),
    )
    stf.via("h3", 5)
    stf.deflect(5, LIMIT, [OTHER])
    for number in range(6):
        crowded(stf)
        deflected(stf, flags=START | END, ingress=OTHER, by=4, message=number)
        crowded(stf)
        deflected(stf, flags=START | END, ingress=4, by=OTHER, message=number)
    stf.note("the only candidate is where it came from: the tables' way, and no entry")
    crowded(stf, port=5)
    passes(stf, 5, ingress=OTHER, flags=START, dst="h3")
    entry_is(stf, 0)
    crowded(stf, port=5)
    deflected(stf, flags=START, dst="h3")
    return stf


def back():
    stf = start(
        """A packet with ESCAPE whose way on is the way it came was deflected to here. That way counts as crowded, whatever its
queue; if there is no other it goes back. A packet that was never deflected is dropped there, as in every program."""
    )
    stf.via("h3", 5)
    deflected(stf, flags=START | ESCAPE, ingress=WAY)
    entry_is(stf, 0, 4, OTHER, message=7)
    deflected(stf, flags=END | ESCAPE, ingress=WAY, seq=0x2000)
    stf.note("not the START, or no candidates, or no tokens left: back")
    passes(stf, WAY, ingress=WAY, flags=ESCAPE, message=8)
    passes(stf, 5, ingress=5, flags=START | ESCAPE, dst="h3")
    passes(stf, WAY, ingress=WAY, flags=START | ESCAPE, tokens=0)
    stf.dropped("same_port", 0)
    stf.note("without ESCAPE it never was deflected, tokens or not; other kinds never are")
    stf.packet(WAY, weir_frame(flags=START, tokens=0))
    stf.packet(WAY, weir_frame(flags=START, tokens=4))
    stf.packet(WAY, weir_frame(kind=ACK, flags=ESCAPE, tokens=4))
    stf.dropped("same_port", 3)
    return stf


def escape():
    stf = start(
        """A deflected packet waits in the priority `detour` of the tokens it came with, one that was deflected before in `escape` of
those it has. Seen here by the rule that only a packet of priority 0 resets queue_bytes. The flag stays.""",
        tokens=(),
    )
    stf.escape(2, escape=0, detour=5)
    stf.escape(1, escape=6, detour=0)
    stf.escape(0, escape=7, detour=0)

    def waits(port, resets, do, **packet):
        stf.register("queue_bytes", port, LIMIT + 1)
        do(stf, **packet)
        stf.register_is("queue_bytes", port, 0 if resets else LIMIT + 1)

    def onward(stf, **packet):
        passes(stf, WAY, **packet)

    stf.note("deflected for the first time, then not, then again, then no more")
    crowded(stf)
    waits(OTHER, False, deflected, flags=START | END, tokens=2)
    waits(WAY, False, onward, flags=ESCAPE, tokens=1)
    crowded(stf)
    waits(OTHER, True, deflected, flags=START | END | ESCAPE, tokens=1)
    waits(WAY, False, onward, flags=START | ESCAPE, tokens=0)
    entry_is(stf, 0)
    stf.note("without ESCAPE a packet waits in the class of its kind, whatever its tokens")
    waits(WAY, True, onward, tokens=1)
    waits(WAY, True, onward, flags=START, tokens=0)
    stf.note("ESCAPE on anything else than DATA means nothing")
    waits(WAY, True, onward, kind=ACK, flags=ESCAPE, tokens=0)
    stf.note("no entry for so many tokens")
    waits(WAY, True, onward, flags=START | ESCAPE, tokens=3)
    stf.counted("deflected", 2)
    return stf


def lifetime():
    stf = start(
        """An entry of which nothing came for longer than its lifetime, here four seconds, may be taken by another flow. One that was
used stays, and a flow whose entry is old but not taken still follows it.""",
        lifetime=4_000_000,
    )
    for number in range(ENTRIES):
        crowded(stf)
        deflected(stf, flags=START, message=number)
    crowded(stf)
    passes(stf, WAY, flags=START, message=100)
    stf.line("time 5s")
    stf.note("0 and 1 are used again, 2 is the first that is old")
    deflected(stf, message=0)
    deflected(stf, message=1)
    crowded(stf)
    deflected(stf, flags=START, message=101)
    entry_is(stf, 2, 4, OTHER, message=101)
    stf.counted("dft_reclaimed", 1)
    passes(stf, WAY, message=2)
    deflected(stf, message=3)
    return stf


def lifetime_off():
    stf = start("With a lifetime of 0 an entry stays until its END, however long that takes.")
    for number in range(ENTRIES):
        crowded(stf)
        deflected(stf, flags=START, message=number)
    stf.line("time 3s")
    crowded(stf)
    passes(stf, WAY, flags=START, message=100)
    for number in range(ENTRIES):
        entry_is(stf, number, 4, OTHER, message=number)
    stf.counted("dft_reclaimed", 0)
    return stf


def dropped():
    stf = start("What is dropped is not deflected and makes no entry: no route, an expired TTL.")
    crowded(stf)
    stf.packet(1, weir_frame(flags=START, tokens=4, ttl=1))
    stf.packet(1, weir_frame(flags=START, tokens=4, dst="far"))
    stf.dropped("ttl_expired", 1)
    stf.dropped("no_route", 1)
    entry_is(stf, 0)
    stf.counted("deflected", 0)
    return stf


def records_never():
    stf = Stf("As in ecn.p4 no packet grows, whatever asks for telemetry.", paced=True)
    stf.via("h2", WAY)
    passes(stf, WAY, kind=DATA, flags=wire.TELEMETRY, tokens=0)
    stf.register_is("tx_bytes", WAY, length(weir_frame()))
    stf.counted("int_full", 0)
    return stf


def cases():
    return [
        ("deflect-message", message()),
        ("deflect-threshold", threshold()),
        ("deflect-tokens", tokens()),
        ("deflect-start_only", start_only()),
        ("deflect-exact", exact()),
        ("deflect-full", full()),
        ("deflect-visits", visits()),
        ("deflect-not_back", not_back()),
        ("deflect-back", back()),
        ("deflect-escape", escape()),
        ("deflect-lifetime", lifetime()),
        ("deflect-lifetime_off", lifetime_off()),
        ("deflect-dropped", dropped()),
        ("records-never", records_never()),
    ]
