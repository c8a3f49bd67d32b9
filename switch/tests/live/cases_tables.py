"""Table changes between packets, by P4Runtime and by Thrift, and the counters at the end."""

import random

import probe
from bed import require

STEPS = 200
PORTS = (1, 2, 3, 4)
DESTINATIONS, CLASSES, MEMBERS, GROUPS, SESSIONS = range(1, 7), range(8), range(1, 7), (1, 2, 3), (1, 2)


class Changes:
    """Random changes of the tables, the same for each seed. `control` is P4Runtime or Thrift."""

    def __init__(self, control, seed):
        self.control, self.random = control, random.Random(seed)
        self.entries = {}              # priorities of the existing entries, by table and key

    def begin(self):
        """Inserts routes for the markers, and the objects to which entries refer."""
        yield from (self.control.insert("routes", {"hdr.ethernet.dst": probe.MARKERS + port}, "straight",
                                        {"port": port, "priority": 0}) for port in PORTS)
        yield from (self.control.multicast(group, self.some(PORTS)) for group in GROUPS)
        yield from (self.control.session(session, self.random.choice(PORTS)) for session in SESSIONS)
        yield from (self.control.member("next_hops", member, "via", self.via()) for member in MEMBERS)
        yield from (self.control.group("next_hops", group, self.some(MEMBERS)) for group in GROUPS)

    def some(self, of):
        return sorted(self.random.sample(list(of), self.random.randint(1, len(of))))

    def via(self):
        return {"port": self.random.choice(PORTS)}

    def step(self):
        """Makes one change, sometimes one that must be refused."""
        changes = [(6, self.route), (3, self.prefix), (3, self.rule), (2, self.member), (2, self.group), (2, self.point),
                   (1, self.multicast), (1, self.default)]
        return self.random.choices([it for _, it in changes], [weight for weight, _ in changes])[0]()

    def entry(self, table, key, action, values, priority=0):
        """Inserts an entry, or modifies or deletes the existing one; one time in eight a change that must be refused."""
        existing = self.entries.setdefault(table, {})
        new = (str(key) not in existing) != (self.random.random() < 1 / 8)
        priority = existing.get(str(key), priority)
        if new:
            outcome = self.control.insert(table, key, action, values, priority)
            if outcome == "ok":
                existing[str(key)] = priority
            return outcome
        if self.random.random() < 0.5:
            return self.control.modify(table, key, action, values, priority)
        existing.pop(str(key), None)
        return self.control.delete(table, key, priority)

    def route(self):
        action, values = self.random.choice([
            ("forward", self.via()),
            ("multicast", {"group": self.random.choice([*GROUPS, 77])}),
            ("mirror", {"port": self.random.choice(PORTS), "session": self.random.choice([*SESSIONS, 9])}), ("drop", {})])
        return self.entry("routes", {"hdr.ethernet.dst": self.random.choice(DESTINATIONS)}, action, values)

    def prefix(self):
        length = self.random.choice([8, 9, 16, 31, 48])
        source = self.source() >> 48 - length << 48 - length
        return self.entry("prefixes", {"hdr.ethernet.src": (source, length)}, *self.random.choice([("via", self.via()), ("NoAction", {})]))

    def source(self):
        return self.random.choice([0x020304050600, 0x020384050600, 0x020304058600]) + self.random.randrange(3)

    def rule(self):
        """Changes a ternary entry. Priorities are unique, because the order of equal ones is undefined."""
        mask = self.random.choice([0xFFFFFFFFFFFF, 0xFF, 0x800000000, 0xFF0000000000])
        kind = self.random.choice([(0, 0), (self.random.choice(CLASSES), 7), (1, 1)])
        key = {"hdr.ethernet.src": (self.source() & mask, mask), "hdr.probe.class": kind}
        if not kind[1]:
            del key["hdr.probe.class"]
        priorities = self.entries.setdefault("acl", {}).values()
        priority = self.random.choice([it for it in range(1, 500) if it not in priorities])
        return self.entry("acl", key if self.is_p4runtime() else {**key, "hdr.probe.class": kind},
                          self.random.choice(["permit", "permit", "deny"]), {}, priority)

    def is_p4runtime(self):
        return hasattr(self.control, "stub")

    def member(self):
        return self.control.member("next_hops", self.random.choice(MEMBERS), "via", self.via(), new=False)

    def group(self):
        return self.control.group("next_hops", self.random.choice(GROUPS), self.some(MEMBERS), new=False)

    def point(self):
        key, existing = {"hdr.probe.class": self.random.choice(CLASSES)}, self.entries.setdefault("groups", {})
        group, new = self.random.choice(GROUPS), str(key) not in existing
        if not new and self.random.random() < 0.5:
            del existing[str(key)]
            return self.control.delete("groups", key)
        existing[str(key)] = 0
        return self.control.point("groups", key, group, new)

    def multicast(self):
        return self.control.multicast(self.random.choice(GROUPS), self.some(PORTS), new=False)

    def default(self):
        table, action, values = self.random.choice([
            ("routes", "drop", {}), ("routes", "forward", self.via()), ("prefixes", "via", self.via()),
            ("prefixes", "NoAction", {}), ("acl", "permit", {}), ("acl", "permit", {}), ("acl", "deny", {})])
        return self.control.default(table, action, values)

    def frames(self):
        for _ in range(5):
            yield self.random.choice(PORTS), probe.frame(
                self.random.choice([*DESTINATIONS, *DESTINATIONS, 99]), self.source(), self.random.choice(CLASSES),
                self.random.getrandbits(32), self.random.randint(60, 300))

    def counters(self):
        for index in range(16):
            yield "classes", index, self.control.counter("classes", index)
            yield "ports", index, self.control.counter("ports", index)
        for key in ({"hdr.ethernet.dst": it} for it in DESTINATIONS):
            if str(key) in self.entries["routes"]:
                yield "routes", key, self.control.direct_counter("routes", key)


class Tables:
    ports, program = PORTS, "live"

    def __init__(self, name, loads):
        # If `loads` is true, the switch gets its program from its command line, without a P4Runtime client.
        self.name, self.loads = name, loads

    def run(self, side):
        changes = Changes(side.thrift if self.loads else side.p4runtime, "tables 1")
        log = [("begin", list(changes.begin()))]
        for number in range(STEPS):
            log.append((f"change {number}", changes.step()))
            # The ingress thread processes the frames of one interface in order: all frames of a step use one port.
            port = changes.random.choice(PORTS)
            side.send(port, *(frame for _, frame in changes.frames()))
            side.send(port, *(probe.frame(probe.MARKERS + port) for port in PORTS))
            log.append((f"frames {number}", self.until_markers(side)))
        return log + list(changes.counters())

    def until_markers(self, side):
        """Returns the frames that each port sends before its marker."""
        sent = {port: [] for port in PORTS}
        left = set(PORTS)
        while left:
            for port, frame, _ in side.wait(1, "markers"):
                if int.from_bytes(frame[:6], "big") == probe.MARKERS + port:
                    left.discard(port)
                else:
                    sent[port].append(probe.timeless(frame).hex())
        return sent

    def compare(self, one, other):
        for a, b in zip(one, other, strict=True):
            require(a == b, f"{a}\n  is not\n{b}")
        outcomes = [entry[1] for entry in one if entry[0].startswith("change")]
        frames = sum(len(sent) for entry in one if entry[0].startswith("frames") for sent in entry[1].values())
        counted = sum(len(entry) == 3 for entry in one)
        refused = sum(outcome not in ("ok", []) and outcome != ["ok"] * len(outcome) for outcome in map(listed, outcomes))
        require(frames > STEPS and 0 < refused < STEPS / 4, f"{frames} frames and {refused} refused changes test little")
        return (f"{len(outcomes)} changes, {refused} of them refused alike, {frames} frames alike, {counted} counters alike in"
                " packets and bytes")


def listed(outcome):
    return outcome if isinstance(outcome, list) else [outcome]


CASES = [Tables("tables-p4runtime", loads=False), Tables("tables-thrift", loads=True)]
