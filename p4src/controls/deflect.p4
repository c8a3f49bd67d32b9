// IOFD, in-order flow deflection: short messages take another path when theirs is congested, and all packets of a message
// take the same one (Dart, section IV).
//
//   START, tokens left, port congested ---> a random candidate of `deflect_port`, stored in the DFT until END
//   flow in the DFT -----------------------> the port that is stored there
//   anything else -------------------------> the port that Forwarding has chosen
//
//   the DFT:  dft_flow  | source, message |   packets of this message ...
//             dft_out   | tokens | port   |   ... with this number of tokens leave by this port; 0 = entry is free
//             dft_seen  | time            |   time of the last such packet, in ticks
//
// Each packet carries its own tokens: the host gives all packets of a message the same number, and every deflection takes
// one. A message may visit a switch twice, when another switch deflected it or when it is sent back. The visits differ in
// tokens, which are therefore part of the key. Otherwise a packet could match on its first visit the entry that START
// created on its second, or END could free on its first visit an entry that other packets need on their second. So at every
// visit all packets of a message take the same port and the same queue, and none overtakes another.
//
// No entry is overwritten: END frees it. Only START creates one, so that a message is never split between two paths, and a
// retransmitted START creates none, since the END may already have passed. An END may be lost; therefore an entry that was
// idle for longer than `lifetime` ticks may be taken by another flow (0: never).
// A message of one packet needs no entry.
//
// A deflected packet has the flag ESCAPE, which no switch clears, and waits in priorities of its own, which `escape_class`
// has for each number of tokens: `detour` at the switch that deflects the packet, `escape` at all switches that follow until
// one deflects it again. So no packet of the data class or of an `escape` class goes down and up again in the topology, and
// packets of a `detour` class go a single hop. A class waits only for itself, whose paths go up and then down, or for a class
// of fewer tokens: PFC cannot deadlock (docs/p4-deflection.md). Packets whose number of tokens has no entry are not deflected.
//
// A packet with ESCAPE whose route leads out of its ingress port was deflected to this switch. For it, that port counts as
// congested; without another candidate it may go back. A packet that was never deflected is dropped there (same_port).
//
// Contract: hdr.weir is valid; runs after Forwarding and Classes and before Enqueue, with egress_spec set or a reason in
// meta.drop_reason. Only DATA is deflected, since an ACK's source and message may be those of another flow. The controller
// chooses the candidates of a port (docs/controller.md): fabric ports other than that port, whose neighbour's route does not
// lead straight back.
#ifndef WEIR_DEFLECT_P4
#define WEIR_DEFLECT_P4

#define DFT_ENTRIES 8

CELLS(64, DFT_ENTRIES, dft_flow);
CELLS(16, DFT_ENTRIES, dft_out);
CELLS(48, DFT_ENTRIES, dft_seen);

// dft_out: 3 bits unused, 4 of tokens, 9 of port. Tokens of an entry in use are never 0.
#define DFT_TOKENS(entry) ((entry)[12:9])
#define DFT_PORT(entry) ((entry)[8:0])
#define DFT_MATCHES(i) (DFT_TOKENS(out##i) == hdr.weir.tokens && flow##i == flow)
#define DFT_IS_FREE(i) (out##i == 0)
#define DFT_IS_STALE(i) (now - seen##i > lifetime)

// Expands a macro for every entry. The DFT_FIND macros form a chain of if and else, whose last else branch follows the call.
#define FOR_EACH_DFT_ENTRY(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define DFT_FLOW(i) bit<64> flow##i;
#define DFT_OUT(i) bit<16> out##i;
#define DFT_SEEN(i) bit<48> seen##i;
#define DFT_READ(i) dft_flow.read(flow##i, i); dft_out.read(out##i, i);
#define DFT_READ_SEEN(i) dft_seen.read(seen##i, i);
#define DFT_FIND(i) if (DFT_MATCHES(i)) { entry = i; dft_entry_out = out##i; } else
#define DFT_FIND_FREE(i) if (DFT_IS_FREE(i)) { entry = i; } else
#define DFT_FIND_STALE(i) if (DFT_IS_STALE(i)) { entry = i; } else

control Deflect(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    bit<64> flow;
    bit<48> now;
    FOR_EACH_DFT_ENTRY(DFT_FLOW) FOR_EACH_DFT_ENTRY(DFT_OUT) FOR_EACH_DFT_ENTRY(DFT_SEEN)
    bit<32> entry;                   // index; DFT_ENTRIES: none
    bit<16> dft_entry_out;
    bit<32> queued_bytes;
    bit<32> threshold;
    bit<16> candidates;              // 0: this port deflects no packets
    bit<48> lifetime;
    bit<16> candidate_index;
    port_t candidate_port;
    port_t fallback_port;
    bit<3> detour_priority;
    bit<3> escape_priority;

    // limit: congestion threshold in bytes; ports: number of candidate ports, whose indices begin with 0; ticks: lifetime of
    // idle entries.
    action over(bit<32> limit, bit<16> ports, bit<48> ticks) {
        threshold = limit;
        candidates = ports;
        lifetime = ticks;
    }

    table deflection {
        key = { target.egress_spec : exact @name("port") @refers_to(deflect_port, port); }
        actions = { over; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    // The candidate port, and the one to use instead if the candidate is the ingress port.
    action deflect_to(port_t port, port_t other) {
        candidate_port = port;
        fallback_port = other;
    }

    table deflect_port {
        key = {
            target.egress_spec : exact @name("port");
            candidate_index : exact @name("index");
        }
        actions = { deflect_to; @defaultonly NoAction; }
        const default_action = NoAction();
        size = DEFLECT_PORT_ENTRIES;
    }

    // Priorities for packets with this number of tokens: `escape` if an earlier switch deflected them, `detour` if this one
    // does.
    action wait_in(bit<3> escape, bit<3> detour) {
        escape_priority = escape;
        detour_priority = detour;
    }

    table escape_class {
        key = { hdr.weir.tokens : exact @name("tokens"); }
        actions = { wait_in; @defaultonly NoAction; }
        const default_action = NoAction();
        size = 16;
    }

    action deflect() {
        hdr.weir.tokens = hdr.weir.tokens - 1;
        hdr.weir.flags = hdr.weir.flags | FLAG_ESCAPE;
        target.priority = detour_priority;
        events.count(EVENT_DEFLECTED);
    }

    apply {
        escape_priority = 0;
        detour_priority = 0;
        if (hdr.weir.kind == KIND_DATA
            && (meta.drop_reason == DROP_NONE
                || (meta.drop_reason == DROP_SAME_PORT && hdr.weir.flags & FLAG_ESCAPE != 0))
            && (hdr.weir.tokens != 0 || hdr.weir.flags & FLAG_ESCAPE != 0)
            && escape_class.apply().hit) {
            meta.drop_reason = DROP_NONE;
            if (hdr.weir.flags & FLAG_ESCAPE != 0) {
                target.priority = escape_priority;
            }
            if (hdr.weir.tokens != 0) {
                now = INGRESS_TIME_48(target);
                entry = DFT_ENTRIES;
                dft_entry_out = 0;
                flow = hdr.ipv4.src_addr ++ hdr.weir.message;
                FOR_EACH_DFT_ENTRY(DFT_READ)
                FOR_EACH_DFT_ENTRY(DFT_FIND) {}

                if (entry != DFT_ENTRIES) {
                    target.egress_spec = DFT_PORT(dft_entry_out);
                    deflect();
                    if (hdr.weir.flags & FLAG_END != 0) {
                        dft_out.write(entry, 0);
                    } else {
                        dft_seen.write(entry, now);
                    }
                } else if (hdr.weir.flags & (FLAG_START | FLAG_RETRANSMIT) == FLAG_START) {
                    threshold = 0;
                    candidates = 0;
                    lifetime = 0;
                    deflection.apply();
                    queue_bytes.read(queued_bytes, target.egress_spec);
                    if (candidates != 0 && (queued_bytes > threshold || target.egress_spec == target.ingress_port)) {
                        RANDOM_BELOW(candidate_index, candidates);
                        candidate_port = target.ingress_port;
                        fallback_port = target.ingress_port;
                        deflect_port.apply();
                        if (candidate_port == target.ingress_port) {
                            candidate_port = fallback_port;
                        }
                        if (candidate_port == target.ingress_port) {
                            // No candidate but the ingress port.
                        } else if (hdr.weir.flags & FLAG_END != 0) {
                            target.egress_spec = candidate_port;
                            deflect();
                        } else {
                            FOR_EACH_DFT_ENTRY(DFT_FIND_FREE) if (lifetime != 0) {
                                FOR_EACH_DFT_ENTRY(DFT_READ_SEEN)
                                FOR_EACH_DFT_ENTRY(DFT_FIND_STALE) {}
                                if (entry != DFT_ENTRIES) {
                                    events.count(EVENT_DFT_RECLAIMED);
                                }
                            }
                            if (entry == DFT_ENTRIES) {
                                events.count(EVENT_DFT_FULL);
                            } else {
                                dft_flow.write(entry, flow);
                                dft_out.write(entry, 3w0 ++ hdr.weir.tokens ++ candidate_port);
                                dft_seen.write(entry, now);
                                target.egress_spec = candidate_port;
                                deflect();
                            }
                        }
                    }
                }
            }
        }
    }
}

#endif
