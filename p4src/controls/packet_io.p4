// Frames for and from the controller, and what is not IP.
//
//   packet_out(port) from the CPU port ------> out by that port, header taken off, frame untouched
//   ethertype 0x88B5 from any other port ----> CPU port, packet_in(port it came by) in front
//   anything else ---------------------------> not_ip, or parse_error when it is too short
//
// Contract: hdr.ipv4 is not valid. Sets egress_spec or meta.drop_reason, and meta.enqueued_bytes,
// since these headers change the length that goes into the queue.
#ifndef WEIR_PACKET_IO_P4
#define WEIR_PACKET_IO_P4

const bit<32> CONTROLLER_HEADER_BYTES = 2;

control PacketIo(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    LOCAL_EVENT_COUNTER

    apply {
        if (hdr.packet_out.isValid()) {
            target.egress_spec = hdr.packet_out.egress_port;
            if (hdr.packet_out.egress_port == DROP_PORT) {
                meta.drop_reason = DROP_BAD_PORT;
            } else if (hdr.packet_out.egress_port == CPU_PORT) {
                meta.drop_reason = DROP_SAME_PORT;
            } else {
                events.count(EVENT_PACKET_OUT);
            }
            meta.enqueued_bytes = meta.enqueued_bytes - CONTROLLER_HEADER_BYTES;
            hdr.packet_out.setInvalid();
        } else if (!hdr.ethernet.isValid()) {
            meta.drop_reason = DROP_PARSE_ERROR;
        } else if (hdr.ethernet.ether_type == ETHERTYPE_PROBE) {
            hdr.packet_in.setValid();
            hdr.packet_in.ingress_port = target.ingress_port;
            hdr.packet_in.pad = 0;
            meta.enqueued_bytes = meta.enqueued_bytes + CONTROLLER_HEADER_BYTES;
            target.egress_spec = CPU_PORT;
            events.count(EVENT_PACKET_IN);
        } else if (hdr.ethernet.ether_type == ETHERTYPE_IPV4) {
            meta.drop_reason = DROP_PARSE_ERROR;
        } else {
            meta.drop_reason = DROP_NOT_IP;
        }
    }
}

#endif
