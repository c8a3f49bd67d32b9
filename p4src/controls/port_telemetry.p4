// Does this packet get a record of this port?
//
//   port_telemetry[port] -> tells(on_data, on_acks)
//   miss                 -> on data and on ACKs and NACKs
//
//   TELEMETRY on DATA or PROBE, and on_data of the port that it leaves by     yes
//   TELEMETRY on an ACK or NACK, and on_acks of the port its data left by     yes
//   all else                                                                  no
//
// HPCC's ACKs carry their records without TELEMETRY, so that one packet never gathers both.
//
// Contract: hdr.weir is valid; described is the port that the record would be about.
#ifndef WEIR_PORT_TELEMETRY_P4
#define WEIR_PORT_TELEMETRY_P4

control PortTelemetry(in headers_t hdr, in port_t described, out bit<1> asks) {
    bit<1> of_data;
    bit<1> of_acks;

    action tells(bit<1> on_data, bit<1> on_acks) {
        of_data = on_data;
        of_acks = on_acks;
    }

    table port_telemetry {
        key = { described : exact @name("port"); }
        actions = { tells; }
        default_action = tells(1, 1);
        size = PORTS;
    }

    apply {
        asks = 0;
        if (hdr.weir.flags & FLAG_TELEMETRY != 0) {
            port_telemetry.apply();
            if (IS_ANSWER(hdr.weir)) {
                asks = of_acks;
            } else if (hdr.weir.kind == KIND_DATA || hdr.weir.kind == KIND_PROBE) {
                asks = of_data;
            }
        }
    }
}

#endif
