// Reduces the path hash to the index of an ECMP member, or of a tree.
//
//   MemberIndex   meta.ecmp_index = crc16(path hash >> slice) modulo size       (forwarding.p4: why a second CRC)
//   TreeIndex     meta.path_hash[7:0] = path hash modulo the number of trees
//
// Contract: after PathHash, which reduced the hash modulo meta.hash_range; so TreeIndex does nothing on this target.
#ifndef WEIR_MEMBER_INDEX_P4
#define WEIR_MEMBER_INDEX_P4

control MemberIndex(inout metadata_t meta) {
    apply {
        CRC16(meta.ecmp_index, { meta.path_hash >> meta.ecmp_slice }, meta.ecmp_size);
    }
}

control TreeIndex(inout metadata_t meta) {
    apply {}
}

#endif
