"""A second implementation of Weir's wire format for the tests: frames, checksums and hashes in plain Python.

Nothing is derived from the P4 sources. A frame is a list of (name, bytes) parts, so that an STF file can show its fields.
"""

import struct
import zlib

WEIR_PORT = 22341
DATA, ACK, NACK, CNP, PROBE, PROBE_REPLY, RATE, POLICY = range(8)
POLICY_IP = 0xEF574549               # 239.87.69.73
START, END, TELEMETRY, RETRANSMIT, ESCAPE, EXPRESS = 0x01, 0x02, 0x04, 0x20, 0x40, 0x80
UDP, TCP, ICMP = 17, 6, 1
NOT_ECT, CE = 0, 3
ECT0_AND_ECT1 = (2, 1)

MAC = {"h1": "020000000001", "h2": "020000000002", "s": "0200000000ff", "group": "01005e574549"}
IP = {"h1": 0x0A000001, "h2": 0x0A000002, "h3": 0x0A000003, "far": 0x0A010005}


def csum16(data):
    """The Internet checksum (RFC 1071) of an even number of bytes."""
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def crc16(data):
    """CRC-16/ARC, called crc16 in v1model."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0xA001 if crc & 1 else 0)
    return crc


def path_hash(src, dst, protocol, sport=None, dport=None):
    """The direction-independent hash of controls/path_hash.p4."""
    fields = struct.pack("!II", (src + dst) & 0xFFFFFFFF, src ^ dst)
    if sport is not None:
        fields += struct.pack("!HH", (sport + dport) & 0xFFFF, sport ^ dport)
    return zlib.crc32(fields + bytes([protocol]))


def member_index(hash_word, slice_, size):
    """Returns the index of the selected member of an ECMP group (controls/forwarding.p4)."""
    return crc16(struct.pack("!I", hash_word >> slice_)) % size


def ethernet(dst="s", src="h1", ether_type=0x0800):
    return [("ethernet", bytes.fromhex(MAC[dst] + MAC[src]) + struct.pack("!H", ether_type))]


def ipv4(src, dst, protocol, payload, ttl=64, ecn=NOT_ECT, dscp=0, ident=0, flags=0, offset=0, **overrides):
    """Returns an IPv4 header for `payload` bytes. `overrides` replaces the correct version, ihl, total_len or checksum."""
    ihl = overrides.get("ihl", 5)
    head = struct.pack(
        "!BBHHHBBHII",
        overrides.get("version", 4) << 4 | ihl,
        dscp << 2 | ecn,
        overrides.get("total_len", 20 + payload),
        ident,
        flags << 13 | offset,
        ttl,
        protocol,
        0,
        IP.get(src, src),
        IP.get(dst, dst),
    )
    checksum = overrides.get("checksum", csum16(head))
    return [("ipv4", head[:10] + struct.pack("!H", checksum) + head[12:])]


def udp(sport, dport, payload, length=None):
    return [("udp", struct.pack("!HHHH", sport, dport, 8 + payload if length is None else length, 0))]


def weir(kind=DATA, flags=0, tokens=0, int_hops=0, path_id=0, version=1, concurrency=0, message=7, seq=0x1000, stamp=0x55, grant=0,
         int_format=0):
    head = struct.pack(
        "!BBBBHHIIII",
        version << 4 | kind,
        flags,
        tokens << 4,
        int_format,
        concurrency,
        int_hops << 12 | path_id,
        message,
        seq,
        stamp,
        grant,
    )
    return [("weir", head)]


def record(rate_code, tx, queue, timestamp=None):
    """Returns an INT record in hexadecimal. Without a timestamp, its six digits are wildcards."""
    stamp = "******" if timestamp is None else f"{timestamp & 0xFFFFFF:06x}"
    return f"{rate_code:01x}{stamp}{tx & 0xFFFFF:05x}{queue:04x}"


def tx_units(tx_bytes):
    return (tx_bytes >> 7) & 0xFFFFF


def queue_units(queue_bytes):
    return min(queue_bytes // 80, 65535)


def weir_frame(src="h1", dst="h2", sport=4791, dport=WEIR_PORT, payload=b"\xab\xcd\xef\x01", records="", padding=b"",
               eth_dst="s", eth_src="h1", ttl=64, ecn=NOT_ECT, dscp=0, ip=None, **header):
    """Returns a Weir packet. `records` is the hexadecimal content between the Weir header and the payload."""
    size = 24 + len(records) // 2 + len(payload)
    parts = ethernet(eth_dst, eth_src)
    parts += ipv4(src, dst, UDP, 8 + size, ttl=ttl, ecn=ecn, dscp=dscp, **(ip or {}))
    parts += udp(sport, dport, size)
    parts += weir(**header)
    if records:
        parts.append(("records", records))
    if payload:
        parts.append(("payload", payload))
    if padding:
        parts.append(("padding", padding))
    return parts


def plain_frame(protocol, body, src="h1", dst="h2", eth_dst="s", eth_src="h1", **ip):
    """Returns an IPv4 packet without a Weir header; `body` follows the IPv4 header."""
    return ethernet(eth_dst, eth_src) + ipv4(src, dst, protocol, len(body), **ip) + [("body", body)]


def hex_of(part):
    """Returns a part in hexadecimal, with spaces between the fields of known headers."""
    name, value = part
    if isinstance(value, str):
        return value
    text = value.hex()
    boundaries = {
        "ethernet": [12, 24],
        "ipv4": [4, 8, 16, 20, 24, 32],
        "udp": [8],
        "weir": [4, 12, 16, 24, 32, 40],
    }.get(name, [])
    bounds = [0, *[boundary for boundary in boundaries if boundary < len(text)], len(text)]
    return " ".join(text[a:b] for a, b in zip(bounds, bounds[1:]))


def length(parts):
    return sum(len(value) // 2 if isinstance(value, str) else len(value) for _, value in parts)


def text(parts):
    """Returns the frame in STF syntax: fields are separated by one space, headers by two."""
    return "  ".join(hex_of(part) for part in parts)
