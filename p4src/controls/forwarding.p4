// Chooses the egress port: by destination and, if there are several paths, by the path hash.
//
//   forward[dst] -- deliver(port, mac) ----------------------------> out, to a host
//                -- via(port) -------------------------------------> out, one next hop
//                -- spread(group, size, slice) -> member[group, i] -> out, symmetric ECMP
//                -- trees(count) -> tree_route[i, dst] ------------> out, spanning tree i
//                -- miss -> no_route
//
// member: i = crc16(path hash >> slice) modulo size. A salt per tier would not part the tiers: a CRC
// is linear, so a salt only exclusive-ors a constant, and flows that met in one tier would meet again
// in the next. Therefore each tier shifts the hash by its own slice, and the second CRC mixes what is
// left (tests/test_arithmetic.py shows that tiers are then independent).
// tree: i = path hash modulo count, the same at every switch.
//
// Contract: hdr.ipv4 is valid and admitted (TTL above 1). Sets egress_spec and takes one off the TTL,
// or sets meta.drop_reason. ECMP is symmetric when the controller orders the groups alike on both
// sides. A packet is never sent back to the port it came from: between routers that only happens when
// tables disagree, and it would loop until its TTL ends.
#ifndef WEIR_FORWARDING_P4
#define WEIR_FORWARDING_P4

control Forwarding(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    PathHash() member_hash;
    PathHash() tree_hash;
    MemberIndex() member_index;
    TreeIndex() tree_index;

    action drop_no_route() { meta.drop_reason = DROP_NO_ROUTE; }
    action drop_no_member() { meta.drop_reason = DROP_NO_MEMBER; }

    action deliver(port_t port, mac_t dst_mac) {
        target.egress_spec = port;
        hdr.ethernet.dst_addr = dst_mac;
    }
    action via(port_t port) {
        target.egress_spec = port;
    }
    action spread(@refers_to(member, group) bit<16> group, bit<16> size, bit<8> slice) {
        meta.hash_range = WHOLE_HASH;
        meta.ecmp_group = group;
        meta.ecmp_size = size;
        meta.ecmp_slice = slice;
    }
    action trees(@refers_to(tree_route, tree) bit<8> count) {
        meta.hash_range = (hash_range_t)count;
    }

    table forward {
        key = { hdr.ipv4.dst_addr : lpm @name("dst_addr"); }
        actions = { deliver; via; spread; trees; @defaultonly drop_no_route; }
        const default_action = drop_no_route();
        size = FORWARD_ENTRIES;
    }

    action member_port(port_t port) {
        target.egress_spec = port;
    }

    table member {
        key = {
            meta.ecmp_group : exact @name("group");
            meta.ecmp_index : exact @name("index");
        }
        actions = { member_port; @defaultonly drop_no_member; }
        const default_action = drop_no_member();
        size = MEMBER_ENTRIES;
    }

    action tree_deliver(port_t port, mac_t dst_mac) {
        target.egress_spec = port;
        hdr.ethernet.dst_addr = dst_mac;
    }
    action tree_via(port_t port) {
        target.egress_spec = port;
    }

    table tree_route {
        key = {
            meta.path_hash[7:0] : exact @name("tree");
            hdr.ipv4.dst_addr : exact @name("dst_addr");
        }
        actions = { tree_deliver; tree_via; @defaultonly drop_no_route; }
        const default_action = drop_no_route();
        size = TREE_ROUTE_ENTRIES;
    }

    apply {
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
        switch (forward.apply().action_run) {
            spread: {
                member_hash.apply(hdr, meta);
                member_index.apply(meta);
                member.apply();
            }
            trees: {
                tree_hash.apply(hdr, meta);
                tree_index.apply(meta);
                tree_route.apply();
            }
            default: {}
        }
        if (meta.drop_reason == DROP_NONE && target.egress_spec == target.ingress_port) {
            meta.drop_reason = DROP_SAME_PORT;
        }
    }
}

#endif
