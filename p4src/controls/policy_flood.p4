// POLICY packets: hosts tell each other by Trickle which policy they run (docs/policy.md). Every packet reaches all hosts.
//
//   POLICY to 239.87.69.73, by port p --- meter of p --- multicast group --> the other ports of the tree, hosts among them
//                                          '-- more than its share: policy_limit
//   by a port that is not of the tree --> policy_tree        to any other address --> policy_unicast
//
//   policy_flood[ingress port] -> flood(group), with a meter of its own
//
// The controller computes one tree over the fabric, and gives each of its ports a group of all the others: nothing goes
// back by the port it came in by, and as a tree has one path between two hosts, nothing arrives twice or loops. (While
// a tree is repaired, the TTL ends loops.) Suppression needs that everybody hears the same, so what was sent to one host
// alone is not let through: a unicast POLICY could calm or wake a single host (RFC 6206, section 6).
//
// The meter bounds what a host that does not keep to Trickle can send to all others. An entry without rates lets all pass.
//
// Contract: hdr.weir is valid, a POLICY, and admitted (TTL above 1). Sets mcast_grp and takes one off the TTL, or sets
// meta.drop_reason. Copies are counted into no queue_bytes or tx_bytes: they are few, which the meter sees to.
#ifndef WEIR_POLICY_FLOOD_P4
#define WEIR_POLICY_FLOOD_P4

control PolicyFlood(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    FLOOD_METER(policy_meter);
    colour_t colour;

    action drop_no_tree() { meta.drop_reason = DROP_POLICY_TREE; }

    action flood(@refers_to(builtin::multicast_group_table, multicast_group_id) bit<16> group) {
        READ_METER(policy_meter, colour);
        target.mcast_grp = group;
        meta.enqueued_bytes = 0;
    }

    table policy_flood {
        key = { target.ingress_port : exact @name("port"); }
        actions = { flood; @defaultonly drop_no_tree; }
        const default_action = drop_no_tree();
        meters = policy_meter;
        size = PORTS;
    }

    apply {
        colour = METER_GREEN;
        if (hdr.ipv4.dst_addr != POLICY_GROUP) {
            meta.drop_reason = DROP_POLICY_UNICAST;
        } else {
            policy_flood.apply();
            hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
            if (colour != METER_GREEN) {
                meta.drop_reason = DROP_POLICY_LIMIT;
            }
        }
    }
}

#endif
