"""Match-action tables with exact, LPM, ternary and range keys."""

from text import UnsupportedError


class Table:
    """`keys` are (read, width, kind, name); `actions` are (function, [(field, width, name)]) by control-plane name."""

    def __init__(self, name, keys, actions, default, meter):
        self.name, self.keys, self.actions, self.meter = name, keys, actions, meter
        self.default = self.first_default = default
        self.exact = all(kind == "exact" for _, _, kind, _ in keys)
        self.entries = {}
        for _, _, kind, _ in keys:
            if kind not in ("exact", "lpm", "ternary", "range"):
                raise UnsupportedError(f"unsupported match kind {kind} in table {name}")

    def bind_action(self, name, values):
        """Returns the action of this name, bound to the values of its parameters: {name: value}."""
        function, parameters = self.actions[name]
        expected = [parameter for _, _, parameter in parameters]
        if values.keys() != set(expected):
            raise UnsupportedError(f"{self.name}: {name} expects {expected}, found {list(values)}")
        for _, width, parameter in parameters:
            if values[parameter] >> width:
                raise UnsupportedError(f"{self.name}: {name}({parameter}: {values[parameter]}) exceeds {width} bits")
        return name, function, [(field, values[parameter]) for field, _, parameter in parameters]

    def add(self, keys, name, values):
        """Adds an entry. Exact keys are numbers, others (value, prefix length), (value, mask), (low, high). The first matching
        entry wins; for an LPM key, the one with the longest prefix."""
        if len(keys) != len(self.keys):
            raise UnsupportedError(f"{self.name}: expected {len(self.keys)} keys, found {len(keys)}")
        for key, (_, width, kind, control_plane_name) in zip(keys, self.keys):
            if (key if kind == "exact" else key[0]) >> width:
                raise UnsupportedError(f"{self.name}: the key {control_plane_name} exceeds {width} bits")
        self.entries[tuple(keys)] = (len(self.entries), self.bind_action(name, values))
        if any(kind == "lpm" for _, _, kind, _ in self.keys):
            self.entries = dict(sorted(self.entries.items(), key=lambda entry: -entry[0][0][1]))

    def find(self, values):
        if self.exact:
            return self.entries.get(values)
        return next((entry for keys, entry in self.entries.items() if self.matches(keys, values)), None)

    def matches(self, keys, values):
        for key, value, (_, width, kind, _) in zip(keys, values, self.keys):
            if kind == "exact":
                is_match = key == value
            elif kind == "lpm":
                is_match = (key[0] ^ value) >> (width - key[1]) == 0
            elif kind == "ternary":
                is_match = (key[0] ^ value) & key[1] == 0
            else:
                is_match = key[0] <= value <= key[1]
            if not is_match:
                return False
        return True

    def apply(self, packet):
        """Looks up a packet and runs the action. Returns whether it was a hit, and the name of the action's function."""
        entry = self.find(tuple([read(packet) for read, _, _, _ in self.keys])) if self.keys else None
        number, (_, function, values) = entry or (None, self.default)
        if self.meter:
            self.meter.entry = number
        packet.update(values)
        function(packet)
        return entry is not None, function.__name__
