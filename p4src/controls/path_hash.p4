// The same number for both directions of a flow.
//
//   src + dst, src ^ dst, sport + dport, sport ^ dport, protocol --crc32--> modulo meta.hash_range
//                                                                         --> meta.path_hash
//
// Sum and exclusive or are commutative, so data and its ACK hash alike; together they tell flows
// apart as the unordered pair of ends would.
//
// Contract: hdr.ipv4 is valid. Packets without ports, fragments among them, are hashed by addresses
// and protocol. A range of 0 is taken as 1 (BMv2).
#ifndef WEIR_PATH_HASH_P4
#define WEIR_PATH_HASH_P4

control PathHash(in headers_t hdr, inout metadata_t meta) {
    CRC32_UNIT(with_ports)
    CRC32_UNIT(without_ports)

    apply {
        if (hdr.ports.isValid()) {
            CRC32(with_ports, meta.path_hash, ({
                hdr.ipv4.src_addr + hdr.ipv4.dst_addr, hdr.ipv4.src_addr ^ hdr.ipv4.dst_addr,
                hdr.ports.src_port + hdr.ports.dst_port, hdr.ports.src_port ^ hdr.ports.dst_port,
                hdr.ipv4.protocol }), meta.hash_range);
        } else {
            CRC32(without_ports, meta.path_hash, ({
                hdr.ipv4.src_addr + hdr.ipv4.dst_addr, hdr.ipv4.src_addr ^ hdr.ipv4.dst_addr,
                hdr.ipv4.protocol }), meta.hash_range);
        }
    }
}

#endif
