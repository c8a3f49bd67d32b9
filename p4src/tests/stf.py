"""Builder of an STF file: comments, table entries, input packets, expected packets, counters and registers."""

import wire

REASONS = {
    "parse_error": 1, "not_ip": 2, "bad_ip_header": 3, "ip_options": 4, "bad_ip_length": 5, "bad_ip_checksum": 6,
    "ttl_expired": 7, "short_weir": 8, "bad_version": 9, "bad_kind": 10, "no_route": 11, "no_member": 12,
    "same_port": 13, "bad_port": 14, "credit_limit": 15, "policy_unicast": 16, "policy_tree": 17, "policy_limit": 18,
}
EVENTS = {
    "int_full": 0, "ecn_marked": 1, "packet_in": 2, "packet_out": 3, "deflected": 4, "dft_full": 5, "dft_reclaimed": 6,
}

LAYOUT = """\
# Frames are shown header by header, two blanks between:
#   ethernet: dst src type                      ipv4: version+ihl+tos len id+flags+offset ttl+proto checksum src dst
#   udp: ports, length+checksum                 weir: version+kind+flags, tokens..concurrency, hops+path, message, seq, stamp, grant
#   records: rate code 1 digit, time 6, txBytes 5, queue 4 (newest first); * is a digit that may be anything
# A $ at the end: the frame ends there."""


class Stf:
    """One test. With `paced`, a `wait` follows each expected frame, because real switches process packets asynchronously."""

    def __init__(self, title, paced=False):
        self.paced = paced
        self.lines = [f"# {line}" if line else "#" for line in title.strip().splitlines()]
        self.lines += [LAYOUT, ""]

    def note(self, text):
        self.lines += ["", *[f"# {line}" for line in text.strip().splitlines()]]

    # Tables -----------------------------------------------------------------------------------

    def route(self, dst, action, bits=32):
        self.lines.append(f"add forward dst_addr:0x{wire.IP.get(dst, dst):08x}/{bits} {action}")

    def deliver(self, dst, port, mac):
        self.route(dst, f"deliver(port:{port}, dst_mac:0x{wire.MAC[mac]})")

    def via(self, dst, port, bits=32):
        self.route(dst, f"via(port:{port})", bits)

    def member(self, group, ports):
        for index, port in enumerate(ports):
            self.lines.append(f"add member group:{group} index:{index} member_port(port:{port})")

    def classify(self, kind, priority, express=0):
        self.lines.append(f"add traffic_class kind:{kind} express:{express} classify(priority:{priority})")

    def identify(self, switch_id):
        self.lines.append(f"setdefault switch_identity identify(switch_id:0x{switch_id:03x})")

    def profile(self, port, rate_code, kmin=0, kmax=0, slope=0):
        self.lines.append(
            f"add port_profile profile_port:{port} profile(rate_code:{rate_code}, ecn_kmin:{kmin}, ecn_kmax:{kmax},"
            f" ecn_slope:{slope}, fabric:0)"
        )

    def deflect(self, port, limit, to, lifetime=0):
        """Deflects packets from `port` to one of the ports `to` if the queue of `port` exceeds `limit` bytes."""
        self.lines.append(f"add deflection port:{port} over(limit:{limit}, ports:{len(to)}, ticks:{lifetime})")
        for index, candidate in enumerate(to):
            other = to[(index + 1) % len(to)]
            self.lines.append(f"add deflect_port port:{port} index:{index} deflect_to(port:{candidate}, other:{other})")

    def escape(self, tokens, escape=0, detour=0):
        """Sets the priorities of packets with this number of tokens: deflected before, and deflected here."""
        self.lines.append(f"add escape_class tokens:{tokens} wait_in(escape:{escape}, detour:{detour})")

    def tree(self, ports):
        """Sets the flooding tree: packets from one of these ports are sent to all others. Group numbers equal port numbers."""
        for node, port in enumerate(ports):
            others = " ".join(str(other) for other in ports if other != port)
            self.lines += [f"mc_mgrp_create {port}", f"mc_node_create 0 {others}", f"mc_node_associate {port} {node}"]
        for port in ports:
            self.lines.append(f"add policy_flood port:{port} flood(group:{port})")

    def limit(self, entry, per_us, burst):
        """Sets rate (bytes per us) and burst (bytes) of the meter of an entry of policy_flood."""
        self.lines.append(f"meter_set_rates policy_meter {entry} {per_us:.6f}:{burst} {per_us:.6f}:{burst}")

    def line(self, text):
        self.lines.append(text)

    # Packets ----------------------------------------------------------------------------------

    def packet(self, port, parts):
        self.lines.append(f"packet {port} {wire.text(parts)}")

    def expect(self, port, parts):
        self.lines.append(f"expect {port} {wire.text(parts)} $")
        if self.paced:
            self.lines.append("wait")

    # State ------------------------------------------------------------------------------------

    def dropped(self, reason, count):
        self.lines.append(f"check_counter drops({REASONS[reason]}) packets == {count}    # {reason}")

    def counted(self, event, count):
        self.lines.append(f"check_counter events({EVENTS[event]}) packets == {count}    # {event}")

    def register(self, name, index, value):
        self.lines.append(f"register_write {name} {index} {value}")

    def register_is(self, name, index, value):
        self.lines.append(f"register_check {name} {index} {value}")

    # Time -------------------------------------------------------------------------------------

    def hold(self, port, first):
        """Limits `port` to one packet per second and sends `first`; packets that follow are queued."""
        self.note(f"Port {port} lets one packet a second go. The first goes at once, the others wait.")
        self.line(f"queue_rate 1 {port}")
        self.line("time 2s")
        self.packet(1, first)
        self.line("wait")
        self.paced = False

    def text(self):
        return "\n".join(self.lines) + "\n"
