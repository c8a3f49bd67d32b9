#!/usr/bin/env python3
"""Loads the plan of a fabric into its Tofino switches and sends packets through them.

  tofino_fabric.py path/to/weir

`weir controller plan` computes the entries, with device port numbers; p4src/tna/execute runs the compiled programs. Every host
sends to every other host and gets an ACK. Exit status 1 if a packet arrives at another host, at several hosts or with a wrong
MAC address; if an ACK does not take the reverse path; if a path of the fabric is never used; or if a POLICY packet does not
reach every other host exactly once.
"""

import ipaddress
import itertools
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

P4SRC = pathlib.Path(__file__).resolve().parents[2] / "p4src"
sys.path[:0] = [str(P4SRC / "tests"), str(P4SRC / "tna" / "execute")]

import wire  # noqa: E402
from switch import Switch  # noqa: E402

LEAVES, SPINES, HOSTS_PER_LEAF = 3, 3, 2     # three spines: group sizes that are not powers of two
FABRIC = f"""
topology: {{kind: leaf-spine, leaves: {LEAVES}, spines: {SPINES}, hosts_per_leaf: {HOSTS_PER_LEAF}, rate: 100Gbps}}
ecn: {{kmin: 100KB, kmax: 400KB, pmax: 20%}}
deflection: {{threshold: 15KB}}
ack_priority: true
"""
CASES = [("weir", "tofino2", "ecmp"), ("weir", "tofino2", "trees"), ("hpcc", "tofino", "ecmp")]
CHIPS = {"tofino": (1, 0), "tofino2": (2, 8)}        # number of the chip, and its first front-panel port
FLOWS = 12                           # per pair of hosts
MAX_HOPS = 10
ENTRY = re.compile(r"([\w.]+)\[(.*)\](?: priority=\d+)? -> (\w+)\((.*)\)(?: meter=\S+)?")


def number(text):
    if "." in text:
        return int(ipaddress.ip_address(text))
    return int(text.replace(":", ""), 16) if ":" in text else int(text)


def fill(switch, lines):
    """Adds the entries of a plan to a switch."""
    for line in lines:
        if found := re.fullmatch(r"multicast group (\d+) -> ports (.*)", line):
            switch.groups[int(found[1])] = [int(port) for port in found[2].split(",")]
            continue
        if found := re.fullmatch(r"clone session (\d+) -> ports (\d+)", line):
            switch.sessions[int(found[1])] = int(found[2])
            continue
        name, key, action, values = ENTRY.fullmatch(line).groups()
        values = {name: number(value) for name, value in (part.split("=") for part in values.split())}
        if name == "lifetime":
            switch.extern(name).value = values["value"]
            continue
        table = switch.table(name)
        if key == "default":
            table.default = table.bind_action(action, values)
            continue
        key, found = dict(part.split("=") for part in key.split()), []
        for _, _, kind, name in table.keys:
            parts = re.split(r"/|\.\.(?=\d)", key[name]) if kind in ("lpm", "range") else [key[name]]
            found.append(tuple(map(number, parts)) if len(parts) > 1 else number(parts[0]))
        table.add(found, action, values)


class Fabric:
    def __init__(self, weir, program, chip, routing):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            file.write(FABRIC)
            file.flush()
            command = [weir, "controller", "plan", "--topology", file.name, "--routing", routing, "--chip", chip,
                       "--program", P4SRC / f"tna/build/{program}.bfrt.json", "--format", "json"]
            plan = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        text = (P4SRC / f"tna/build/{program}.{chip}.midend.txt").read_text()
        chip_number, first = CHIPS[chip]
        self.switches = {name: Switch(text, chip_number) for name in plan}
        for name, lines in plan.items():
            fill(self.switches[name], lines)
        self.hosts, self.links = {}, {}
        for leaf in range(1, LEAVES + 1):
            for host in range(1, HOSTS_PER_LEAF + 1):
                self.hosts[f"s{leaf}", first + host - 1] = f"10.0.{leaf}.{host}"
            for spine in range(1, SPINES + 1):
                ends = (f"s{leaf}", first + HOSTS_PER_LEAF + spine - 1), (f"s{LEAVES + spine}", first + leaf - 1)
                self.links.update([ends, ends[::-1]])
        self.ports = {host: port for port, host in self.hosts.items()}

    def send(self, host, parts):
        """Sends a frame. Returns the switches that it, or a copy, passes, and the hosts that receive it, with the received frame."""
        frame = b"".join(value for _, value in parts)
        path, received, in_flight = [], [], [(self.ports[host], frame)]
        while in_flight:
            (name, port), frame = in_flight.pop(0)
            path.append(name)
            assert len(path) <= MAX_HOPS, f"a packet of {host} loops: {path}"
            switch = self.switches[name]
            switch.sent = {}
            switch.receive(port, frame)
            for out, frames in switch.sent.items():
                if (name, out) in self.hosts:
                    received += [(self.hosts[name, out], frame) for frame in frames]
                else:
                    in_flight += [(self.links[name, out], frame) for frame in frames]
        return path, received


def address(host):
    return int(ipaddress.ip_address(host))


def pairs(fabric, rng):
    """Sends packets between all hosts, and their ACKs. Returns the paths."""
    paths = set()
    for a, b in itertools.permutations(fabric.ports, 2):
        for flow in range(FLOWS):
            port = rng.randrange(1024, 1 << 16)
            data = wire.weir_frame(address(a), address(b), sport=port, kind=wire.DATA, message=flow, tokens=1,
                                   flags=wire.START | wire.END | wire.TELEMETRY)
            ack = wire.weir_frame(address(b), address(a), sport=wire.WEIR_PORT, dport=port, kind=wire.ACK, message=flow)
            path, received = fabric.send(a, data)
            assert [host for host, _ in received] == [b], f"{a} to {b}, port {port}: over {path} to {received}"
            mac = bytes([2, 0, *ipaddress.ip_address(b).packed])
            assert received[0][1][:6] == mac, f"{a} to {b}: destination MAC is {received[0][1][:6].hex()}"
            back, received = fabric.send(b, ack)
            assert [host for host, _ in received] == [a], f"{b} to {a}, port {port}: over {back} to {received}"
            assert back == path[::-1], f"{a} to {b}, port {port}: over {path}, ACK over {back}"
            paths.add(tuple(path))
    return paths


def main():
    if len(sys.argv) != 2:
        print(__doc__.split("\n\n")[1], file=sys.stderr)
        return 2
    for program, chip, routing in CASES:
        fabric = Fabric(sys.argv[1], program, chip, routing)
        paths = pairs(fabric, random.Random(1))
        expected = LEAVES * (LEAVES - 1) * SPINES + LEAVES
        assert len(paths) == expected, f"{program}, {routing}: {len(paths)} of {expected} paths are used"
        sender, *others = fabric.ports
        policy = wire.weir_frame(address(sender), wire.POLICY_IP, kind=wire.POLICY, eth_dst="group")
        _, received = fabric.send(sender, policy)
        assert sorted(host for host, _ in received) == sorted(others), f"{program}: a POLICY packet is received by {received}"
        print(f"{program}, {chip}, {routing}: {len(fabric.ports) * len(others)} pairs, {len(paths)} paths")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except AssertionError as failure:
        print(failure, file=sys.stderr)
        sys.exit(1)
