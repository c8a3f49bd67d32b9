// Parser, checksums and deparser.
//
//   port 255 -> packet_out -> accept                    (frames from the controller are not parsed further)
//   else     -> ethernet -> ipv4 -> ports -> udp -> weir -> accept
//                  |          |       '-- TCP ends here
//                  |          '-- fragments, other protocols, refused headers end here
//                  '-- other ethertypes end here (packet_io handles them)
//
// The parser extracts only the headers that are read later. If a packet must not be forwarded, it
// writes the reason and accepts; a frame that ends inside a header sets parser_error. The control
// `Admission` drops both.
#ifndef WEIR_PARSER_P4
#define WEIR_PARSER_P4

parser WeirParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout target_t target) {
    state start {
        transition select(target.ingress_port) {
            CPU_PORT: from_cpu;
            default: ethernet;
        }
    }

    state from_cpu {
        packet.extract(hdr.packet_out);
        transition accept;
    }

#include "frame_states.p4"
}

control WeirVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(), IPV4_CHECKED_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control WeirComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(), IPV4_CHECKED_FIELDS, hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control WeirDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.packet_in);
        packet.emit(hdr.ethernet);
        packet.emit(hdr.ipv4);
        packet.emit(hdr.ports);
        packet.emit(hdr.udp);
        packet.emit(hdr.weir);
#ifdef WITH_LINK_IDS
        packet.emit(hdr.link);
#endif
#ifdef WITH_QUEUE_INFO
        packet.emit(hdr.queue);
#endif
        packet.emit(hdr.record);
    }
}

#endif
