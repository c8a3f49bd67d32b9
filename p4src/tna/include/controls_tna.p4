// Parsers and deparsers of TNA's two pipes, and the controls that TNA needs in another form than v1model.
//
//   ingress   intrinsic, port metadata -> ethernet -> ipv4, its checksum -> ports -> udp -> weir      (parser.p4)
//   egress    intrinsic -> bridge -> the same once more, without checksum; opaque packets end here
//
// Egress sees bytes, not ingress' headers: it reads again what ingress has read.
#ifndef WEIR_CONTROLS_TNA_P4
#define WEIR_CONTROLS_TNA_P4

#include "../controls/member_index.p4"
#include "../controls/port_counts.p4"
#include "../controls/port_profile.p4"
#include "../controls/ecn.p4"
#include "../controls/switch_identity.p4"
#ifdef WEIR_DEFLECTS
#include "../controls/deflect.p4"
#endif

parser TnaIngressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out ingress_intrinsic_metadata_t intrinsic) {
    Checksum() ipv4_checksum;

    state start {
        packet.extract(intrinsic);
        packet.advance(PORT_METADATA_SIZE);
        meta.drop_reason = DROP_NONE;
        meta.checksum_error = 0;
        transition select(intrinsic.ingress_port) {
            CPU_PORT: from_cpu;
#ifdef WEIR_DEFLECTS
            RECIRCULATION_PORT: report;
#endif
            default: ethernet;
        }
    }

#ifdef WEIR_DEFLECTS
    state report {
        packet.extract(hdr.report);
        transition accept;
    }
#endif

    state from_cpu {
        packet.extract(hdr.packet_out);
        transition accept;
    }

#define CHECK_IPV4 ipv4_checksum.add(hdr.ipv4); meta.checksum_error = (bit<1>)ipv4_checksum.verify();
#include "../../include/frame_states.p4"
#undef CHECK_IPV4
}

parser TnaEgressParser(packet_in packet, out headers_t hdr, out metadata_t meta, out egress_intrinsic_metadata_t intrinsic) {
    state start {
        packet.extract(intrinsic);
        meta.drop_reason = DROP_NONE;
        meta.frame_bytes = intrinsic.pkt_length;     // main.p4 subtracts what does not count
        meta.ip_room = intrinsic.pkt_length;
        transition select(packet.lookahead<carries_t>()) {
#ifdef WEIR_DEFLECTS
            CARRIES_REPORT: report;
#endif
            CARRIES_OPAQUE: opaque;
            default: frame;
        }
    }

    state opaque {
        packet.extract(hdr.bridge);
        transition accept;
    }

    state frame {
        packet.extract(hdr.bridge);
        transition ethernet;
    }

#ifdef WEIR_DEFLECTS
    // Emitted as it came: ingress reads it.
    state report {
        packet.extract(hdr.report);
        transition accept;
    }
#endif

#define CHECK_IPV4
#include "../../include/frame_states.p4"
}

control TnaIngressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                           in ingress_intrinsic_metadata_for_deparser_t for_deparser) {
    apply {
        packet.emit(hdr);
    }
}

control TnaEgressDeparser(packet_out packet, inout headers_t hdr, in metadata_t meta,
                          in egress_intrinsic_metadata_for_deparser_t for_deparser) {
    Checksum() ipv4_checksum;
#ifdef WEIR_DEFLECTS
    Mirror() mirror;
#endif

    apply {
#ifdef WEIR_DEFLECTS
        if (for_deparser.mirror_type == REPORT_MIRROR) {
            mirror.emit<report_t>(meta.report_session, meta.report);
        }
#endif
        // Of a valid header only.
        hdr.ipv4.checksum = ipv4_checksum.update(IPV4_CHECKED_FIELDS);
        packet.emit(hdr);
    }
}

#endif
