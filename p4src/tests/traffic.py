"""Random traffic for judge.py: tables with every kind of forwarding, and valid, almost valid and random packets.

The traffic is determined by the seed. Statements are STF; a frame is bytes.
"""

import random

import laws
import wire
from stf import Stf

PORTS = range(1, 9)
CPU = 255
# One port for each of BMv2's egress threads (port modulo 4), without other traffic; see judge.py.
BARRIER_PORTS = range(12, 16)
BARRIER_NET = 0xAC1FFF00            # 172.31.255.0
FLOWS = 64
# Ports of the flooding tree with the bursts of their meters. Rates are 0, so that the result does not depend on time; port 6
# has no meter.
TREE = {1: 2**30, 2: 10_000, 3: 100_000, 5: 0, 6: None}
PROBE_TYPE, ARP_TYPE, VLAN_TYPE, IPV6_TYPE = 0x88B5, 0x0806, 0x8100, 0x86DD
KINDS = 8
# Includes values around 5242800, where a record's qLen saturates.
QUEUES = [0, 1, 79, 80, 81, 1500, 5_242_799, 5_242_880, 2**32 - 1, 2**32 - 1500]


# Ports compute a rate for every packet (period 1) or never, independent of the clock. RATE packets may leave by any port.
ROCC = [laws.rocc_row(100_000_000, 500_000, period, inverse=0) for period in (1, 2**32 - 1)]
RCP = laws.rcp_row(10_000_000, 20_000, period=2**32 - 1)
# Programs that compute rates need time to pass, and send their copies after the original packets.
COMPUTES = ("rocc",)
DEFLECTS = ("dart", "weir")
HAS_ALL_INT_TABLE = ("fncc", "weir")


def laws_of(program):
    """Yields the entries of program-specific tables."""
    for port in PORTS:
        if program == "rocc":
            yield f"mirroring_add {port} {port}"
            if port != 8:
                yield laws.entry("rocc_port", "pi", port, ROCC[port % 2])
        elif program == "xpass" and port % 2:
            # Whether a credit passes depends only on the register credit_time, because the burst is very large.
            yield f"add credit_port port:{port} shape(interval:1, burst:{2**32 - 1})"
        elif program == "rcp" and port != 8:
            yield laws.entry("rcp_port", "rcp", port, RCP)
        elif program == "weir" and port != 8:
            yield f"add port_telemetry port:{port} tells(on_data:{port & 1}, on_acks:{port >> 1 & 1})"
    if program in DEFLECTS:
        # One candidate per port, so that there is no random choice; port 8 has none, and entries never expire.
        stf = Stf("")
        stf.lines.clear()
        for port in PORTS[:-1]:
            stf.line(f"add deflection port:{port} over(limit:{(100, 1400, 60_000)[port % 3]}, ports:1, ticks:{(0, 2**47)[port % 2]})")
            to, other = 1 + port % 8, 1 + (port + 3) % 8
            if port != 7:
                stf.line(f"add deflect_port port:{port} index:0 deflect_to(port:{to}, other:{other})")
        for tokens in range(14):
            stf.escape(tokens, escape=5, detour=6)
        yield from stf.lines


def tables(data_priority):
    """Returns entries for hosts, nested prefixes, groups with all, some and no members, trees, classes and profiles."""
    stf = Stf("")
    stf.lines.clear()
    for host, port in ((1, 1), (2, 2), (3, 3), (4, 9)):
        stf.route(0x0A000000 + host, f"deliver(port:{port}, dst_mac:0x0200000000{host:02x})")
    stf.via(0x0A000000, 4, bits=24)
    stf.via(0x0A040000, 5, bits=16)
    stf.via(0x0A040500, 6, bits=24)
    stf.route(0x0A010000, "spread(group:1, size:4, slice:0)", bits=16)
    stf.route(0x0A020000, "spread(group:2, size:3, slice:5)", bits=16)
    stf.route(0x0A050000, "spread(group:9, size:2, slice:8)", bits=16)
    stf.route(0x0A060000, "spread(group:3, size:0, slice:16)", bits=16)
    stf.route(0x0A030000, "trees(count:3)", bits=16)
    stf.member(1, [3, 4, 5, 6])
    stf.member(2, [6, 7])
    stf.member(3, [8])
    for tree in range(3):
        for host in range(1, 4):
            action = "tree_deliver(port:{0}, dst_mac:0x02000000ff{0:02x})" if host == 1 else "tree_via(port:{0})"
            stf.line(f"add tree_route tree:{tree} dst_addr:0x0a0300{host:02x} {action.format(1 + (3 * tree + host) % 8)}")
    for kind, priority in ((wire.DATA, data_priority), (wire.ACK, 7), (wire.NACK, 7), (wire.CNP, 6), (wire.PROBE, 1), (6, 3),
                           (wire.POLICY, 4)):
        stf.classify(kind, priority)
    stf.classify(wire.DATA, 2, express=1)
    for port in PORTS:
        # kmin = kmax: marking is a step, independent of random numbers.
        step = (0, 1, 1000, 100_000)[port % 4]
        stf.profile(port, port % 16, step, step, 2**32 - 1)
    stf.identify(0xA5C)
    stf.tree(TREE)
    for entry, burst in enumerate(TREE.values()):
        if burst is not None:
            stf.limit(entry, 0, burst)
    for port in BARRIER_PORTS:
        stf.via(BARRIER_NET + port, port)
    return stf.lines


def barrier(port, serial):
    """Returns a barrier frame as sent and as received. The serial number makes it unique."""
    body = serial.to_bytes(8, "big")
    frames = (wire.plain_frame(wire.ICMP, body, dst=BARRIER_NET + port, ttl=ttl) for ttl in (64, 63))
    return tuple(frame_bytes(frame) for frame in frames)


def frame_bytes(parts):
    return b"".join(bytes.fromhex(value) if isinstance(value, str) else value for _, value in parts)


class Traffic:
    """Packets for one program, with occasional changes of registers in between."""

    def __init__(self, program, seed):
        self.random = random.Random(f"{program} {seed}")
        self.program = program
        # In priority 0, queue_bytes is reset when the queue runs empty. In other priorities it keeps the value that a test
        # has set, and packets are marked accordingly.
        self.data_priority = self.random.choice([0, 2])
        # Addresses and entropy ports of the flows; few, so that packets of each flow repeat, in both directions.
        self.flows = [(self.address(), self.address(), self.random.randrange(49152, 65536))
                      for _ in range(8 if program in DEFLECTS else FLOWS)]

    def address(self):
        nets = [0x0A000000, 0x0A000000, 0x0A010000, 0x0A020000, 0x0A030000, 0x0A030000, 0x0A040500, 0x0A050000,
                0x0A060000, 0x0A040000, 0xC0A80000]
        return self.random.choice(nets) + self.random.randrange(1, 6)

    def tables(self):
        return [*tables(self.data_priority), *laws_of(self.program)]

    def steps(self, packets):
        """Yields (`packet`, port, frame) for each packet, and (`state`, statement) in between."""
        for number in range(packets):
            if number % (4 if self.program in DEFLECTS else 20) == 0:
                yield "state", self.register_write()
            if self.program in COMPUTES:
                yield "state", "time 1us"
            yield ("packet", *self.packet())

    def register_write(self):
        """Returns a statement that sets a random register. The time bits of the All_INT_Table are 0, because they are not compared."""
        registers = ["queue_bytes", "queue_bytes", "tx_bytes"] + ["all_int_table"] * (self.program in HAS_ALL_INT_TABLE)
        if self.program in ("rocc", "rcp"):
            # A time in the future would wrap to the distant past. rcp has no time to set, because its clock does not advance.
            registers += ["fair_rate", "rate_queue"] + ["rate_time"] * (self.program in COMPUTES)
        if self.program in DEFLECTS and self.random.random() < 0.02:
            return f"register_write dft_out {self.random.randrange(8)} 0"
        if self.program == "xpass":
            registers += ["credit_time", "credit_time"]
        name, port = self.random.choice(registers), self.random.choice(PORTS)
        if name == "all_int_table":
            value = self.random.getrandbits(36)
        elif name == "fair_rate":
            value = self.random.choice([0, 1, 100_000, 5_000_000, 99_999_999, 100_000_000, self.random.getrandbits(27)])
        elif name == "credit_time":
            value = self.random.choice([0, 2**62])
        elif name == "rate_time":
            value = self.random.randrange(3)
        else:
            value = self.random.choice([*QUEUES, self.random.getrandbits(32), self.random.getrandbits(20)])
        return f"register_write {name} {port} {value}"

    def packet(self):
        kinds = [(50, self.weir), (14, self.wrong_weir), (12, self.plain), (8, self.wrong_ip), (6, self.not_ip),
                 (5, self.packet_out), (5, self.noise)]
        make = self.random.choices([make for _, make in kinds], [weight for weight, _ in kinds])[0]
        port, frame = make()
        change = self.random.random()
        if change < 0.08:
            frame = frame[: self.random.randrange(1, len(frame) + 1)]
        elif change < 0.18:
            frame = self.flipped(frame)
        return port, frame

    def port(self):
        return self.random.choice([*PORTS, *PORTS, 0, 9, 300, 510])

    def flipped(self, frame):
        """Flips a few bits, mostly of the headers."""
        bits = bytearray(frame)
        for _ in range(self.random.choice([1, 1, 1, 2, 8])):
            at = self.random.randrange(min(len(bits), self.random.choice([14, 34, 42, 66, 1600])))
            bits[at] ^= 1 << self.random.randrange(8)
        return bytes(bits)

    # Kinds of packets. Each method returns the ingress port and the frame. -------------------------------------------

    def header(self):
        """Returns the header of a flow in one direction, with mostly valid fields."""
        rng = self.random
        src, dst, entropy = rng.choice(self.flows)
        ports = {"sport": entropy, "dport": wire.WEIR_PORT}
        if rng.random() < 0.5:
            src, dst, ports = dst, src, {"sport": wire.WEIR_PORT, "dport": entropy}
        hops = rng.choice([0, 0, 0, 1, 2, 3, 7, 8, 9, 15])
        header = dict(
            src=src, dst=dst, **ports,
            kind=rng.choice([wire.DATA, wire.DATA, wire.ACK, wire.ACK, rng.randrange(KINDS)]),
            flags=rng.choice([0, wire.TELEMETRY, wire.TELEMETRY, rng.getrandbits(8)]),
            int_format=rng.choice([0, 1, 1, 3, rng.getrandbits(8)]) if self.program == "hpcc_plus" else 0,
            int_hops=hops, records=rng.randbytes(8 * hops).hex(), path_id=rng.getrandbits(12),
            concurrency=rng.getrandbits(16), message=rng.choice([1, 2, rng.getrandbits(32)]), seq=rng.getrandbits(32),
            stamp=rng.getrandbits(32), grant=rng.getrandbits(32),
            ttl=rng.choice([64] * 12 + [0, 1, 2, 255]), ecn=rng.choice([0, 1, 2, 2, 3]),
            payload=rng.randbytes(rng.choice([0, 1, 4, 6, 22, 64, 300, 1000, 1400])),
            padding=rng.randbytes(rng.choice([0] * 9 + [1, 6, 40])),
        )
        if rng.random() < 0.08:
            header |= dict(kind=wire.POLICY, dst=wire.POLICY_IP, eth_dst="group")
        if self.program in DEFLECTS:
            # Few messages and token counts, so that START, later packets and END often belong to the same flow.
            flags = [wire.START, wire.START, 0, wire.END, wire.END, wire.START | wire.END, wire.RETRANSMIT | wire.START,
                     wire.RETRANSMIT | wire.END, wire.ESCAPE, rng.getrandbits(8)]
            header["kind"] = rng.choice([wire.DATA, wire.DATA, header["kind"]])
            header |= dict(message=rng.randrange(2), tokens=rng.choice([0, 1, 4, 4, 4, 15]), flags=rng.choice(flags))
        if self.program == "weir":
            header["flags"] |= rng.choice([0, wire.TELEMETRY])
        return header

    def weir(self):
        return self.port(), frame_bytes(wire.weir_frame(**self.header()))

    def wrong_weir(self):
        header, rng = self.header(), self.random
        mistake = rng.randrange(6)
        if mistake == 0:
            header["version"] = rng.randrange(16)
        elif mistake == 1:
            header["kind"] = rng.randrange(16)
        elif mistake == 2:
            header["int_hops"] = rng.randrange(16)
        elif mistake == 3:
            header["ip"] = {"flags": rng.randrange(8), "offset": rng.choice([0, 1, 185, 8191]), "ident": 77}
        elif mistake == 4:
            header["ip"] = {"total_len": rng.choice([0, 19, 20, 28, 51, 52, 60, 1500, 9000, 65535])}
        frame = bytearray(frame_bytes(wire.weir_frame(**header)))
        if mistake == 5:
            # Tokens and reserved bits, and the UDP length.
            frame[44:46] = rng.randbytes(2)
            frame[38:40] = rng.choice([b"\0\0", b"\0\x08", b"\xff\xff", rng.randbytes(2)])
        return self.port(), bytes(frame)

    def plain(self):
        """Returns an IPv4 packet without a Weir header."""
        rng = self.random
        src, dst, entropy = rng.choice(self.flows)
        protocol = rng.choice([wire.TCP, wire.UDP, wire.UDP, wire.ICMP, 50, rng.getrandbits(8)])
        ports = rng.choice([(entropy, 80), (53, entropy), (22340, 22342), (wire.WEIR_PORT, wire.WEIR_PORT)])
        body = ports[0].to_bytes(2, "big") + ports[1].to_bytes(2, "big") + rng.randbytes(rng.choice([0, 3, 4, 16, 36, 600]))
        ip = dict(ttl=rng.choice([64, 64, 64, 1, 2]), ecn=rng.getrandbits(8))
        if rng.random() < 0.2:
            ip |= dict(flags=rng.randrange(8), offset=rng.choice([0, 0, 2, 8191]), ident=rng.getrandbits(16))
        return self.port(), frame_bytes(wire.plain_frame(protocol, body, src=src, dst=dst, **ip))

    def wrong_ip(self):
        rng = self.random
        header = self.header()
        ip = rng.choice([
            {"version": rng.randrange(16)}, {"ihl": rng.randrange(5)}, {"checksum": rng.getrandbits(16)},
            {"checksum": 0}, {"checksum": 0xFFFF}, {"ihl": rng.randrange(6, 16)},
        ])
        frame = frame_bytes(wire.weir_frame(**header, ip=ip))
        if ip.get("ihl", 5) > 5:
            # Options between the header and UDP; length and checksum of the header include them in 70 % of the packets.
            options = rng.randbytes(4 * (ip["ihl"] - 5))
            head = bytearray(frame[14:34] + options)
            if rng.random() < 0.7:
                head[2:4] = (int.from_bytes(head[2:4], "big") + len(options)).to_bytes(2, "big")
                head[10:12] = b"\0\0"
                head[10:12] = wire.csum16(bytes(head)).to_bytes(2, "big")
            frame = frame[:14] + bytes(head) + frame[34:]
        return self.port(), frame

    def not_ip(self):
        rng = self.random
        ether_type = rng.choice([PROBE_TYPE, PROBE_TYPE, ARP_TYPE, VLAN_TYPE, IPV6_TYPE, rng.getrandbits(16)])
        return self.port(), frame_bytes(wire.ethernet(ether_type=ether_type)) + rng.randbytes(rng.choice([0, 1, 28, 46, 200]))

    def packet_out(self):
        """Returns a packet-out: 9 bits port, 7 bits 0, and any packet."""
        rng = self.random
        port = rng.choice([*PORTS, *PORTS, 0, 100, CPU, 511])
        _, frame = rng.choice([self.weir, self.plain, self.not_ip])()
        return CPU, (port << 7 | rng.choice([0, 0, 0, rng.getrandbits(7)])).to_bytes(2, "big") + frame

    def noise(self):
        return self.port(), self.random.randbytes(self.random.choice([1, 13, 14, 15, 33, 34, 42, 66, 100, 1514]))
