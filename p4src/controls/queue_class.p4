// Selects the queue of DATA at ports that serve several queues by weight.
//
//   data_class[dscp] -> set_priority(priority)
//   miss             -> the priority of traffic_class stays
//
// Also for PROBEs, which take the queue of their flow (HPCC++ draft, section 6.1). The queues that the traffic manager serves
// by weight exclude priority 0, whose queue sends only if all others are empty: PORT_IS_EMPTY relies on this.
#ifndef WEIR_QUEUE_CLASS_P4
#define WEIR_QUEUE_CLASS_P4

control QueueClass(in headers_t hdr, @noWarn("unused") in metadata_t meta, inout target_t target) {
    action set_priority(bit<3> priority) { target.priority = priority; }

    table data_class {
        key = { hdr.ipv4.dscp : exact @name("dscp"); }
        actions = { set_priority; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 64;
    }

    apply {
        if (hdr.weir.isValid() && (hdr.weir.kind == KIND_DATA || hdr.weir.kind == KIND_PROBE)) {
            data_class.apply();
        }
    }
}

#endif
