// May this IPv4 packet be forwarded?
//
//   parser's reason -> parser error -> header checksum -> lengths -> TTL 0 or 1 -> yes
//
// Contract: hdr.ipv4 is valid. Sets meta.drop_reason; changes nothing else. The first reason wins.
// A frame longer than its packet is padding and is forwarded whole.
#ifndef WEIR_ADMISSION_P4
#define WEIR_ADMISSION_P4

control Admission(in headers_t hdr, inout metadata_t meta, in target_t target) {
    apply {
        if (meta.drop_reason != DROP_NONE) {
            // the parser has said why
        } else if (PARSER_FAILED(target)) {
            if (hdr.udp.isValid()) {
                meta.drop_reason = DROP_SHORT_WEIR;
            } else {
                meta.drop_reason = DROP_PARSE_ERROR;
            }
        } else if (target.checksum_error != 0) {
            meta.drop_reason = DROP_BAD_IP_CHECKSUM;
        } else if (LENGTH_IS_WRONG(hdr.ipv4, target)) {
            meta.drop_reason = DROP_BAD_IP_LENGTH;
        } else if (hdr.ipv4.ttl <= TTL_LAST_HOP) {
            meta.drop_reason = DROP_TTL_EXPIRED;
        }
    }
}

#endif
