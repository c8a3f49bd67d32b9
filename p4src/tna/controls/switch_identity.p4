// Records a packet's path, as ../../controls/switch_identity.p4 does. path_id shares a byte with int_hops, and Tofino's
// exclusive or writes whole containers: it is computed in metadata and then set.
#ifndef WEIR_SWITCH_IDENTITY_P4
#define WEIR_SWITCH_IDENTITY_P4

control SwitchIdentity(inout headers_t hdr) {
    bit<12> path;

    action identify(bit<12> switch_id) {
        path = hdr.weir.path_id ^ switch_id;
    }
    action keep() {
        path = hdr.weir.path_id;
    }

    table switch_identity {
        actions = { identify; @defaultonly keep; }
        default_action = keep();
        size = 1;
    }

    apply {
        switch_identity.apply();
        hdr.weir.path_id = path;
    }
}

#endif
