// Which of `fanout` ways does this packet take? The same in both directions of a flow.
//
//   src + dst, src ^ dst, sport + dport, sport ^ dport, protocol --crc32--> 32 bits
//   --shift right by this tier's slice--> --crc16, modulo fanout--> choice
//
// Sum and exclusive or are commutative, so data and its ACK hash alike; together they keep the pair
// apart as an unordered pair would. A salt per tier would not part the tiers: a CRC is linear, so a
// salt only exclusive-ors a constant, and the flows that met in one tier meet again in the next.
// Therefore each tier shifts the hash by its own slice, and the second CRC mixes what is left
// (tests/test_arithmetic.py shows that tiers are then independent).
//
// Contract: hdr.ipv4 is valid; meta.fanout > 0 (BMv2 takes 0 as 1). Packets without ports, fragments
// among them, are hashed by addresses and protocol.
#ifndef WEIR_PATH_HASH_P4
#define WEIR_PATH_HASH_P4

control PathHash(in headers_t hdr, inout metadata_t meta) {
    bit<32> path_hash;

    apply {
        if (hdr.ports.isValid()) {
            HASH_WORD(path_hash, ({
                hdr.ipv4.src_addr + hdr.ipv4.dst_addr, hdr.ipv4.src_addr ^ hdr.ipv4.dst_addr,
                hdr.ports.src_port + hdr.ports.dst_port, hdr.ports.src_port ^ hdr.ports.dst_port,
                hdr.ipv4.protocol }));
        } else {
            HASH_WORD(path_hash, ({
                hdr.ipv4.src_addr + hdr.ipv4.dst_addr, hdr.ipv4.src_addr ^ hdr.ipv4.dst_addr,
                hdr.ipv4.protocol }));
        }
        HASH_CHOICE(meta.choice, path_hash >> meta.slice, meta.fanout);
    }
}

#endif
