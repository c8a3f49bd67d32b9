"""What only weir.p4 does: a packet's host chooses what its switches do, and each port what it tells.

What hpcc.p4, fncc.p4 and dart.p4 do for the same packets it does too: their tests are its tests, but for those of what they
do not do.
"""

import cases_dart
import cases_fncc
import cases_hpcc
from cases_fncc import RATE_BACK, RATE_OUT, ack, answered, start
from cases_hpcc import pushed
from wire import ACK, DATA, ESCAPE, NACK, PROBE, START, TELEMETRY, record, weir_frame

# Tests of what a program leaves alone, and this one does not.
NOT_HERE = {
    "int_push-who": "hpcc.p4 gives ACKs none",
    "all_int_table-who": "fncc.p4 gives data none",
    "records-never": "dart.p4 gives nothing any",
}


def who():
    stf = start("DATA and PROBE with TELEMETRY get a record of the port they leave by, ACKs and NACKs with it of the port they came in by.")
    for kind in range(7):
        stf.note(f"kind {kind} without TELEMETRY: no record")
        stf.packet(1, weir_frame(kind=kind, flags=0xBB & ~ESCAPE))
        stf.expect(2, weir_frame(kind=kind, flags=0xBB & ~ESCAPE, path_id=1, ttl=63))
    for kind in (3, 5, 6):
        stf.note(f"kind {kind} with it: no record")
        stf.packet(1, weir_frame(kind=kind, flags=TELEMETRY))
        stf.expect(2, weir_frame(kind=kind, flags=TELEMETRY, path_id=1, ttl=63))
    for kind in (DATA, PROBE):
        stf.register("tx_bytes", 2, 0)
        stf.packet(1, weir_frame(kind=kind, flags=TELEMETRY))
        stf.expect(2, pushed(kind=kind))
    stf.register("tx_bytes", 2, 0)
    stf.register("all_int_table", 2, 0)
    for kind in (ACK, NACK):
        stf.packet(2, ack(kind=kind))
        stf.expect(1, answered(kind=kind))
    stf.note("an ACK of HPCC: its records are those of its data, copied by the receiver")
    copied = record(RATE_OUT, 77, 99, timestamp=5)
    stf.packet(2, ack(flags=0, int_hops=1, records=copied))
    stf.expect(1, weir_frame(**cases_fncc.BACK | dict(kind=ACK, flags=0, int_hops=1, records=copied, path_id=1, ttl=63)))
    return stf


def ports():
    stf = start(
        """What a port tells is an entry of `port_telemetry`: on data that leaves by it, on ACKs that come in by it. A port without
an entry does what the default action says, which is both unless it is set."""
    )
    told = {3: (1, 1), 4: (0, 1), 5: (1, 0), 6: (0, 0)}
    for port, (on_data, on_acks) in told.items():
        stf.via(0x0A000100 + port, port)
        stf.profile(port, RATE_OUT)
        stf.line(f"add port_telemetry port:{port} tells(on_data:{on_data}, on_acks:{on_acks})")
    stf.via(0x0A000107, 7)
    stf.profile(7, RATE_OUT)
    for default, others in (((1, 1), {7: (1, 1)}), ((0, 0), {7: (0, 0)})):
        stf.line("setdefault port_telemetry tells(on_data:{}, on_acks:{})".format(*default))
        for port, (on_data, on_acks) in (told | others).items():
            stf.note(f"port {port}, data: {on_data}, ACKs: {on_acks}")
            data = dict(kind=DATA, flags=TELEMETRY, dst=0x0A000100 + port)
            for register in ("tx_bytes", "all_int_table"):
                stf.line(f"register_reset {register}")
            stf.packet(2, weir_frame(**data))
            told_of_it = dict(records=record(RATE_OUT, 0, 0), int_hops=1) if on_data else {}
            stf.expect(port, weir_frame(**data, **told_of_it, path_id=1, ttl=63))
            for register in ("tx_bytes", "all_int_table"):
                stf.line(f"register_reset {register}")
            stf.packet(port, ack())
            stf.expect(1, answered() if on_acks else ack(path_id=1, ttl=63))
    return stf


def deflected():
    stf = start("A message that is deflected and asks for telemetry: its records are of the port that it was deflected to.")
    stf.profile(3, RATE_BACK)
    stf.deflect(2, cases_dart.LIMIT, [3])
    stf.escape(4)
    message = dict(kind=DATA, flags=TELEMETRY | START, tokens=4)
    stf.register("queue_bytes", 2, cases_dart.LIMIT + 1)
    stf.packet(1, weir_frame(**message))
    message |= dict(flags=TELEMETRY | START | ESCAPE, tokens=3)
    left = weir_frame(**message, records=record(RATE_BACK, 0, 0), int_hops=1, path_id=1, ttl=63)
    stf.expect(3, left)
    stf.note("The port that it did not take is as crowded as it was: an ACK that comes in there says so.")
    stf.packet(2, ack())
    stf.expect(1, answered(queue=cases_dart.LIMIT + 1))
    stf.counted("deflected", 1)
    return stf


def cases():
    theirs = [*cases_hpcc.cases(), *cases_fncc.cases(), *cases_dart.cases()]
    return [
        *((name, stf) for name, stf in theirs if name not in NOT_HERE),
        ("port_telemetry-who", who()),
        ("port_telemetry-ports", ports()),
        ("port_telemetry-deflected", deflected()),
    ]
