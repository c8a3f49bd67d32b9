// The two pipes around WeirIngress and the egress that a program names PROGRAM_EGRESS; its PROGRAM_ANNOTATIONS are those of main.
//
//   ingress   fills in target, and passes the result of WeirIngress to the traffic manager: a port or a group, a queue, a drop
//   egress    drops frames that are shorter than their IPv4 header says, whose length ingress does not know
#ifndef WEIR_MAIN_P4
#define WEIR_MAIN_P4

#ifdef WEIR_DEFLECTS
#include "../controls/report.p4"
#endif

control TnaIngress(inout headers_t hdr, inout metadata_t meta, in ingress_intrinsic_metadata_t intrinsic,
                   in ingress_intrinsic_metadata_from_parser_t from_parser,
                   inout ingress_intrinsic_metadata_for_deparser_t for_deparser,
                   inout ingress_intrinsic_metadata_for_tm_t for_tm) {
    WeirIngress() weir;
#ifdef WEIR_DEFLECTS
    TakeReport() take_report;
#endif
    Random<bit<4>>() dice;
    target_t target;

    apply {
        target = {
            ingress_port = intrinsic.ingress_port, time = from_parser.global_tstamp[31:0],
            parser_error = from_parser.parser_err, checksum_error = meta.checksum_error, packet_length = 0,
            egress_spec = 0, priority = 0, mcast_grp = 0, drop_ctl = 0, random = dice.get(),
            egress_port = 0, deq_qdepth = 0
        };
        hdr.bridge.setValid();
        hdr.bridge.carries = CARRIES_OPAQUE;
        hdr.bridge.ingress_port = (bit<16>)intrinsic.ingress_port;
        if (hdr.ipv4.isValid()) {
            hdr.bridge.carries = CARRIES_FRAME;
        }
#ifdef WEIR_DEFLECTS
        if (hdr.report.isValid()) {
            take_report.apply(hdr, target);
        } else {
            weir.apply(hdr, meta, target);
        }
#else
        weir.apply(hdr, meta, target);
#endif
        for_deparser.drop_ctl = target.drop_ctl;
        for_tm.qid = (QueueId_t)target.priority;
        for_tm.ingress_cos = target.priority;
        // A packet with both would leave by the port as well as by the ports of the group.
        if (target.mcast_grp != 0) {
            for_tm.mcast_grp_a = target.mcast_grp;
        } else {
            for_tm.ucast_egress_port = target.egress_spec;
        }
    }
}

control TnaEgress(inout headers_t hdr, inout metadata_t meta, in egress_intrinsic_metadata_t intrinsic,
                  in egress_intrinsic_metadata_from_parser_t from_parser,
                  inout egress_intrinsic_metadata_for_deparser_t for_deparser,
                  inout egress_intrinsic_metadata_for_output_port_t for_port) {
    PROGRAM_EGRESS() program;
#ifdef WEIR_DEFLECTS
    Report() report;
#endif
    Counter<bit<32>, reason_t>(DROP_REASONS, CounterType_t.PACKETS) egress_drops;
    // pkt_length is the frame's on the wire that it came by: without the bridge, with the frame check sequence.
    const bit<16> FCS_BYTES = 4;
    target_t target;
    bit<16> missing;                 // bytes that total_len claims beyond it

    apply {
        target = {
            ingress_port = hdr.bridge.ingress_port[8:0], time = from_parser.global_tstamp[31:0],
            parser_error = 0, checksum_error = 0, packet_length = 0,
            egress_spec = 0, priority = 0, mcast_grp = 0, drop_ctl = 0, random = 0,
            egress_port = intrinsic.egress_port, deq_qdepth = intrinsic.deq_qdepth
        };
        meta.frame_bytes = meta.frame_bytes - FCS_BYTES;
        meta.ip_room = meta.ip_room - (FCS_BYTES + (bit<16>)ETHERNET_BYTES);
        missing = 0;
        if (hdr.ipv4.isValid()) {
            missing = hdr.ipv4.total_len |-| meta.ip_room;
        }
        hdr.bridge.setInvalid();
        if (missing != 0) {
            egress_drops.count(DROP_BAD_IP_LENGTH);
            for_deparser.drop_ctl = 1;
        } else {
            program.apply(hdr, meta, target);
#ifdef WEIR_DEFLECTS
            if (!hdr.report.isValid()) {
                report.apply(meta, target, for_deparser);
            }
#endif
        }
    }
}

Pipeline(TnaIngressParser(), TnaIngress(), TnaIngressDeparser(), TnaEgressParser(), TnaEgress(), TnaEgressDeparser()) pipe;

#ifdef PROGRAM_ANNOTATIONS
PROGRAM_ANNOTATIONS
#endif
Switch(pipe) main;

#endif
