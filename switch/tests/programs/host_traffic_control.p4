// Counts the packets and bytes to each host.
//
//   host_traffic[dst_addr] -> count()        miss: not counted
//
// Contract: the packet was admitted and has an egress port.
control HostTraffic(inout headers_t hdr, inout metadata_t meta, inout target_t target) {
    direct_counter(CounterType.packets_and_bytes) host_counter;

    action count() { host_counter.count(); }

    table host_traffic {
        key = { hdr.ipv4.dst_addr : exact @name("dst_addr"); }
        actions = { count; @defaultonly NoAction; }
        const default_action = NoAction();
        counters = host_counter;
        size = 1024;
    }

    apply {
        if (hdr.ipv4.isValid()) {
            host_traffic.apply();
        }
    }
}
