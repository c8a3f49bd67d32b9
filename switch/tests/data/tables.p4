// Every kind of table, and what a pipeline does beside forwarding, for switch/tests/it/tables.rs.
#include <core.p4>
#include <v1model.p4>

header key_t {
    bit<8> what;
    bit<8> small;
    bit<32> addr;
    bit<128> wide;
    bit<16> port;
    bit<16> result;
}
struct headers_t {
    key_t key;
}
struct metadata_t {
    @field_list(1)
    bit<16> kept;
    bit<16> lost;
    bit<2> colour;
}
struct learned_t {
    bit<32> addr;
    bit<16> port;
}

parser MyParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    state start {
        packet.extract(hdr.key);
        transition accept;
    }
}
control MyVerify(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}
control MyUpdate(inout headers_t hdr, inout metadata_t meta) {
    apply {}
}

control MyIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    register<bit<48>>(4) last;
    counter(4, CounterType.packets_and_bytes) seen;
    meter(4, MeterType.packets) limit;
    direct_counter(CounterType.packets_and_bytes) hits;
    direct_meter<bit<2>>(MeterType.packets) pace;

    action result(bit<16> value) {
        hdr.key.result = value;
    }
    action pair(bit<16> value, bit<128> wide) {
        hdr.key.result = value;
        hdr.key.wide = wide;
    }
    action drop() {
        mark_to_drop(std);
    }
    action paced(bit<16> value) {
        hdr.key.result = value;
        pace.read(meta.colour);
    }
    table exact_one {
        key = { hdr.key.port : exact; }
        actions = { result; pair; NoAction; }
        default_action = NoAction;
        size = 4;
        counters = hits;
    }
    table exact_wide {
        key = { hdr.key.wide : exact; hdr.key.small : exact; }
        actions = { result; pair; }
        const default_action = result(0xdead);
    }
    table longest {
        key = { hdr.key.addr : lpm; hdr.key.small : exact; }
        actions = { result; drop; }
        default_action = drop;
    }
    table longest_wide {
        key = { hdr.key.wide : lpm; }
        actions = { result; }
        default_action = result(1);
    }
    table masked {
        key = { hdr.key.addr : ternary; hdr.key.port : range; hdr.key.small : optional; }
        actions = { result; }
        default_action = result(2);
    }
    table fixed_rows {
        key = { hdr.key.small : ternary; }
        actions = { result; }
        const default_action = result(99);
        const entries = {
            0x10 &&& 0xf0 : result(16);
            0x12 : result(18);
            0x20 &&& 0xe0 : result(32);
        }
    }
    action_profile(8) shared;
    table by_profile {
        key = { hdr.key.port : exact; }
        actions = { result; drop; }
        implementation = shared;
    }
    action_selector(HashAlgorithm.crc16, 32, 16) chosen;
    table by_selector {
        key = { hdr.key.port : exact; hdr.key.addr : selector; }
        actions = { result; }
        implementation = chosen;
    }
    table metered {
        key = { hdr.key.port : exact; }
        actions = { paced; }
        meters = pace;
    }
    table idle {
        key = { hdr.key.port : exact; }
        actions = { result; NoAction; }
        default_action = NoAction;
        support_timeout = true;
    }

    apply {
        std.egress_spec = 1;
        if (hdr.key.what == 0) {
            exact_one.apply();
        } else if (hdr.key.what == 1) {
            exact_wide.apply();
        } else if (hdr.key.what == 2) {
            longest.apply();
        } else if (hdr.key.what == 3) {
            longest_wide.apply();
        } else if (hdr.key.what == 4) {
            if (!masked.apply().hit) {
                hdr.key.small = 0xff;
            }
        } else if (hdr.key.what == 5) {
            fixed_rows.apply();
        } else if (hdr.key.what == 6) {
            by_profile.apply();
        } else if (hdr.key.what == 7) {
            by_selector.apply();
        } else if (hdr.key.what == 8) {
            metered.apply();
            hdr.key.small = (bit<8>) meta.colour;
        } else if (hdr.key.what == 9) {
            switch (idle.apply().action_run) {
                result: { hdr.key.small = 7; }
                default: { hdr.key.small = 8; }
            }
        } else if (hdr.key.what == 10) {
            bit<48> before;
            bit<32> cell = (bit<32>) hdr.key.small;
            last.read(before, cell);
            hdr.key.result = (bit<16>) (before >> 4);
            last.write(cell, (bit<48>) hdr.key.addr << 4);
            seen.count(cell);
            limit.execute_meter(cell, meta.colour);
            hdr.key.port = (bit<16>) meta.colour;
        } else if (hdr.key.what == 11) {
            digest<learned_t>(1, { hdr.key.addr, hdr.key.port });
        } else if (hdr.key.what == 12) {
            meta.kept = hdr.key.port;
            meta.lost = hdr.key.port;
            if (std.instance_type == 0) {
                hdr.key.result = 0xbad;
                meta.kept = 0x77;
                resubmit_preserving_field_list(1);
            }
            hdr.key.result = (bit<16>) std.instance_type;
        } else if (hdr.key.what == 13) {
            meta.kept = hdr.key.port;
            meta.lost = hdr.key.port;
            hdr.key.result = 0xbad;
            clone_preserving_field_list(CloneType.I2E, 5, 1);
        } else if (hdr.key.what == 14) {
            std.mcast_grp = hdr.key.port;
            if (hdr.key.small == 1) {
                drop();
            }
        } else if (hdr.key.what == 15) {
            hash(hdr.key.result, HashAlgorithm.crc32, 16w100, { hdr.key.addr, hdr.key.port }, 32w1000);
        } else if (hdr.key.what == 16) {
            random(hdr.key.result, 10, 19);
        } else if (hdr.key.what == 17) {
            if (hdr.key.small == 1) {
                hdr.key.result = 1;
                exit;
            }
            hdr.key.result = 2;
        } else if (hdr.key.what == 18) {
            truncate(10);
        } else if (hdr.key.what == 19) {
            std.priority = 5;
            log_msg("port {} of {}", { hdr.key.port, hdr.key.wide });
            assert(hdr.key.small != 1);
        }
    }
}
control MyEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t std) {
    apply {
        if (std.instance_type == 1) {
            // A clone of ingress: its metadata is gone but for the list.
            hdr.key.port = meta.kept;
            hdr.key.small = (bit<8>) meta.lost;
        } else if (hdr.key.what == 20) {
            hdr.key.what = 21;
            meta.kept = hdr.key.port;
            recirculate_preserving_field_list(1);
        } else if (hdr.key.what == 21) {
            hdr.key.port = meta.kept + 1;
        } else if (hdr.key.what == 22) {
            mark_to_drop(std);
        } else if (hdr.key.what == 23) {
            hdr.key.port = (bit<16>) std.packet_length;
            hdr.key.addr = (bit<32>) std.enq_qdepth;
            hdr.key.small = (bit<8>) std.egress_rid;
            hdr.key.result = (bit<16>) std.egress_global_timestamp;
        } else if (hdr.key.what == 24) {
            hdr.key.what = 25;
            meta.kept = 0x55;
            clone_preserving_field_list(CloneType.E2E, 6, 1);
            hdr.key.result = 0x11;
        }
    }
}
control MyDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr.key);
    }
}
V1Switch(MyParser(), MyVerify(), MyIngress(), MyEgress(), MyUpdate(), MyDeparser()) main;
