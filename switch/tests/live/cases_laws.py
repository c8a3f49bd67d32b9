"""Random and time-dependent decisions of the programs: marks, deflections, fair rates, credits, refreshed telemetry.

For time-dependent decisions, the registers of the switch tell when it computed a value. The equations of the papers
(p4src/tests/laws.py) give the expected result, and the times of frames tell whether a computation was due.
"""

import math
import random
import time

import laws
import wire
from bed import require
from cases_queues import octets

IN, OUT = 1, 2
MS, US, NS = 1_000_000, 1_000, 1_000_000_000
SEED = 7
BACK = dict(src="h2", dst="h1", sport=wire.WEIR_PORT, dport=4791)
# Bounds that a correct switch exceeds with a probability of one in a million.
SIGMAS, CHI_SQUARE_2 = 4.9, 27.6
# Maximum difference of the clocks of host and switch over some milliseconds.
CLOCK_NS = MS
WEIR_AT, MESSAGE_AT, GRANT_AT, RECORD_AT = 42, 50, 62, 66


def paths(side, hosts=(("h1", IN), ("h2", OUT)), priority=1):
    """Inserts routes, and gives data a priority in which it does not reset `queue_bytes`."""
    for host, port in hosts:
        side.p4runtime.insert("forward", {"dst_addr": (wire.IP[host], 32)}, "via", {"port": port})
    side.p4runtime.insert("traffic_class", {"kind": wire.DATA, "express": 0}, "classify", {"priority": priority})


def data(**more):
    return octets(wire.weir_frame(**more))


class Marks:
    """The share of marked packets at several queue lengths."""

    name, program, ports, loads = "ecn-ramp", "ecn", (IN, OUT), False
    KMIN, KMAX, HIGHEST = 1_000_000, 2_000_000, 0.8
    QUEUES = (1_000_000, 1_100_000, 1_300_000, 1_500_000, 1_900_000, 2_000_001)
    PACKETS, WINDOW = 1200, 20

    def run(self, side):
        slope = math.floor(self.HIGHEST * (2**32 - 1) / (self.KMAX - self.KMIN))
        paths(side)
        side.p4runtime.insert("port_profile", {"profile_port": OUT}, "profile",
                              dict(rate_code=0, ecn_kmin=self.KMIN, ecn_kmax=self.KMAX, ecn_slope=slope, fabric=0))
        marked, frame = [], data(ecn=2, payload=b"")
        for queue in self.QUEUES:
            # A departing packet also counts those that arrived after it, at most a thousandth of the ramp.
            side.thrift.set_register("queue_bytes", OUT, queue)
            frames = []
            for _ in range(self.PACKETS // self.WINDOW):
                side.send(IN, *[frame] * self.WINDOW)
                frames += side.wait(self.WINDOW)
            marked.append(sum(octets[15] & 3 == wire.CE for _, octets, _ in frames))
            require(side.thrift.register("queue_bytes", OUT) == queue, "the queue has not stayed as it was")
        return marked

    def compare(self, *results):
        rows = []
        for queue, *counts in zip(self.QUEUES, *results):
            share = 1 if queue > self.KMAX else self.HIGHEST * max(0, queue - self.KMIN) / (self.KMAX - self.KMIN)
            deviation = math.sqrt(self.PACKETS * share * (1 - share))
            if queue == self.KMIN:
                # Only packets with others behind them are marked.
                deviation = 1
            for marked in counts:
                require(abs(marked - self.PACKETS * share) <= SIGMAS * deviation + self.PACKETS / 1000 * (0 < share < 1),
                        f"{marked} of {self.PACKETS} marked at {queue} bytes, not {share:.0%}")
            require(abs(counts[0] - counts[1]) <= SIGMAS * math.sqrt(2) * deviation, f"{counts} marked at {queue} bytes")
            rows.append(f"{share:.0%}: {' and '.join(f'{marked / self.PACKETS:.1%}' for marked in counts)}")
        return f"{self.PACKETS} packets each; " + ", ".join(rows)


class Deflections:
    """Messages of three packets at a congested port with three candidates."""

    name, program, ports, loads = "deflection", "dart", (1, 2, 3, 4, 5), False
    CANDIDATES, MESSAGES, WINDOW = (3, 4, 5), 1500, 8
    FLAGS = (wire.START, 0, wire.END)

    def run(self, side):
        side.p4runtime.insert("forward", {"dst_addr": (wire.IP["h2"], 32)}, "via", {"port": OUT})
        side.p4runtime.insert("deflection", {"port": OUT}, "over", dict(limit=1000, ports=len(self.CANDIDATES), ticks=0))
        for index, port in enumerate(self.CANDIDATES):
            other = self.CANDIDATES[(index + 1) % len(self.CANDIDATES)]
            side.p4runtime.insert("deflect_port", {"port": OUT, "index": index}, "deflect_to", dict(port=port, other=other))
        for tokens in range(5):
            side.p4runtime.insert("escape_class", {"tokens": tokens}, "wait_in", dict(escape=1, detour=1))
        side.thrift.set_register("queue_bytes", OUT, 5000)
        taken = {}
        for first in range(0, self.MESSAGES, self.WINDOW):
            # At most as many messages at a time as the table has entries.
            messages = range(first, min(first + self.WINDOW, self.MESSAGES))
            side.send(IN, *(data(message=message, flags=flags, tokens=4, seq=flags, payload=b"")
                            for flags in self.FLAGS for message in messages))
            for port, frame, _ in side.wait(len(messages) * len(self.FLAGS)):
                taken.setdefault(int.from_bytes(frame[MESSAGE_AT : MESSAGE_AT + 4], "big"), []).append((port, frame))
        return taken

    def compare(self, *results):
        shares = []
        for taken in results:
            for message, frames in taken.items():
                ports = [port for port, _ in frames]
                require(len(ports) == len(self.FLAGS) and len(set(ports)) == 1, f"message {message} left by ports {ports}")
                order = [frame[WEIR_AT + 1] & ~wire.ESCAPE for _, frame in frames]
                require(order == [*self.FLAGS], f"message {message} left as {order}")
            shares.append([sum(frames[0][0] == port for frames in taken.values()) for port in self.CANDIDATES])
            fair = self.MESSAGES / len(self.CANDIDATES)
            off = sum((count - fair) ** 2 / fair for count in shares[-1])
            require(off < CHI_SQUARE_2, f"candidates {self.CANDIDATES} took {shares[-1]}")
        one, other = ({message: [frame for _, frame in frames] for message, frames in taken.items()} for taken in results)
        require(one == other, "frames differ in more than their ports")
        return (f"{self.MESSAGES} messages by ports {self.CANDIDATES}: {shares[0]} and {shares[1]}; all packets of a message by one"
                " port, in order, with equal bytes")


class Rate:
    """A fair rate that the first departure of each period computes. The test sets the queue and the old rate."""

    ports, loads = (IN, OUT), False
    STEPS = 60
    PAUSES_S = (0, 0, 0.003, 0.006, 0.05, 0.06, 0.075, 0.13)

    def run(self, side):
        paths(side)
        side.p4runtime.insert(self.table, {"port": OUT}, self.action, self.row)
        chance, steps, frame = random.Random(SEED), [], data()
        for number in range(self.STEPS):
            time.sleep(chance.choice(self.PAUSES_S))
            for name, value in self.state(chance, number, len(frame)).items():
                side.thrift.set_register(name, OUT, value)
            before = self.registers(side)
            sent = time.time_ns()
            side.send(IN, frame)
            (_, _, came), = side.wait(1)
            after = self.registers(side)
            side.send(OUT, data(kind=wire.ACK, grant=2**32 - 1, **BACK))
            (_, ack, _), = side.wait(1)
            granted = int.from_bytes(ack[GRANT_AT : GRANT_AT + 4], "big")
            require(granted == (after["fair_rate"] or 2**32 - 1), f"an ACK grants {granted} and not {after['fair_rate']}")
            steps.append((before, after, sent, came))
        return steps

    def registers(self, side):
        return {name: side.thrift.register(name, OUT) for name in self.REGISTERS}

    def compare(self, *results):
        computed = []
        for steps in results:
            computed.append({})
            last = None
            for number, (before, after, sent, came) in enumerate(steps):
                elapsed = (after["rate_time"] - before["rate_time"]) % 2**32
                if not elapsed:
                    require(after["fair_rate"] == before["fair_rate"], f"step {number}: another rate without a computation")
                    since = sent - last[1]
                    require(since < self.row["period"] * US + CLOCK_NS, f"step {number}: not computed after {since / MS:.1f} ms")
                    continue
                require(elapsed >= self.row["period"], f"step {number}: computed after {elapsed} us")
                if last:
                    least, most = sent - last[1] - CLOCK_NS, came - last[0] + CLOCK_NS
                    require(least <= elapsed * US <= most, f"step {number}: {elapsed} us, not {least // US} to {most // US}")
                last = sent, came
                want = self.law(before, elapsed)
                require(after["fair_rate"] == want, f"step {number}: {before} after {elapsed} us gives {after['fair_rate']}, not {want}")
                computed[-1][number] = after["fair_rate"]
        both = [(rate, computed[1][number]) for number, rate in computed[0].items() if number in computed[1]]
        equal = sum(a == b for a, b in both)
        apart = max(abs(a - b) / max(a, b, 1) for a, b in both)
        require(len(both) > self.STEPS / 3, f"only {len(both)} of {self.STEPS} departures computed a rate on both")
        return (f"{self.STEPS} departures; {len(computed[0])} and {len(computed[1])} compute, never within a period and always after"
                f" one, what the equation gives for the time that passed; {equal} of {len(both)} rates equal on both, the others up"
                f" to {apart:.2%} apart")


class Rocc(Rate):
    name, program, table, action = "rocc-rate", "rocc", "rocc_port", "pi"
    LINE, SENT, PERIOD = 100_000_000, 500_000, 30_000
    row = laws.rocc_row(LINE, SENT, PERIOD, 2**32 // PERIOD)
    REGISTERS = ("fair_rate", "rate_time", "rate_queue", "queue_bytes")

    def state(self, chance, number, _length):
        state = {"queue_bytes": chance.choice([0, 100_000, 250_000, 350_000, 600_000]), "rate_queue": chance.choice([0, 300_000])}
        if number % 3 == 0:
            state["fair_rate"] = chance.choice([0, 1_000_000, 20_000_000, 70_000_000])
        return state

    def law(self, before, elapsed):
        return laws.rocc_integers(self.row, before["fair_rate"], before["queue_bytes"], before["rate_queue"], elapsed)


class Rcp(Rate):
    name, program, table, action = "rcp-rate", "rcp", "rcp_port", "rcp"
    LINE, RTT = 10_000_000, 30_000
    row = laws.rcp_row(LINE, RTT, RTT)
    REGISTERS = ("fair_rate", "rate_time", "rate_queue", "queue_bytes", "rate_sent", "tx_bytes")

    def state(self, chance, number, length):
        self.length = length
        state = {"queue_bytes": chance.choice([0, 5_000, 40_000]), "rate_queue": chance.choice([0, 5_000])}
        if number % 3 == 0:
            state["fair_rate"] = chance.choice([0, 500_000, 5_000_000, 9_000_000])
        return state

    def law(self, before, elapsed):
        arrived = (before["tx_bytes"] + self.length - before["rate_sent"] + before["queue_bytes"] - before["rate_queue"]) % 2**32
        return laws.rcp_integers(self.row, before["fair_rate"], arrived if arrived < 2**31 else 0, before["queue_bytes"], elapsed)


class Credits:
    """Credits that arrive at four times the rate of the port."""

    name, program, ports, loads = "credits", "xpass", (IN, OUT), False
    INTERVAL_S, EARLY, CREDITS = 0.02, 3, 300

    def run(self, side):
        paths(side)
        interval = round(self.INTERVAL_S * 1_000_000) * 256
        side.p4runtime.insert("credit_port", {"port": IN}, "shape", dict(interval=interval, burst=self.EARLY * interval))
        sent, began = [], time.monotonic()
        for number in range(self.CREDITS):
            time.sleep(max(0, began + number * self.INTERVAL_S / 4 - time.monotonic()))
            sent.append(time.time_ns())
            side.send(OUT, data(kind=wire.PROBE_REPLY, payload=b"", seq=number, **BACK))
        side.send(OUT, octets(wire.plain_frame(wire.ICMP, b"12345678", src="h2", dst="h1")))
        passed, marker = [], None
        while marker is None:
            for _, frame, came in side.wait(1):
                if frame[23] == wire.UDP:
                    passed.append(int.from_bytes(frame[MESSAGE_AT + 4 : MESSAGE_AT + 8], "big"))
                else:
                    marker = came
        return sent, passed, marker

    def compare(self, *results):
        for sent, passed, marker in results:
            interval = self.INTERVAL_S * NS
            gaps = [b - a for a, b in zip(sent, sent[1:])]
            lost = sum(max(0, gap - (self.EARLY - 1) * interval) for gap in gaps)
            least = math.floor((sent[-1] - sent[0] - lost) / interval) + self.EARLY - 1
            most = math.floor((marker - sent[0] + CLOCK_NS) / interval) + self.EARLY + 1
            require(least <= len(passed) <= most, f"{len(passed)} of {self.CREDITS} credits passed, not {least} to {most}")
            require(passed == sorted(passed) and passed[: self.EARLY + 1] == [*range(self.EARLY + 1)], f"credits {passed} passed")
        return f"{len(results[0][1])} and {len(results[1][1])} of {self.CREDITS} credits pass in {self.CREDITS * self.INTERVAL_S / 4:.1f} s"


class Refresh:
    """The telemetry entry of a port, which the first departure of each period writes, and its copy in ACKs."""

    name, program, ports, loads = "refresh", "fncc", (IN, OUT), False
    STEPS, PERIOD_US, FRESH_US, RATE_CODE = 80, 40_000, 16_384, 9

    def run(self, side):
        paths(side)
        side.p4runtime.insert("port_profile", {"profile_port": OUT}, "profile",
                              dict(rate_code=self.RATE_CODE, ecn_kmin=0, ecn_kmax=0, ecn_slope=0, fabric=0))
        side.p4runtime.default("int_refresh", "refresh_every", {"ticks": self.PERIOD_US})
        chance, steps, frame = random.Random(SEED), [], data(payload=bytes(400))
        ack = data(kind=wire.ACK, flags=wire.TELEMETRY, payload=b"", **BACK)
        for number in range(self.STEPS):
            time.sleep(chance.choice([0, 0.002, 0.01, 0.025, 0.08]))
            sent = time.time_ns()
            side.send(IN, frame)
            (_, _, came), = side.wait(1)
            entry = side.thrift.register("all_int_table", OUT)
            time.sleep(chance.choice([0, 0, 0, 0, 0, 0, 0.1]))
            asked = time.time_ns()
            side.send(OUT, ack)
            (_, answer, told), = side.wait(1)
            steps.append((sent, came, entry, asked, told, int(answer[RECORD_AT : RECORD_AT + 8].hex(), 16), len(frame)))
        return steps

    def compare(self, *results):
        written = []
        for steps in results:
            entry, last, refreshes, kept = None, None, 0, 0
            for number, (sent, came, now, asked, told, record, length) in enumerate(steps):
                if now != entry:
                    if last:
                        elapsed = ((now >> 36) - (entry >> 36)) % 2**24
                        require(elapsed >= self.PERIOD_US, f"step {number}: written after {elapsed} us")
                        least, most = sent - last[1] - CLOCK_NS, came - last[0] + CLOCK_NS
                        require(least <= elapsed * US <= most, f"step {number}: {elapsed} us, not {least // US} to {most // US}")
                    tx = wire.tx_units((number + 1) * length)
                    require(now >> 16 & 0xFFFFF == tx and now & 0xFFFF == 0, f"step {number}: entry {now:016x}, txBytes not {tx:x}")
                    entry, last, refreshes = now, (sent, came), refreshes + 1
                elif last:
                    require(sent - last[1] < self.PERIOD_US * US + CLOCK_NS, f"step {number}: not written after a period")
                same = record == entry | self.RATE_CODE << 60
                fresh = (self.PERIOD_US + self.FRESH_US) * US
                if told - last[0] < fresh - CLOCK_NS:
                    kept += 1
                    require(same, f"step {number}: the ACK's record {record:016x} is not the entry {entry:016x}")
                elif asked - last[1] > fresh + CLOCK_NS:
                    require(not same, f"step {number}: the ACK's record is {(asked - last[1]) / MS:.0f} ms old")
            require(0 < kept < self.STEPS, f"{kept} of {self.STEPS} ACKs take the entry as it is")
            written.append((refreshes, kept))
        return (f"{self.STEPS} departures, {written[0][0]} and {written[1][0]} write the entry, never within a period and always after"
                f" one; {written[0][1]} and {written[1][1]} ACKs take it as it is, the others the present time")


CASES = [Marks(), Deflections(), Rocc(), Rcp(), Credits(), Refresh()]
