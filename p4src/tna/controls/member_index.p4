// Reduces the path hash to the index of an ECMP member, or of a tree, as ../../controls/member_index.p4 does. TNA has no
// remainder: a mask takes the hash modulo a power of two, so sizes of groups and numbers of trees must be such.
//
//   MemberIndex   meta.ecmp_index = crc16(path hash >> slice) & (size - 1)      slice: 0, or 16 for any other
//   TreeIndex     meta.path_hash[7:0] = path hash & (number of trees - 1)
//
// Contract: after PathHash, which has left all 32 bits.
#ifndef WEIR_MEMBER_INDEX_P4
#define WEIR_MEMBER_INDEX_P4

control MemberIndex(inout metadata_t meta) {
    Hash<bit<16>>(HashAlgorithm_t.CRC16) of_all;
    Hash<bit<16>>(HashAlgorithm_t.CRC16) of_upper_half;

    apply {
        meta.ecmp_size = meta.ecmp_size - 1;
        if (meta.ecmp_slice == 0) {
            meta.ecmp_index = of_all.get({ meta.path_hash });
        } else {
            meta.ecmp_index = of_upper_half.get({ 16w0, meta.path_hash[31:16] });
        }
        meta.ecmp_index = meta.ecmp_index & meta.ecmp_size;
    }
}

control TreeIndex(inout metadata_t meta) {
    apply {
        meta.hash_range = meta.hash_range - 1;
        meta.path_hash[7:0] = meta.path_hash[7:0] & meta.hash_range;
    }
}

#endif
