"""POLICY packets: flooded along the tree, limited, and nothing else. The same in every program."""

from stf import Stf
from wire import CE, DATA, POLICY, POLICY_IP, WEIR_PORT, length, weir_frame

TREE = (1, 2, 3, 300)
# A policy and its seal, to a switch any bytes.
BODY = bytes(range(40))


def policy(**more):
    """As a host sends it: to the group, from Weir's port to Weir's port."""
    frame = dict(kind=POLICY, dst=POLICY_IP, eth_dst="group", sport=WEIR_PORT, payload=BODY)
    return weir_frame(**frame | more)


def floods(stf, port, **more):
    """What comes in by a port of the tree leaves by all others."""
    stf.packet(port, policy(**more))
    for other in TREE:
        if other != port:
            stf.expect(other, policy(ttl=more.get("ttl", 64) - 1, **{k: v for k, v in more.items() if k != "ttl"}))


def flood_tree():
    stf = Stf(
        """A POLICY to the hosts' group leaves by every port of the tree but the one it came in by, TTL one less, the group's
Ethernet address as it was. Ports beside the tree get nothing, also not by a route to the group.""",
        paced=True,
    )
    stf.tree(TREE)
    stf.via(POLICY_IP, 9)
    for port in TREE:
        stf.note(f"by port {port}")
        floods(stf, port, message=port)
    stf.note("Who sends it, by which entropy port, in which direction and with which flags makes no difference.")
    floods(stf, 2, src="far", eth_src="h2", sport=50000)
    floods(stf, 3, sport=WEIR_PORT, dport=50000, flags=0xFB, seq=0, grant=2**32 - 1)
    stf.note("The longest that a host sends, and the shortest.")
    floods(stf, 1, payload=bytes(1400))
    floods(stf, 1, payload=b"")
    for reason in ("policy_unicast", "policy_tree", "policy_limit", "same_port", "no_route"):
        stf.dropped(reason, 0)
    stf.note("Copies are counted into no queue, and into no count of bytes sent.")
    for port in (0, *TREE):
        stf.register_is("queue_bytes", port, 0)
        stf.register_is("tx_bytes", port, 0)
    return stf


def flood_beside():
    stf = Stf(
        """By a port that is not of the tree: policy_tree. It may be one that the controller has just taken out, and what came by it
would come twice.""",
        paced=True,
    )
    stf.tree(TREE)
    for port in (4, 0, 510):
        stf.packet(port, policy())
    stf.dropped("policy_tree", 3)
    floods(stf, 1)
    stf.dropped("policy_tree", 3)
    return stf


def flood_unicast():
    stf = Stf(
        """A POLICY to any other address is dropped as policy_unicast, whether there is a route or not: one host alone must not be
calmed or woken. What else goes to the group has no route.""",
        paced=True,
    )
    stf.tree(TREE)
    stf.via("h2", 2)
    for dst in ("h2", "h3", POLICY_IP + 1, 0xFFFFFFFF, 0xE0000001):
        stf.packet(1, policy(dst=dst))
    stf.packet(4, policy(dst="h2"))
    stf.dropped("policy_unicast", 6)
    stf.note("Other kinds to the group")
    for kind in range(7):
        stf.packet(1, policy(kind=kind))
    stf.dropped("no_route", 7)
    floods(stf, 1)
    return stf


def flood_wrong():
    stf = Stf("What is wrong with any Weir packet is wrong with a POLICY, and comes first.", paced=True)
    stf.tree(TREE)
    for version in (0, 2, 15):
        stf.packet(1, policy(version=version))
    stf.dropped("bad_version", 3)
    for kind in (8 + POLICY, 8):
        stf.packet(1, policy(kind=kind))
    stf.dropped("bad_kind", 2)
    for ttl in (0, 1):
        stf.packet(1, policy(ttl=ttl))
    stf.packet(4, policy(ttl=1, dst="h2"))
    stf.dropped("ttl_expired", 3)
    stf.packet(1, policy(ip=dict(checksum=1)))
    stf.dropped("bad_ip_checksum", 1)
    stf.packet(1, policy(ip=dict(total_len=9000)))
    stf.dropped("bad_ip_length", 1)
    whole = b"".join(value for _, value in policy(payload=b""))
    stf.packet(1, [("cut", whole[:65])])
    stf.dropped("short_weir", 1)
    stf.note("A fragment is not looked into: it goes by its address, and has no route.")
    stf.packet(1, policy(ip=dict(flags=1)))
    stf.dropped("no_route", 1)
    stf.note("TTL 2 leaves as 1; it ends at the next switch.")
    floods(stf, 1, ttl=2)
    return stf


def flood_limit():
    size = length(policy())
    stf = Stf(
        f"""The meter of a port lets through its burst, here two packets of {size} bytes, and drops the rest as policy_limit. The
other ports have meters of their own; one without rates lets all through. (A byte a second: no more comes while this runs.)""",
        paced=True,
    )
    stf.tree(TREE)
    stf.limit(TREE.index(2), 0.000001, 2 * size)
    for _ in range(2):
        floods(stf, 2)
    for _ in range(3):
        stf.packet(2, policy())
    stf.dropped("policy_limit", 3)
    for _ in range(3):
        floods(stf, 1)
    stf.note("Data by the same port is not limited; neither does what is dropped for another reason take from the meter.")
    stf.via("h2", 300)
    stf.packet(2, weir_frame(kind=DATA))
    stf.expect(300, weir_frame(kind=DATA, ttl=63))
    stf.limit(TREE.index(2), 0.000001, size)
    for _ in range(3):
        stf.packet(2, policy(dst="h3"))
    floods(stf, 2)
    stf.dropped("policy_limit", 3)
    stf.dropped("policy_unicast", 3)
    return stf


def flood_bytes():
    size = length(policy(payload=bytes(1000)))
    stf = Stf(
        f"""The meter counts bytes: a packet of {size} takes what fifteen of {length(policy(payload=b""))} may. A packet that finds too
little takes nothing.""",
        paced=True,
    )
    stf.tree(TREE)
    stf.limit(TREE.index(1), 0.000001, size + 66)
    floods(stf, 1, payload=bytes(1000))
    stf.packet(1, policy(payload=bytes(1000)))
    floods(stf, 1, payload=b"")
    stf.packet(1, policy(payload=b""))
    stf.dropped("policy_limit", 2)
    return stf


def flood_class():
    stf = Stf(
        """Copies wait in the priority of POLICY's class, and count into no queue of bytes: what a port has in its register stays,
with priority 0 as with 1, unless priority 0 finds the port empty.""",
        paced=True,
    )
    stf.tree(TREE)
    stf.classify(POLICY, 1)
    for port in TREE:
        stf.register("queue_bytes", port, 500)
    floods(stf, 1)
    for port in TREE:
        stf.register_is("queue_bytes", port, 500)
    stf.note("Marks are for what is ECT; hosts send POLICY Not-ECT.")
    for port in TREE:
        stf.profile(port, 7, 100, 100, 0)
    floods(stf, 1)
    stf.packet(1, policy(ecn=2))
    for port in TREE[1:]:
        stf.expect(port, policy(ecn=CE, ttl=63))
    stf.counted("ecn_marked", len(TREE) - 1)
    return stf


def flood_path():
    stf = Stf("Every copy's path_id is exclusive-ored with the switch's id.", paced=True)
    stf.tree(TREE)
    stf.identify(0xABC)
    stf.packet(1, policy(path_id=0x123))
    for port in TREE[1:]:
        stf.expect(port, policy(path_id=0x123 ^ 0xABC, ttl=63))
    return stf


def cases():
    return [
        ("policy_flood-tree", flood_tree()),
        ("policy_flood-beside", flood_beside()),
        ("policy_flood-unicast", flood_unicast()),
        ("policy_flood-wrong", flood_wrong()),
        ("policy_flood-limit", flood_limit()),
        ("policy_flood-bytes", flood_bytes()),
        ("policy_flood-class", flood_class()),
        ("policy_flood-path", flood_path()),
    ]
