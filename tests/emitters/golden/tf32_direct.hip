// mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: exchange (direct), 4 exchanges, 8 selects, 6 logic, 2 tests
// source[i]: the f32 registers of a lane in the layout mma.m16n8k8.tf32:C.
// destination[i]: the tf32 registers of the same lane for mma.m16n8k8.tf32:A.
// All 32 lanes of the warp must call it together.
__device__ __forceinline__ void regweave_mma_m16n8k8_tf32_C_to_mma_m16n8k8_tf32_A_direct(
    const float (&source)[4], unsigned (&destination)[4]) {
    const unsigned lane = __builtin_amdgcn_workitem_id_x() & 31u;  // in one-dimensional blocks
    const unsigned v5 = ((lane >> 1u) & 1u) | (lane << 1u);
    const unsigned v7 = v5 ^ 2u;
    const float s0 = source[0];
    const float s1 = source[1];
    const float s2 = source[2];
    const float s3 = source[3];
    const bool v16 = (lane & 2u) != 0u;
    const unsigned v17 = v16 ? __builtin_bit_cast(unsigned, s1) : __builtin_bit_cast(unsigned, s0);
    const unsigned v18 = v16 ? __builtin_bit_cast(unsigned, s3) : __builtin_bit_cast(unsigned, s2);
    const unsigned v19 = v16 ? __builtin_bit_cast(unsigned, s0) : __builtin_bit_cast(unsigned, s1);
    const unsigned v20 = v16 ? __builtin_bit_cast(unsigned, s2) : __builtin_bit_cast(unsigned, s3);
    const unsigned v21 = __builtin_amdgcn_ds_bpermute(((lane & ~3u) | (v5 & 3u)) << 2u, v17);
    const unsigned v22 = __builtin_amdgcn_ds_bpermute(((lane & ~3u) | (v5 & 3u)) << 2u, v18);
    const unsigned v23 = __builtin_amdgcn_ds_bpermute(((lane & ~3u) | (v7 & 3u)) << 2u, v19);
    const unsigned v24 = __builtin_amdgcn_ds_bpermute(((lane & ~3u) | (v7 & 3u)) << 2u, v20);
    const bool v25 = (lane & 1u) != 0u;
    const unsigned v26 = v25 ? v23 : v21;
    const unsigned v27 = v25 ? v24 : v22;
    const unsigned v28 = v25 ? v21 : v23;
    const unsigned v29 = v25 ? v22 : v24;
    destination[0] = v26;
    destination[1] = v27;
    destination[2] = v28;
    destination[3] = v29;
}
