// Which priority queue? By kind of Weir packet and its EXPRESS flag, by which hosts tell short messages from long ones
// (Dart's Pri-Q); all else waits in the lowest, 0.
//
//   traffic_class[kind, express] -> classify(priority)        7 is served first
//
// Contract: hdr.weir is valid. BMv2 has the priorities that --priority-queues gives it (1 unless
// told) and drops a packet whose priority it does not have.
#ifndef WEIR_CLASSES_P4
#define WEIR_CLASSES_P4

control Classes(in headers_t hdr, inout target_t target) {
    action classify(bit<3> priority) { target.priority = priority; }

    table traffic_class {
        key = {
            hdr.weir.kind    : exact @name("kind");
            hdr.weir.express : exact @name("express");
        }
        actions = { classify; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 32;
    }

    apply {
        traffic_class.apply();
    }
}

#endif
