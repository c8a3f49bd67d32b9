// States of a parser, from Ethernet to Weir, as parser.p4 draws them. Each parser that reads frames includes this file inside
// of its braces. They extract into hdr and set meta.drop_reason. VERIFY_IPV4_IN_PARSER is the target's.
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
        VERIFY_IPV4_IN_PARSER
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

    state udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.udp);
        transition select(hdr.ports.src_port, hdr.ports.dst_port) {
            (WEIR_PORT, _): weir_length;
            (_, WEIR_PORT): weir_length;
            default: accept;
        }
    }

    // A UDP length below 32 (its upper 11 bits are zero) leaves no room for the 24 bytes of Weir. A state of its own, as
    // Tofino's parser matches four bytes at a time.
    state weir_length {
        transition select(hdr.udp.length) {
            0 &&& 0xFFE0: short_weir;
            default: weir;
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
