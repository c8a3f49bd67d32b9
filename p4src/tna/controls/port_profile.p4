// What kind of port is this? As ../../controls/port_profile.p4; of its ECN thresholds the number of a ramp (ecn.p4).
//
//   port_profile[profile_port] -> profile(rate_code, ecn_ramp, fabric)
//   miss                       -> rate code 0 (unknown), ramp 0
#ifndef WEIR_PORT_PROFILE_P4
#define WEIR_PORT_PROFILE_P4

control PortProfile(inout metadata_t meta, in port_t profile_port) {
    @noWarn("unused")
    action profile(bit<4> rate_code, bit<8> ecn_ramp, bit<1> fabric) {
        meta.rate_code = rate_code;
        meta.ecn_ramp = ecn_ramp;
    }

    table port_profile {
        key = { profile_port : exact @name("profile_port"); }
        actions = { profile; }
        const default_action = profile(0, 0, 0);
        size = PORTS;
    }

    apply {
        port_profile.apply();
    }
}

#endif
