// Reads the profile of a port: its rate code and ECN thresholds.
//
//   port_profile[profile_port] -> profile(rate_code, ecn_kmin, ecn_kmax, ecn_slope, fabric)
//   miss                       -> rate code 0 (unknown), never marks
//
// Contract: profile_port is the egress port. Exception: for an ACK in fncc.p4 and weir.p4 it is the ingress
// port, whose rate the record must carry; ACKs are Not-ECT, so they are never marked. A miss leaves the
// initial zeros. `fabric` is 1 for ports to switches and 0 for ports to hosts; no program of Weir reads it.
#ifndef WEIR_PORT_PROFILE_P4
#define WEIR_PORT_PROFILE_P4

control PortProfile(inout metadata_t meta, in port_t profile_port) {
    @noWarn("unused")
    action profile(bit<4> rate_code, bit<32> ecn_kmin, bit<32> ecn_kmax, bit<32> ecn_slope, bit<1> fabric) {
        meta.rate_code = rate_code;
        meta.ecn_kmin = ecn_kmin;
        meta.ecn_kmax = ecn_kmax;
        meta.ecn_slope = ecn_slope;
    }

    table port_profile {
        key = { profile_port : exact @name("profile_port"); }
        actions = { profile; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    apply {
        port_profile.apply();
    }
}

#endif
