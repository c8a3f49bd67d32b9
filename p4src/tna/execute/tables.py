"""Tables: keys of the four kinds, entries, and which entry a packet finds."""

from text import Unknown


class Table:
    """`keys` are (read, width, kind, name); `actions` are (function, [(field, width, name)]) by the controller's name."""

    def __init__(self, name, keys, actions, default, meter):
        self.name, self.keys, self.actions, self.meter = name, keys, actions, meter
        self.default = self.first_default = default
        self.exact = all(kind == "exact" for _, _, kind, _ in keys)
        self.entries = {}
        for _, _, kind, _ in keys:
            if kind not in ("exact", "lpm", "ternary", "range"):
                raise Unknown(f"a key of table {name} is {kind}")

    def bound(self, name, values):
        """The action of this name with its parameters: {name: value}."""
        function, parameters = self.actions[name]
        if values.keys() != {shown for _, _, shown in parameters}:
            raise Unknown(f"{self.name}: {name} takes {[shown for _, _, shown in parameters]}, not {list(values)}")
        for _, width, shown in parameters:
            if values[shown] >> width:
                raise Unknown(f"{self.name}: {name}({shown}: {values[shown]}) has more than {width} bits")
        return name, function, [(field, values[shown]) for field, _, shown in parameters]

    def add(self, keys, name, values):
        """Exact keys are numbers, others (value, prefix length), (value, mask), (low, high). The first that matches wins, of
        an lpm key the longest."""
        if len(keys) != len(self.keys):
            raise Unknown(f"{self.name} has {len(self.keys)} keys")
        for key, (_, width, kind, shown) in zip(keys, self.keys):
            if (key if kind == "exact" else key[0]) >> width:
                raise Unknown(f"{self.name}: {shown} has {width} bits")
        self.entries[tuple(keys)] = (len(self.entries), self.bound(name, values))
        if any(kind == "lpm" for _, _, kind, _ in self.keys):
            self.entries = dict(sorted(self.entries.items(), key=lambda entry: -entry[0][0][1]))

    def find(self, values):
        if self.exact:
            return self.entries.get(values)
        return next((entry for keys, entry in self.entries.items() if self.matches(keys, values)), None)

    def matches(self, keys, values):
        for key, value, (_, width, kind, _) in zip(keys, values, self.keys):
            if kind == "exact":
                same = key == value
            elif kind == "lpm":
                same = (key[0] ^ value) >> (width - key[1]) == 0
            elif kind == "ternary":
                same = (key[0] ^ value) & key[1] == 0
            else:
                same = key[0] <= value <= key[1]
            if not same:
                return False
        return True

    def apply(self, packet):
        """Runs an action. Returns whether an entry was found, and the action's function."""
        found = self.find(tuple([read(packet) for read, _, _, _ in self.keys])) if self.keys else None
        number, (_, function, values) = found or (None, self.default)
        if self.meter:
            self.meter.entry = number
        packet.update(values)
        function(packet)
        return found is not None, function.__name__
