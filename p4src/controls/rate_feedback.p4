// RoCC's feedback: a RATE packet from the switch to the source of each flow, once after each computation.
//
//   sender --- DATA, TELEMETRY ---> [ before port p: this flow was not notified of p's rate yet ] --->
//          <-- RATE, grant = fair_rate[p], seq = p ------ a clone, truncated to its headers
//
// The paper notifies the flows with packets in the queue. Here a packet that joins the queue triggers it, so that
// the notification does not wait behind the queue.
// `last_notified` holds, per flow and port (2^16 cells, indexed by a hash of both), the time of the last computation that
// the source was notified of. Two flows that share a cell overwrite each other's time: at one port they are notified in
// turn, at two ports too often.
//
// The clone session has the number of the port that the data arrived by, and the controller binds it to that port. From
// there the packet follows the routes to the source.
//
// Contract: TriggerRateFeedback runs last in ingress, for a packet that goes to one port; BuildRatePacket in egress, for
// clones.
#ifndef WEIR_RATE_FEEDBACK_P4
#define WEIR_RATE_FEEDBACK_P4

#include "fair_rate.p4"

const bit<32> RATE_FRAME_BYTES = 66;
const bit<16> RATE_IP_BYTES    = 52;
const bit<16> RATE_UDP_BYTES   = 32;
const bit<8>  RATE_TTL         = 64;
const bit<32> NOTIFIED_CELLS   = 65536;

register<bit<32>, bit<16>>(NOTIFIED_CELLS) last_notified;

control TriggerRateFeedback(in headers_t hdr, inout metadata_t meta, in target_t target) {
    bit<16> cell;
    bit<32> computed;                // time of the computation of rate
    bit<32> last;
    bit<32> rate;

    apply {
        if (hdr.weir.isValid() && hdr.weir.kind == KIND_DATA && (hdr.weir.flags & FLAG_TELEMETRY) != 0) {
            fair_rate.read(rate, target.egress_spec);
            if (rate != 0) {
                rate_time.read(computed, target.egress_spec);
                CRC16(cell, ({ hdr.ipv4.src_addr, hdr.weir.message, (bit<16>)target.egress_spec }), NOTIFIED_CELLS);
                last_notified.read(last, cell);
                if (last != computed) {
                    last_notified.write(cell, computed);
                    meta.feedback_rate = rate;
                    meta.feedback_port = target.egress_spec;
                    CLONE_BACK(target);
                }
            }
        }
    }
}

control BuildRatePacket(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    ipv4_addr_t source;
    mac_t       source_mac;
    bit<16>     entropy;

    apply {
        source_mac = hdr.ethernet.src_addr;
        hdr.ethernet.src_addr = hdr.ethernet.dst_addr;
        hdr.ethernet.dst_addr = source_mac;
        source = hdr.ipv4.src_addr;
        hdr.ipv4.src_addr = hdr.ipv4.dst_addr;
        hdr.ipv4.dst_addr = source;
        hdr.ipv4.ttl = RATE_TTL;
        hdr.ipv4.ecn = ECN_NOT_ECT;
        hdr.ipv4.total_len = RATE_IP_BYTES;
        entropy = hdr.ports.src_port;
        hdr.ports.src_port = hdr.ports.dst_port;
        hdr.ports.dst_port = entropy;
        hdr.udp.length = RATE_UDP_BYTES;
        hdr.weir.kind = KIND_RATE;
        hdr.weir.express = 0;
        hdr.weir.flags = 0;
        hdr.weir.concurrency = 0;
        hdr.weir.int_hops = 0;
        hdr.weir.path_id = 0;
        hdr.weir.seq = (bit<32>)meta.feedback_port;
        hdr.weir.grant = meta.feedback_rate;
        truncate(RATE_FRAME_BYTES);
    }
}

#endif
