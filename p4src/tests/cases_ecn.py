"""What only ecn.p4 does: nothing but mark. No packet grows."""

from stf import Stf
from wire import CE, TELEMETRY, length, weir_frame


def records_never():
    stf = Stf(
        """Whatever asks for telemetry, of every kind, leaves as long as it came: no record, int_hops as before. Records
that are there stay. path_id still counts the switch.""",
        paced=True,
    )
    stf.via("h2", 2)
    stf.profile(2, 12)
    stf.identify(0x001)
    older = "7000001000020003"
    sent = 0
    for kind in range(7):
        for hops, records in ((0, ""), (1, older)):
            frame = dict(kind=kind, flags=TELEMETRY, int_hops=hops, records=records)
            stf.packet(1, weir_frame(**frame))
            stf.expect(2, weir_frame(path_id=1, ttl=63, **frame))
            sent += length(weir_frame(**frame))
    stf.register_is("tx_bytes", 2, sent)
    stf.counted("int_full", 0)
    return stf


def marks_data():
    stf = Stf("DATA and ACKs alike are marked if they are ECT: hosts send ACKs Not-ECT. The checksum follows.")
    stf.via("h2", 2)
    stf.classify(0, 1)
    stf.classify(1, 1)
    stf.profile(2, 12, 100, 100, 0)
    for kind in (0, 1):
        for ecn, after in ((0, 0), (1, CE), (2, CE), (CE, CE)):
            stf.register("queue_bytes", 2, 101)
            stf.packet(1, weir_frame(kind=kind, ecn=ecn))
            stf.expect(2, weir_frame(kind=kind, ecn=after, ttl=63))
    stf.counted("ecn_marked", 4)
    return stf


def cases():
    return [("records-never", records_never()), ("ecn-data", marks_data())]
