// Drops and events, counted by name.
//
//   drop_reason --> drops[drop_reason] += 1, the packet is dropped
//
// Contract: meta.drop_reason is set. No other control drops a packet: the others set a reason, and
// the end of ingress calls this.
#ifndef WEIR_DROPS_P4
#define WEIR_DROPS_P4

PACKET_COUNTER(reason_t, DROP_REASONS, drops);
GLOBAL_EVENT_COUNTER

control Drops(in metadata_t meta, inout target_t target) {
    apply {
        drops.count(meta.drop_reason);
        mark_to_drop(target);
    }
}

#endif
