// Records a packet's path: the path_id of every Weir packet is exclusive-ored with this switch's
// id, with or without telemetry, so that the paths of data and ACK can be compared.
//
//   switch_identity -> identify(switch_id) as default action     unset: path_id stays
//
// Contract: hdr.weir is valid.
#ifndef WEIR_SWITCH_IDENTITY_P4
#define WEIR_SWITCH_IDENTITY_P4

control SwitchIdentity(inout headers_t hdr) {
    action identify(bit<12> switch_id) {
        hdr.weir.path_id = hdr.weir.path_id ^ switch_id;
    }

    table switch_identity {
        actions = { identify; @defaultonly NoAction; }
        default_action = NoAction();
        size = 1;
    }

    apply {
        switch_identity.apply();
    }
}

#endif
