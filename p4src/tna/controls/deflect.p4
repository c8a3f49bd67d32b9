// IOFD as ../../controls/deflect.p4 describes it: the packets that are deflected, their tokens, flags and priorities are the
// same. State differs, since a packet accesses one entry of a register, once:
//
//   the DFT          a cell selected by a hash of source, message and tokens. One RegisterAction claims it, matches it or
//                    frees it. If two flows select one cell, the second is not deflected
//   queue depth      the last depth that egress reported (report.p4), by a packet that came back by RECIRCULATION_PORT
//   a candidate      one of 16 entries of `deflect_port` for each port, over which the controller distributes the candidates
//
// An entry that was idle for longer than the register parameter `lifetime`, in ns, may be claimed by another flow.
#ifndef WEIR_DEFLECT_P4
#define WEIR_DEFLECT_P4

#define DFT_CELLS 4096

struct dft_t {
    bit<32> flow;                    // 0: free
    bit<32> seen;
}

Register<bit<16>, port_t>(PORTS, 0) waiting;          // units of 80 bytes, saturated
Register<dft_t, bit<12>>(DFT_CELLS, {0, 0}) dft;
Register<bit<16>, bit<12>>(DFT_CELLS, 0) dft_out;

// Stores the depth that a report carries, and drops the packet.
control TakeReport(in headers_t hdr, inout target_t target) {
    RegisterAction<bit<16>, port_t, bit<16>>(waiting) take = {
        void apply(inout bit<16> entry) {
            entry = hdr.report.depth;
        }
    };

    apply {
        take.execute(hdr.report.port[8:0]);
        mark_to_drop(target);
    }
}

control Deflect(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    LOCAL_EVENT_COUNTER
    CRC32_UNIT(digest)
    // Of CRC-16, 12 bits would put 64 messages in a row into 8 cells: its polynomial has few terms.
    Hash<bit<12>>(HashAlgorithm_t.CRC32) place;
    RegisterParam<bit<32>>(0x7FFF_FFFF) lifetime;
    bit<32> flow;
    bit<12> cell;
    bit<16> depth;
    bit<16> threshold;               // then the depth above it
    port_t chosen;
    port_t second;
    bit<3> detour_priority;
    bit<3> escape_priority;
    bit<1> deflects;                 // escape_class has an entry for these tokens
    bit<1> none_left;                // no candidate but the ingress port
    bit<1> makes;                    // START that is to be deflected
    bit<1> found;
    bit<16> out_by;

    RegisterAction<bit<16>, port_t, bit<16>>(waiting) read_waiting = {
        void apply(inout bit<16> entry, out bit<16> read) {
            read = entry;
        }
    };
    RegisterAction<dft_t, bit<12>, bit<1>>(dft) claim = {
        void apply(inout dft_t entry, out bit<1> is_ours) {
            is_ours = 0;
            if (entry.flow == 0 || target.time - entry.seen > lifetime.read()) {
                is_ours = 1;
                entry.flow = flow;
                entry.seen = target.time;
            }
        }
    };
    RegisterAction<dft_t, bit<12>, bit<1>>(dft) find = {
        void apply(inout dft_t entry, out bit<1> is_ours) {
            is_ours = 0;
            if (entry.flow == flow) {
                is_ours = 1;
                entry.seen = target.time;
            }
        }
    };
    RegisterAction<dft_t, bit<12>, bit<1>>(dft) free = {
        void apply(inout dft_t entry, out bit<1> is_ours) {
            is_ours = 0;
            if (entry.flow == flow) {
                is_ours = 1;
                entry.flow = 0;
            }
        }
    };
    RegisterAction<bit<16>, bit<12>, bit<16>>(dft_out) write_out = {
        void apply(inout bit<16> port) {
            port = (bit<16>)chosen;
        }
    };
    RegisterAction<bit<16>, bit<12>, bit<16>>(dft_out) read_out = {
        void apply(inout bit<16> port, out bit<16> read) {
            read = port;
        }
    };

    // Two actions, since an action has 32 bits for results of hashes.
    action digest_flow() {
        CRC32(digest, flow, ({ hdr.ipv4.src_addr, hdr.weir.message, hdr.weir.tokens }), WHOLE_HASH);
    }
    action select_cell() {
        cell = place.get({ hdr.ipv4.src_addr, hdr.weir.message, hdr.weir.tokens });
    }

    // Threshold of congestion in units of 80 bytes.
    action over(bit<16> limit) {
        threshold = limit;
    }

    action never() {
        threshold = 0xFFFF;
    }

    table deflection {
        key = { target.egress_spec : exact @name("port"); }
        actions = { over; @defaultonly never; }
        const default_action = never();
        size = PORTS;
    }

    action deflect_to(port_t port, port_t other) {
        chosen = port;
        second = other;
    }
    action no_candidate() {
        chosen = target.ingress_port;
        second = target.ingress_port;
    }

    table deflect_port {
        key = {
            target.egress_spec : exact @name("port");
            target.random : exact @name("index");
        }
        actions = { deflect_to; @defaultonly no_candidate; }
        const default_action = no_candidate();
        size = DEFLECT_PORT_ENTRIES;
    }

    action wait_in(bit<3> escape, bit<3> detour) {
        deflects = 1;
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

    // Every table and register is accessed without a condition on the route or on results of others where the result does no
    // harm: Tofino 1 has 12 stages, and a condition on a result waits for its stage.
    apply {
        deflects = 0;
        none_left = 0;
        makes = 0;
        found = 0;
        digest_flow();
        select_cell();
        if (hdr.weir.kind == KIND_DATA && (hdr.weir.tokens != 0 || hdr.weir.flags & FLAG_ESCAPE != 0)) {
            escape_class.apply();
        }
        deflection.apply();
        deflect_port.apply();
        depth = read_waiting.execute(target.egress_spec);

        threshold = depth |-| threshold;
        if (chosen == target.ingress_port && second == target.ingress_port) {
            none_left = 1;
        }
        if (chosen == target.ingress_port) {
            chosen = second;
        }
        if (deflects == 1 && (meta.drop_reason == DROP_NONE
                || (meta.drop_reason == DROP_SAME_PORT && hdr.weir.flags & FLAG_ESCAPE != 0))) {
            if (hdr.weir.flags & FLAG_ESCAPE != 0) {
                target.priority = escape_priority;
            }
            if (hdr.weir.tokens != 0) {
                if (hdr.weir.flags & (FLAG_START | FLAG_RETRANSMIT) == FLAG_START && none_left == 0
                    && (threshold != 0 || meta.drop_reason == DROP_SAME_PORT)) {
                    makes = 1;
                    if (hdr.weir.flags & FLAG_END != 0) {
                        found = 1;
                    } else {
                        found = claim.execute(cell);
                    }
                } else if (hdr.weir.flags & FLAG_END != 0) {
                    found = free.execute(cell);
                } else {
                    found = find.execute(cell);
                }
                if (found == 1) {
                    if (makes == 1) {
                        // A message of one packet has no entry.
                        if (hdr.weir.flags & FLAG_END == 0) {
                            write_out.execute(cell);
                        }
                        target.egress_spec = chosen;
                    } else {
                        out_by = read_out.execute(cell);
                        target.egress_spec = out_by[8:0];
                    }
                    misroute();
                }
            }
            meta.drop_reason = DROP_NONE;
        }
    }
}

#endif
