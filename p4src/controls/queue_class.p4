// In which queue does DATA wait, where ports serve several by weight?
//
//   data_class[dscp] -> place_in(priority)
//   miss             -> as traffic_class has it
//
// DATA and PROBEs, which take the queue of their flow (HPCC++ draft, section 6.1). Priorities that the traffic manager serves
// by weight do not include 0, so that the lowest queue sends only when no other has a packet: PORT_IS_EMPTY relies on it.
#ifndef WEIR_QUEUE_CLASS_P4
#define WEIR_QUEUE_CLASS_P4

control QueueClass(in headers_t hdr, @noWarn("unused") in metadata_t meta, inout target_t target) {
    action place_in(bit<3> priority) { target.priority = priority; }

    table data_class {
        key = { hdr.ipv4.dscp : exact @name("dscp"); }
        actions = { place_in; @defaultonly NoAction; }
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
