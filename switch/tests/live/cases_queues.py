"""Queues with more than one packet: queueing metadata, priorities, tail drops and rates; and meters that refill."""

import math
import random
import time

import probe
import wire
from bed import require

NS, US = 1_000_000_000, 1_000_000
IN, OUT = 1, 2
SEED = 5
# A rate in packets/s at which a queue builds up: a burst has arrived long before the next packet leaves.
HELD = 4
# Tolerance of departure times: half the interval between two packets.
LATE_S = 0.5 / HELD


def routes(side, priorities=range(8), ports=(OUT,)):
    """Inserts routes for the destinations 10 * port + priority."""
    for port in ports:
        for priority in priorities:
            side.p4runtime.insert("routes", {"hdr.ethernet.dst": 10 * port + priority}, "straight", {"port": port, "priority": priority})


def to(priority, serial=0, port=OUT, **more):
    return probe.frame(10 * port + priority, serial=serial, **more)


def hold(side, frames, rate=HELD):
    """Sends one frame of each priority, and when they have left, `frames`: (priority, serial). Returns when these are in the
    queue."""
    priorities = sorted({priority for priority, _ in frames})
    for priority in priorities:
        side.thrift.rate(OUT, rate, priority)
    # BMv2 also delays the first packet of a new queue.
    time.sleep(1.5 / rate)
    side.send(IN, *(to(priority) for priority in priorities))
    side.wait(len(priorities))
    side.send(IN, *(to(priority, serial) for priority, serial in frames), to(0, port=IN))
    marker, = side.wait(1)
    require(marker[0] == IN, f"a packet has left early by port {marker[0]}, or the machine is too slow for this test")


def probes(frames):
    return [probe.parse(octets) for _, octets, _ in frames]


class Live:
    ports, program, loads = (IN, OUT), "live", False


class Depths(Live):
    """The queueing metadata of packets that wait in two priorities."""

    name = "queue-depths"
    FRAMES = [(priority, serial) for serial in range(1, 6) for priority in (0, 3)]

    def run(self, side):
        routes(side, ports=(IN, OUT))
        hold(side, self.FRAMES)
        return side.wait(len(self.FRAMES))

    def compare(self, *results):
        rows = []
        for frames in map(probes, results):
            rows.append(sorted((it.serial, it.enq_qdepth, it.deq_qdepth) for it in frames))
            for it in frames:
                late = it.waited / US - it.serial / HELD
                require(-LATE_S < late < LATE_S, f"packet {it.serial} waited {it.waited / US:.3f} s at {HELD} packets/s")
        require(rows[0] == rows[1], f"(serial, enq_qdepth, deq_qdepth) {rows[0]}\n  is not\n{rows[1]}")
        want = sorted((n, n - 1, 5 - n) for n in range(1, 6) for _ in range(2))
        require(rows[0] == want, f"{rows[0]} is not {want}")
        apart = max(abs(a.waited - b.waited) for a, b in zip(*(sorted(probes(it), key=lambda p: (p.serial, p.left)) for it in results)))
        return f"enq_qdepth and deq_qdepth of {len(rows[0])} packets equal; deq_timedelta up to {apart / 1000:.1f} ms apart"


class Priorities(Live):
    """A queue without a rate while two others wait for theirs. Then the order of packets of eight priorities that are all due,
    because the process was stopped meanwhile."""

    name = "priorities"
    ROUNDS = 3

    def run(self, side):
        routes(side, ports=(IN, OUT))
        hold(side, [(0, 1), (3, 2)])
        side.send(IN, to(7, 3))
        first = probes(side.wait(3))[0]
        chance, orders = random.Random(SEED), []
        for _ in range(self.ROUNDS):
            frames = [(priority, priority) for priority in range(8)]
            chance.shuffle(frames)
            hold(side, frames)
            side.stop()
            time.sleep(2 / HELD)
            side.resume()
            orders.append([it.serial for it in probes(side.wait(len(frames)))])
        return first, orders

    def compare(self, *results):
        for first, orders in results:
            require(first.serial == 3 and first.waited / US < LATE_S, f"a packet waits for the rate of another queue: {first}")
            require(orders == [[7, 6, 5, 4, 3, 2, 1, 0]] * self.ROUNDS, f"packets left in the order of priorities {orders}")
        waits = " and ".join(f"{first.waited / 1000:.2f}" for first, _ in results)
        return f"a packet passes two queues that are held within {waits} ms; {self.ROUNDS} times eight packets in strict order"


class TailDrops(Live):
    """The packets of a burst that survive short queues."""

    name = "tail-drops"
    DEPTHS = {0: 5, 1: 1, 2: 3}
    BURST = 8

    def run(self, side):
        routes(side, ports=(IN, OUT))
        for priority, depth in self.DEPTHS.items():
            side.thrift.depth(OUT, depth, priority)
        hold(side, [(priority, 100 * priority + n) for n in range(1, self.BURST + 1) for priority in self.DEPTHS])
        frames = side.wait(sum(self.DEPTHS.values()))
        # The port's counter shows that no other packet has left.
        for priority in self.DEPTHS:
            side.thrift.rate(OUT, 0, priority)
        side.send(IN, to(0))
        frames += side.wait(1)
        return [it.serial for it in probes(frames)], side.p4runtime.counter("ports", OUT)

    def compare(self, *results):
        for serials, (packets, _) in results:
            for priority, depth in self.DEPTHS.items():
                got = [it for it in serials if it // 100 == priority and it]
                want = [100 * priority + n for n in range(1, depth + 1)]
                require(got == want, f"of priority {priority}, {got} survive and not {want}")
            require(packets == sum(self.DEPTHS.values()) + len(self.DEPTHS) + 1, f"{packets} packets left")
        return f"of {self.BURST * len(self.DEPTHS)} packets the same {sum(self.DEPTHS.values())} survive queues of {[*self.DEPTHS.values()]}"


class Rates(Live):
    """The rates of several queues at a time, and of one after a change."""

    name = "rates"
    RATES = {0: 40, 1: 80, 2: 160}
    THEN = 30
    MARGIN_S = 0.1

    def run(self, side):
        routes(side, ports=(IN, OUT))
        side.thrift.depth(OUT, 500)
        return [self.burst(side, self.RATES), self.burst(side, {0: self.THEN})]

    def burst(self, side, rates):
        """Sends packets for one second at each rate. Returns the time from the first to the last departure, by rate."""
        for priority, rate in rates.items():
            side.thrift.rate(OUT, rate, priority)
        frames = [(priority, 1 + n) for priority, rate in rates.items() for n in range(rate + 1)]
        side.send(IN, *(to(*it) for it in frames))
        came = side.wait(len(frames))
        took = {}
        for priority in rates:
            stamps = [(probe.parse(octets).serial, stamp) for _, octets, stamp in came if octets[5] == 10 * OUT + priority]
            require(stamps == sorted(stamps), f"packets of priority {priority} are not in order")
            took[rates[priority]] = (stamps[-1][1] - stamps[0][1]) / NS
        return took

    def compare(self, *results):
        for took in (took for result in results for took in result):
            for rate, seconds in took.items():
                require(abs(seconds - 1) < self.MARGIN_S, f"{rate} packets after the first took {seconds:.3f} s at {rate} a second")
        rates = [f"{rate}/s: {rate / one[rate]:.2f} and {rate / other[rate]:.2f}" for one, other in zip(*results) for rate in one]
        return ", ".join(rates)


class Meters(Live):
    """Packet and byte meters, set by either protocol, which are exhausted by bursts and refill in between."""

    name = "meters"
    SIZE, CIR, CBURST, PIR, PBURST = 500, 20, 4, 40, 9
    PAUSES_S = (0.13, 0.09, 0.17, 0.4, 0.12, 0.08)
    BURST = 14
    # Maximum time between a packet's timestamp and its meter.
    LATE_S = 0.03
    METERS = [(1, "packet_meter", "p4runtime", 1), (2, "packet_meter", "thrift", 1), (3, "byte_meter", "p4runtime", SIZE),
              (4, "byte_meter", "thrift", SIZE)]

    def run(self, side):
        side.p4runtime.insert("routes", {"hdr.ethernet.dst": 1}, "forward", {"port": OUT})
        for kind, meter, protocol, unit in self.METERS:
            action = "by_bytes" if meter == "byte_meter" else "by_packets"
            cell = kind % 4
            side.p4runtime.insert("metering", {"hdr.probe.class": kind}, action, {"cell": cell})
            rates = [unit * it for it in (self.CIR, self.CBURST, self.PIR, self.PBURST)]
            require(getattr(side, protocol).meter(meter, cell, *rates) == "ok", f"{protocol} refuses the rates of {meter}")
        rounds = []
        for pause in (0, *self.PAUSES_S):
            time.sleep(pause)
            for kind, *_ in self.METERS:
                side.send(IN, *(probe.frame(1, kind=kind, size=self.SIZE) for _ in range(self.BURST)))
            rounds.append(probes(side.wait(self.BURST * len(self.METERS))))
        return rounds

    def counts(self, rounds, kind):
        """Yields per round: green packets, packets that are not red, seconds since the last round, duration of the round."""
        last = None
        for frames in rounds:
            came = [it.came / US for it in frames if it.kind == kind]
            colours = [it.colour for it in frames if it.kind == kind]
            yield colours.count(0), self.BURST - colours.count(2), last and came[-1] - last, came[-1] - came[0]
            last = came[-1]

    def compare(self, *results):
        shown = []
        for kind, meter, protocol, _ in self.METERS:
            totals = []
            for rounds in results:
                rows = list(self.counts(rounds, kind))
                totals.append((sum(row[0] for row in rows), sum(row[1] for row in rows)))
                for number, (green, passed, since, took) in enumerate(rows):
                    for what, count, rate, burst in (("green", green, self.CIR, self.CBURST), ("not red", passed, self.PIR, self.PBURST)):
                        if since is None:
                            least, most = burst, burst + 1 + math.floor(rate * (took + self.LATE_S))
                        else:
                            # Tokens are integers; the time of the next increment is not known.
                            least = min(burst, math.floor(rate * (since - self.LATE_S)))
                            most = min(burst + math.floor(rate * (took + self.LATE_S)), math.floor(rate * (since + self.LATE_S))) + 1
                        require(least <= count <= min(most, self.BURST),
                                f"{meter} by {protocol}, round {number}: {count} {what}, not {least} to {most}")
            shown.append(f"{meter} by {protocol}: {' and '.join(f'{green} green, {passed - green} yellow' for green, passed in totals)}")
        return f"of {self.BURST * (1 + len(self.PAUSES_S))} packets each, " + "; ".join(shown)


class Records(Live):
    """The INT records of packets that waited, as hpcc.p4 writes them."""

    name, program = "int-records", "hpcc"
    SIZES = (0, 100, 1000, 4, 700, 300)

    def run(self, side):
        side.p4runtime.insert("forward", {"dst_addr": (wire.IP["h2"], 32)}, "via", {"port": OUT})
        side.p4runtime.insert("forward", {"dst_addr": (wire.IP["h1"], 32)}, "via", {"port": 3})
        side.p4runtime.insert("port_profile", {"profile_port": OUT}, "profile",
                              dict(rate_code=12, ecn_kmin=0, ecn_kmax=0, ecn_slope=0, fabric=0))
        side.thrift.rate(OUT, HELD, 0)
        time.sleep(1.5 / HELD)
        side.send(IN, self.frame(0))
        side.wait(1)
        side.send(IN, *map(self.frame, self.SIZES), octets(wire.plain_frame(wire.ICMP, b"12345678", dst="h1")))
        marker, = side.wait(1)
        require(marker[0] == 3, "a packet has left early, or the machine is too slow for this test")
        return [frame for _, frame, _ in side.wait(len(self.SIZES))]

    ports = (IN, OUT, 3)

    def frame(self, size):
        return octets(wire.weir_frame(flags=wire.TELEMETRY, payload=bytes(size)))

    def compare(self, *results):
        lengths = [len(self.frame(size)) for size in self.SIZES]
        sent, records = len(self.frame(0)), []
        for n, length in enumerate(lengths):
            records.append(wire.record(12, wire.tx_units(sent), wire.queue_units(sum(lengths[n + 1 :]))))
            sent += length
        for frames in results:
            stamps = []
            for n, frame in enumerate(frames):
                got = frame[66:74].hex()
                require(all(a in ("*", b) for a, b in zip(records[n], got)), f"record {n} is {got}, not {records[n]}")
                stamps.append(int(got[1:7], 16))
            for n, stamp in enumerate(stamps):
                late = (stamp - stamps[0]) % 2**24 / US - n / HELD
                require(abs(late) < LATE_S, f"record {n} is {late:.3f} s late")
        one, other = ([frame[:66] + frame[74:] for frame in frames] for frames in results)
        require(one == other, "frames differ in more than the time of their records")
        return f"{len(one)} frames equal but for the time in their records: txBytes and qLen up to {sum(lengths[1:])} bytes"


def octets(parts):
    return b"".join(bytes.fromhex(value) if isinstance(value, str) else value for _, value in parts)


CASES = [Depths(), Priorities(), TailDrops(), Rates(), Meters(), Records()]
