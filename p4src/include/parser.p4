// Parser, checksums and deparser.
//
//   port 255 -> packet_out -> accept                    (what the controller sends is not looked into)
//   else     -> ethernet -> ipv4 -> ports -> udp -> weir -> accept
//                  |          |       '-- TCP ends here
//                  |          '-- fragments, other protocols, refused headers end here
//                  '-- other ethertypes end here (packet_io sorts them)
//
// The parser goes only as deep as something is read later. Where it sees that a packet must not be
// forwarded it writes the reason and stops; a frame that ends inside a header stops by itself and
// leaves parser_error. Both are turned into a drop by the control `Admission`.
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

    state ethernet {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.ether_type) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    // Ports are read only of packets that are not fragments: a later fragment has none, so the first
    // must not use them either, or the two would take different paths.
    state ipv4 {
        packet.extract(hdr.ipv4);
        transition select(hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.flags, hdr.ipv4.frag_offset, hdr.ipv4.protocol) {
            (4, 5, 0 &&& 1, 0, PROTOCOL_UDP): udp;
            (4, 5, 0 &&& 1, 0, PROTOCOL_TCP): tcp;
            (4, 5, _, _, _): accept;
            (4, 0 &&& 12, _, _, _): bad_ip_header;
            (4, 4, _, _, _): bad_ip_header;
            (4, _, _, _, _): ip_options;
            default: bad_ip_header;
        }
    }

    state tcp {
        packet.extract(hdr.ports);
        transition accept;
    }

    // A UDP length below 32 (its upper 11 bits are zero) leaves no room for the 24 bytes of Weir.
    state udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.udp);
        transition select(hdr.ports.src_port, hdr.ports.dst_port, hdr.udp.length) {
            (WEIR_PORT, _, 0 &&& 0xFFE0): short_weir;
            (_, WEIR_PORT, 0 &&& 0xFFE0): short_weir;
            (WEIR_PORT, _, _): weir;
            (_, WEIR_PORT, _): weir;
            default: accept;
        }
    }

    // Kinds 0 to 7 are known: the upper bit is zero.
    state weir {
        packet.extract(hdr.weir);
        transition select(hdr.weir.version, hdr.weir.kind) {
            (WEIR_VERSION, 0 &&& 8): accept;
            (WEIR_VERSION, _): bad_kind;
            default: bad_version;
        }
    }

    state bad_ip_header { meta.drop_reason = DROP_BAD_IP_HEADER; transition accept; }
    state ip_options    { meta.drop_reason = DROP_IP_OPTIONS;    transition accept; }
    state short_weir    { meta.drop_reason = DROP_SHORT_WEIR;    transition accept; }
    state bad_version   { meta.drop_reason = DROP_BAD_VERSION;   transition accept; }
    state bad_kind      { meta.drop_reason = DROP_BAD_KIND;      transition accept; }
}

#define IPV4_CHECKED_FIELDS { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.dscp, hdr.ipv4.ecn, \
    hdr.ipv4.total_len, hdr.ipv4.identification, hdr.ipv4.flags, hdr.ipv4.frag_offset, \
    hdr.ipv4.ttl, hdr.ipv4.protocol, hdr.ipv4.src_addr, hdr.ipv4.dst_addr }

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
        packet.emit(hdr.record);
    }
}

#endif
