// IOFD, in-order flow deflection: short messages take another path when theirs is congested, all packets of a message
// the same one (Dart, section IV).
//
//   START, tokens left, port congested ---> a random candidate of `deflect_port`, remembered in the DFT until END
//   flow in the DFT -----------------------> always the port that is remembered there
//   anything else -------------------------> the port that Forwarding has chosen
//
//   the DFT:  dft_flow  | source, message |   whose packets ...
//             dft_out   | tokens | port   |   ... with this number of tokens leave by this port; 0 = entry is free
//             dft_seen  | time            |   time of the last one, in ticks
//
// Each packet carries its own tokens; the host gives all packets of a message the same number, and every deflection
// takes one. A message may pass a switch twice, deflected elsewhere or back by the port that it was deflected to.
// Such visits differ in tokens, and only a packet's own visit counts: were the tokens not part of the key, a packet
// would find on its first visit the entry that START made on its second, or END free on its first what others
// need on theirs. So at every visit all packets of a message take the same port in the same queue, and none overtakes another.
//
// No entry is overwritten: END frees it. Only START makes one, so that a message is never parted in its middle, and a
// START that is sent again makes none: its END may have come through before. Where packets are lost an END may be
// lost too; an entry that was idle for longer than `lifetime` ticks may be taken by another flow (0: never).
// A message of one packet needs no entry.
//
// A deflected packet has the flag ESCAPE, which no switch takes away, and waits in priorities of its own, which `escape_class`
// gives for the tokens it has left: the one `detour` at the switch that deflects it, the one `escape` at all that follow, until
// it is deflected again. So no packet of the data class turns down and up again, nor one of an `escape` class, and those
// of a `detour` class go a single hop. Each class waits for itself, for which paths go up and then down, or for one of fewer
// tokens: with PFC none waits for itself in a cycle (docs/p4.md). Packets with a number of tokens that has no entry are not deflected.
//
// A packet with ESCAPE whose route leads out of its ingress port was deflected to here. For it that port counts as congested;
// without another candidate it may go back, which for packets that were never deflected is a drop (same_port).
//
// Contract: hdr.weir is valid; runs after Forwarding and Classes and before Enqueue, with egress_spec set unless
// meta.drop_reason says why not. Other kinds than DATA are left alone: an ACK's source and message may be
// those of another flow. The controller chooses the candidates of a port (docs/controller.md): fabric ports, not that port
// itself, whose neighbour's route does not lead straight back.
#ifndef WEIR_DEFLECT_P4
#define WEIR_DEFLECT_P4

#define DFT_ENTRIES 8

CELLS(64, DFT_ENTRIES, dft_flow);
CELLS(16, DFT_ENTRIES, dft_out);
CELLS(48, DFT_ENTRIES, dft_seen);

// dft_out: 3 bits unused, 4 of tokens, 9 of port. Tokens of an entry in use are never 0.
#define DFT_TOKENS(entry) ((entry)[12:9])
#define DFT_PORT(entry) ((entry)[8:0])
#define DFT_IS(i) (DFT_TOKENS(out##i) == hdr.weir.tokens && flow##i == flow)
#define DFT_IS_FREE(i) (out##i == 0)
#define DFT_IS_STALE(i) (now - seen##i > lifetime)

// One of each for every entry. What begins with FIND is a chain of if and else, whose last else follows it.
#define EACH_ENTRY(DO) DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7)
#define DFT_FLOW(i) bit<64> flow##i;
#define DFT_OUT(i) bit<16> out##i;
#define DFT_SEEN(i) bit<48> seen##i;
#define DFT_READ(i) dft_flow.read(flow##i, i); dft_out.read(out##i, i);
#define DFT_READ_SEEN(i) dft_seen.read(seen##i, i);
#define DFT_FIND(i) if (DFT_IS(i)) { entry = i; out_by = out##i; } else
#define DFT_FIND_FREE(i) if (DFT_IS_FREE(i)) { entry = i; } else
#define DFT_FIND_STALE(i) if (DFT_IS_STALE(i)) { entry = i; } else

control Deflect(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    bit<64> flow;
    bit<48> now;
    EACH_ENTRY(DFT_FLOW) EACH_ENTRY(DFT_OUT) EACH_ENTRY(DFT_SEEN)
    bit<32> entry;                   // DFT_ENTRIES: none
    bit<16> out_by;
    bit<32> waiting;
    bit<32> threshold;
    bit<16> candidates;              // 0: nothing is deflected from this port
    bit<48> lifetime;
    bit<16> candidate;
    port_t chosen;
    port_t second;
    bit<3> detour_priority;
    bit<3> escape_priority;

    // Threshold of congestion in bytes, number of candidate ports (numbered from 0), and lifetime of idle entries in ticks.
    action over(bit<32> limit, bit<16> ports, bit<48> ticks) {
        threshold = limit;
        candidates = ports;
        lifetime = ticks;
    }

    table deflection {
        key = { target.egress_spec : exact @name("port"); }
        actions = { over; @defaultonly NoAction; }
        const default_action = NoAction();
        size = PORTS;
    }

    // The candidate, and the one to take if the packet came by it.
    action deflect_to(port_t port, port_t other) {
        chosen = port;
        second = other;
    }

    table deflect_port {
        key = {
            target.egress_spec : exact @name("port");
            candidate : exact @name("index");
        }
        actions = { deflect_to; @defaultonly NoAction; }
        const default_action = NoAction();
        size = DEFLECT_PORT_ENTRIES;
    }

    // Where packets with these tokens wait: deflected before, and deflected here.
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

    action misroute() {
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
                now = TIME(target);
                entry = DFT_ENTRIES;
                out_by = 0;
                flow = hdr.ipv4.src_addr ++ hdr.weir.message;
                EACH_ENTRY(DFT_READ)
                EACH_ENTRY(DFT_FIND) {}

                if (entry != DFT_ENTRIES) {
                    target.egress_spec = DFT_PORT(out_by);
                    misroute();
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
                    queue_bytes.read(waiting, target.egress_spec);
                    if (candidates != 0 && (waiting > threshold || target.egress_spec == target.ingress_port)) {
                        RANDOM_BELOW(candidate, candidates);
                        chosen = target.ingress_port;
                        second = target.ingress_port;
                        deflect_port.apply();
                        if (chosen == target.ingress_port) {
                            chosen = second;
                        }
                        if (chosen == target.ingress_port) {
                            // no candidate is left
                        } else if (hdr.weir.flags & FLAG_END != 0) {
                            target.egress_spec = chosen;
                            misroute();
                        } else {
                            EACH_ENTRY(DFT_FIND_FREE) if (lifetime != 0) {
                                EACH_ENTRY(DFT_READ_SEEN)
                                EACH_ENTRY(DFT_FIND_STALE) {}
                                if (entry != DFT_ENTRIES) {
                                    events.count(EVENT_DFT_RECLAIMED);
                                }
                            }
                            if (entry == DFT_ENTRIES) {
                                events.count(EVENT_DFT_FULL);
                            } else {
                                dft_flow.write(entry, flow);
                                dft_out.write(entry, 3w0 ++ hdr.weir.tokens ++ chosen);
                                dft_seen.write(entry, now);
                                target.egress_spec = chosen;
                                misroute();
                            }
                        }
                    }
                }
            }
        }
    }
}

#endif
