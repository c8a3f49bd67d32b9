"""Parser, admission, forwarding, path hash, classes, packet-in/out: the same in every program.

Weir packets here are NACKs or DATA without TELEMETRY: no program writes a record into those.
"""

import struct

from stf import Stf
from wire import (ACK, CE, DATA, ICMP, IP, NACK, TCP, UDP, WEIR_PORT, ethernet, ipv4, member_index, path_hash,
                  plain_frame, udp, weir, weir_frame)


def entropy_ports(choose, choices, each=2):
    """Entropy ports such that `choose` gives every one of `choices` ways, `each` times: [(port, way)]."""
    found = {way: [] for way in range(choices)}
    for port in range(49152, 65536):
        ports = found[choose(path_hash(IP["h1"], IP["h2"], UDP, port, WEIR_PORT))]
        if len(ports) < each:
            ports.append(port)
    return sorted((port, way) for way, ports in found.items() for port in ports)


def forwarding_ttl():
    stf = Stf("TTL 0 and 1 may not be forwarded: dropped as ttl_expired. 2 leaves as 1, with the right checksum.")
    stf.via("h2", 2)
    for ttl in (0, 1):
        stf.note(f"TTL {ttl}")
        stf.packet(1, weir_frame(kind=NACK, ttl=ttl))
    for ttl in (2, 255):
        stf.note(f"TTL {ttl} -> {ttl - 1}")
        stf.packet(1, weir_frame(kind=NACK, ttl=ttl))
        stf.expect(2, weir_frame(kind=NACK, ttl=ttl - 1))
    stf.dropped("ttl_expired", 2)
    return stf


def forwarding_miss():
    stf = Stf("No entry for the destination: dropped as no_route, not sent to port 0.")
    stf.via("h2", 2)
    stf.packet(1, weir_frame(kind=NACK, dst="h3"))
    stf.note("Broadcast and multicast addresses have no route either.")
    stf.packet(1, weir_frame(kind=NACK, dst=0xFFFFFFFF))
    stf.packet(1, weir_frame(kind=NACK, dst=0xE0000001))
    stf.dropped("no_route", 3)
    return stf


def forwarding_deliver():
    stf = Stf("The longest prefix wins; the last hop writes the host's MAC; a prefix with one next hop does not.")
    stf.deliver("h2", 2, "h2")
    stf.via(0x0A000000, 3, bits=24)
    stf.via(0x0A000000, 4, bits=8)
    stf.note("10.0.0.2/32: delivered")
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, eth_dst="h2", ttl=63))
    stf.note("10.0.0.3: by 10.0.0.0/24")
    stf.packet(1, weir_frame(kind=NACK, dst="h3"))
    stf.expect(3, weir_frame(kind=NACK, dst="h3", ttl=63))
    stf.note("10.1.0.5: by 10.0.0.0/8")
    stf.packet(1, weir_frame(kind=NACK, dst="far"))
    stf.expect(4, weir_frame(kind=NACK, dst="far", ttl=63))
    return stf


def forwarding_same_port():
    stf = Stf("A packet is not sent back by the port it came from: same_port. From another port it is forwarded.")
    stf.via("h2", 2)
    stf.packet(2, weir_frame(kind=NACK))
    stf.packet(1, weir_frame(kind=NACK))
    stf.expect(2, weir_frame(kind=NACK, ttl=63))
    stf.note("Port 0 too, also when there is no route: the first reason stands.")
    stf.packet(0, weir_frame(kind=NACK, dst="h3"))
    stf.dropped("same_port", 1)
    stf.dropped("no_route", 1)
    return stf


GROUP_TO_H2, GROUP_TO_H1, SIZE = 5, 6, 4


def forwarding_symmetric(slice_=8):
    stf = Stf(
        """Both directions of a flow take the same member of symmetric groups, for every slice.
Group 5 (towards h2) has ports 10..13, group 6 (towards h1) has ports 20..23: the ACK of what left by
1x must leave by 2x, with the same x."""
    )
    stf.member(GROUP_TO_H2, range(10, 10 + SIZE))
    stf.member(GROUP_TO_H1, range(20, 20 + SIZE))
    stf.route("h2", f"spread(group:{GROUP_TO_H2}, size:{SIZE}, slice:{slice_})")
    stf.route("h1", f"spread(group:{GROUP_TO_H1}, size:{SIZE}, slice:{slice_})")
    for entropy, index in entropy_ports(lambda word: member_index(word, slice_, SIZE), SIZE):
        data = dict(kind=DATA, sport=entropy)
        back = dict(kind=NACK, src="h2", dst="h1", sport=WEIR_PORT, dport=entropy, eth_src="h2")
        stf.note(f"entropy port {entropy}: member {index}")
        stf.packet(1, weir_frame(**data))
        stf.expect(10 + index, weir_frame(**data, ttl=63))
        stf.packet(2, weir_frame(**back))
        stf.expect(20 + index, weir_frame(**back, ttl=63))
    return stf


def forwarding_slices(slices=(0, 8, 16)):
    stf = Stf(
        f"""Each tier chooses by its own slice of the hash: one flow, groups of eight, slices {', '.join(map(str, slices))}.
A group without the member that was chosen: no_member."""
    )
    for group, slice_ in enumerate(slices, start=1):
        dst = 0x0A020000 + group
        stf.member(group, range(10 * group, 10 * group + 8))
        stf.route(dst, f"spread(group:{group}, size:8, slice:{slice_})")
        index = member_index(path_hash(IP["h1"], dst, UDP, 4791, WEIR_PORT), slice_, 8)
        stf.note(f"slice {slice_}: member {index}")
        stf.packet(1, weir_frame(kind=NACK, dst=dst))
        stf.expect(10 * group + index, weir_frame(kind=NACK, dst=dst, ttl=63))
    stf.note("Group 9 has no members.")
    stf.route("h3", "spread(group:9, size:2, slice:0)")
    stf.packet(1, weir_frame(kind=NACK, dst="h3"))
    stf.dropped("no_member", 1)
    return stf


def forwarding_trees(count=3):
    stf = Stf(
        """Spanning trees: the tree is the path hash modulo the number of trees, in both directions.
Tree t leaves for h2 by port 10 + t and for h1 by port 20 + t; tree 1 delivers to h2."""
    )
    stf.route("h2", f"trees(count:{count})")
    stf.route("h1", f"trees(count:{count})")
    stf.route("h3", f"trees(count:{count})")
    for tree in range(count):
        way = f"tree_deliver(port:{10 + tree}, dst_mac:0x020000000002)" if tree == 1 else f"tree_via(port:{10 + tree})"
        stf.line(f"add tree_route tree:{tree} dst_addr:0x{IP['h2']:08x} {way}")
        stf.line(f"add tree_route tree:{tree} dst_addr:0x{IP['h1']:08x} tree_via(port:{20 + tree})")
    for entropy, tree in entropy_ports(lambda word: word % count, count):
        data = dict(kind=DATA, sport=entropy)
        back = dict(kind=NACK, src="h2", dst="h1", sport=WEIR_PORT, dport=entropy, eth_src="h2")
        stf.note(f"entropy port {entropy}: tree {tree}")
        stf.packet(1, weir_frame(**data))
        stf.expect(10 + tree, weir_frame(**data, ttl=63, eth_dst="h2" if tree == 1 else "s"))
        stf.packet(2, weir_frame(**back))
        stf.expect(20 + tree, weir_frame(**back, ttl=63))
    stf.note("No tree leads to h3: no_route.")
    stf.packet(1, weir_frame(kind=NACK, dst="h3"))
    stf.dropped("no_route", 1)
    return stf


def path_hash_protocols():
    stf = Stf(
        """TCP and other UDP are hashed by their ports, ICMP and fragments by addresses and protocol; each packet
is forwarded unchanged but for TTL and checksum, and its answer takes the same member."""
    )
    stf.member(GROUP_TO_H2, range(10, 10 + SIZE))
    stf.member(GROUP_TO_H1, range(20, 20 + SIZE))
    stf.route("h2", f"spread(group:{GROUP_TO_H2}, size:{SIZE}, slice:0)")
    stf.route("h1", f"spread(group:{GROUP_TO_H1}, size:{SIZE}, slice:0)")

    def both(what, protocol, body, answer, ports=None, **ip):
        index = member_index(path_hash(IP["h1"], IP["h2"], protocol, *(ports or ())), 0, SIZE)
        stf.note(f"{what}: member {index}")
        stf.packet(1, plain_frame(protocol, body, **ip))
        stf.expect(10 + index, plain_frame(protocol, body, ttl=63, **ip))
        there = dict(src="h2", dst="h1", eth_src="h2")
        stf.packet(2, plain_frame(protocol, answer, **there, **ip))
        stf.expect(20 + index, plain_frame(protocol, answer, ttl=63, **there, **ip))

    def tcp(sport, dport):
        return struct.pack("!HHIIHHHH", sport, dport, 1, 0, 0x5002, 0xFFFF, 0, 0)

    def dgram(sport, dport, payload=b"hello!"):
        return struct.pack("!HHHH", sport, dport, 8 + len(payload), 0x1234) + payload

    both("TCP 40000 -> 80", TCP, tcp(40000, 80), tcp(80, 40000), (40000, 80))
    both("TCP 40001 -> 80", TCP, tcp(40001, 80), tcp(80, 40001), (40001, 80))
    both("UDP 5353 -> 53", UDP, dgram(5353, 53), dgram(53, 5353), (5353, 53))
    both("UDP without payload, 9 -> 9", UDP, dgram(9, 9, b""), dgram(9, 9, b""), (9, 9))
    both("ICMP echo", ICMP, bytes.fromhex("0800f7ff00000000"), bytes.fromhex("0000ffff00000000"))
    both("ICMP without a body", ICMP, b"", b"")
    both("first fragment of UDP: its ports are not used", UDP, dgram(5353, 53), dgram(53, 5353), flags=1)
    both("later fragment of UDP", UDP, b"any bytes, no port", b"others", offset=185)
    both("last fragment, flag and offset together", UDP, b"x", b"y", flags=1, offset=3)
    both("a fragment of a Weir packet is forwarded as any other", UDP, dgram(4791, WEIR_PORT), dgram(WEIR_PORT, 4791), flags=1)
    both("don't fragment is no fragment", UDP, dgram(5353, 53), dgram(53, 5353), (5353, 53), flags=2)
    return stf


def admission_ip():
    stf = Stf("IPv4 headers that must not be forwarded, each with its reason.")
    stf.via("h2", 2)
    whole = dict(kind=NACK)
    stf.note("version 6 under the IPv4 ethertype; header length 0 and 4 words: bad_ip_header")
    for wrong in (dict(version=6), dict(ihl=0), dict(ihl=4)):
        stf.packet(1, weir_frame(**whole, ip=wrong))
    stf.dropped("bad_ip_header", 3)
    stf.note("header of 6 words (one option word), and of 15: ip_options")
    for ihl in (6, 15):
        stf.packet(1, weir_frame(**whole, ip=dict(ihl=ihl)))
    stf.dropped("ip_options", 2)
    stf.note("checksum off by one: bad_ip_checksum")
    right = int.from_bytes(weir_frame(**whole)[1][1][10:12], "big")
    stf.packet(1, weir_frame(**whole, ip=dict(checksum=right + 1)))
    stf.dropped("bad_ip_checksum", 1)
    stf.note("total length of 19, and one byte longer than the frame: bad_ip_length")
    stf.packet(1, plain_frame(ICMP, b"12345678", total_len=19))
    stf.packet(1, plain_frame(ICMP, b"12345678", total_len=29))
    stf.dropped("bad_ip_length", 2)
    stf.note("total length equal to the frame, and shorter (padding, which is kept): forwarded")
    stf.packet(1, plain_frame(ICMP, b"12345678", total_len=28))
    stf.expect(2, plain_frame(ICMP, b"12345678", total_len=28, ttl=63))
    stf.packet(1, plain_frame(ICMP, b"12345678", total_len=20))
    stf.expect(2, plain_frame(ICMP, b"12345678", total_len=20, ttl=63))
    return stf


def parser_short_frames():
    stf = Stf("Frames that end inside a header: parse_error. They reach no port.")
    stf.via("h2", 2)
    whole = b"".join(value for _, value in weir_frame(kind=NACK))
    for cut, where in ((1, "Ethernet"), (13, "Ethernet"), (14, "IPv4"), (33, "IPv4"), (35, "the ports"), (37, "the ports"), (41, "UDP")):
        stf.note(f"{cut} bytes: ends in {where}")
        stf.packet(1, [("cut", whole[:cut])])
    stf.note("TCP that ends in its ports")
    stf.packet(1, plain_frame(TCP, b"\x00\x50\x9c"))
    stf.dropped("parse_error", 8)
    return stf


def parser_not_ip():
    stf = Stf("Neither IPv4 nor a link probe: not_ip.")
    stf.via("h2", 2)
    body = weir_frame(kind=NACK)[1:]
    for ether_type, what in ((0x0806, "ARP"), (0x86DD, "IPv6"), (0x8100, "a VLAN tag"), (0x0000, "zero")):
        stf.note(what)
        stf.packet(1, ethernet(ether_type=ether_type) + body)
    stf.dropped("not_ip", 4)
    return stf


def parser_weir():
    stf = Stf(
        """On Weir's UDP port but not Weir: short_weir, bad_version, bad_kind. Port 22341 as source counts as well as
as destination. A UDP length that leaves no room for the header is short even if padding follows."""
    )
    stf.via("h2", 2)
    forward, reverse = dict(sport=4791, dport=WEIR_PORT), dict(sport=WEIR_PORT, dport=4791)
    for ports in (forward, reverse):
        for size in (0, 1, 23):
            body = udp(ports["sport"], ports["dport"], size)[0][1] + b"\x12" * size
            stf.note(f"{size} bytes behind UDP {ports['sport']} -> {ports['dport']}")
            stf.packet(1, plain_frame(UDP, body))
    stf.note("UDP length 31 (one byte short), then 0, both ways; the frame itself would hold the header")
    for ports in (forward, reverse):
        for length in (31, 0):
            short = udp(ports["sport"], ports["dport"], 24, length=length)
            stf.packet(1, ethernet() + ipv4("h1", "h2", UDP, 8 + 24) + short + weir(NACK))
    stf.dropped("short_weir", 10)
    stf.note("exactly the header, UDP length 32")
    stf.packet(1, weir_frame(kind=NACK, payload=b""))
    stf.expect(2, weir_frame(kind=NACK, payload=b"", ttl=63))
    stf.note("versions 0, 2 and 15")
    for version in (0, 2, 15):
        stf.packet(1, weir_frame(kind=NACK, version=version))
    stf.dropped("bad_version", 3)
    stf.note("kinds 8 and 15; an unknown version with an unknown kind is a bad version")
    for kind in (8, 15):
        stf.packet(1, weir_frame(kind=kind))
    stf.packet(1, weir_frame(kind=9, version=3))
    stf.dropped("bad_kind", 2)
    stf.dropped("bad_version", 4)
    stf.note("kind 6, the last known that is forwarded, with every flag but TELEMETRY; 7 is known too (policy_flood)")
    stf.packet(1, weir_frame(kind=6, flags=0xFB))
    stf.expect(2, weir_frame(kind=6, flags=0xFB, ttl=63))
    stf.packet(1, weir_frame(kind=7))
    stf.dropped("policy_unicast", 1)
    stf.dropped("bad_kind", 2)
    return stf


def packet_io_out():
    stf = Stf(
        """Packet-out: from port 255 the first 2 bytes say where to (9 bits port, 7 bits 0); the rest is sent as it is,
whatever it is. Not to the drop port (bad_port), not back to the CPU (same_port)."""
    )
    stf.via("h2", 2)

    def from_cpu(port, frame):
        stf.packet(255, [("packet_out", struct.pack("!H", port << 7)), *frame])

    stf.note("an IPv4 packet of TTL 1 with a wrong checksum is not looked at: out by port 3")
    frame = weir_frame(kind=ACK, ttl=1, ip=dict(checksum=0x1234))
    from_cpu(3, frame)
    stf.expect(3, frame)
    stf.note("a link probe, and 1 byte that is no frame")
    probe = ethernet(ether_type=0x88B5) + [("body", b"probe")]
    from_cpu(4, probe)
    stf.expect(4, probe)
    from_cpu(300, [("body", b"\x99")])
    stf.expect(300, [("body", b"\x99")])
    stf.counted("packet_out", 3)
    from_cpu(511, probe)
    stf.dropped("bad_port", 1)
    from_cpu(255, probe)
    stf.dropped("same_port", 1)
    stf.note("1 byte from the CPU: too short for the header")
    stf.packet(255, [("cut", b"\x02")])
    stf.dropped("parse_error", 1)
    stf.note("What was sent counts without the 2 bytes: 19 and 1.")
    stf.register_is("tx_bytes", 4, 19)
    stf.register_is("tx_bytes", 300, 1)
    stf.register_is("queue_bytes", 4, 0)
    return stf


def packet_io_in():
    stf = Stf(
        """Packet-in: a frame of ethertype 0x88B5 goes to the CPU (port 255) behind 2 bytes that name the port it came
by (9 bits port, 7 bits 0)."""
    )
    probe = ethernet(ether_type=0x88B5) + [("body", b"probe")]
    for port in (4, 0, 300):
        stf.note(f"by port {port}")
        stf.packet(port, probe)
        stf.expect(255, [("packet_in", struct.pack("!H", port << 7)), *probe])
    stf.counted("packet_in", 3)
    stf.register_is("tx_bytes", 255, 3 * 21)
    stf.register_is("queue_bytes", 255, 0)
    return stf


def switch_identity_path():
    stf = Stf("Every Weir packet's path_id is exclusive-ored with the switch's id; a packet that passes twice has it back.")
    stf.via("h2", 2)
    stf.identify(0xABC)
    for kind in (NACK, 5, 6):
        stf.note(f"kind {kind}")
        stf.packet(1, weir_frame(kind=kind, path_id=0x123))
        stf.expect(2, weir_frame(kind=kind, path_id=0x123 ^ 0xABC, ttl=63))
        stf.packet(1, weir_frame(kind=kind, path_id=0x123 ^ 0xABC))
        stf.expect(2, weir_frame(kind=kind, path_id=0x123, ttl=63))
    stf.note("DATA without TELEMETRY")
    stf.packet(1, weir_frame(kind=DATA, path_id=0xFFF))
    stf.expect(2, weir_frame(kind=DATA, path_id=0xFFF ^ 0xABC, ttl=63))
    return stf


def ecn_untouched():
    stf = Stf("CE and dscp of a packet that is not marked here stay as they are; a miss in port_profile never marks.")
    stf.via("h2", 2)
    stf.register("queue_bytes", 2, 100000)
    stf.packet(1, weir_frame(kind=NACK, ecn=CE))
    stf.expect(2, weir_frame(kind=NACK, ecn=CE, ttl=63))
    stf.packet(1, plain_frame(ICMP, b"12345678", ecn=0xB9))
    stf.expect(2, plain_frame(ICMP, b"12345678", ecn=0xB9, ttl=63))
    stf.counted("ecn_marked", 0)
    return stf


def cases():
    return [
        ("forwarding-ttl", forwarding_ttl()),
        ("forwarding-miss", forwarding_miss()),
        ("forwarding-deliver", forwarding_deliver()),
        ("forwarding-same_port", forwarding_same_port()),
        ("forwarding-symmetric", forwarding_symmetric()),
        ("forwarding-slices", forwarding_slices()),
        ("forwarding-trees", forwarding_trees()),
        ("path_hash-protocols", path_hash_protocols()),
        ("admission-ip", admission_ip()),
        ("parser-short_frames", parser_short_frames()),
        ("parser-not_ip", parser_not_ip()),
        ("parser-weir", parser_weir()),
        ("packet_io-out", packet_io_out()),
        ("packet_io-in", packet_io_in()),
        ("switch_identity-path", switch_identity_path()),
        ("ecn-untouched", ecn_untouched()),
    ]
