// mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: exchange (direct), 4 exchanges, 8 selects, 6 logic, 2 tests
// source[i]: the f32 registers of a lane in the layout mma.m16n8k8.tf32:C.
// destination[i]: the tf32 registers of the same lane for mma.m16n8k8.tf32:A.
// All 32 lanes of the warp must call it together.
static inline __attribute__((always_inline)) void regweave_mma_m16n8k8_tf32_C_to_mma_m16n8k8_tf32_A_direct(
    private const float *source, private uint *destination) {
    const float s0 = source[0];
    const float s1 = source[1];
    const float s2 = source[2];
    const float s3 = source[3];
    const uint lane = get_sub_group_local_id();
    const bool v9 = (lane & 2u) != 0u;
    const uint v10 = v9 ? as_uint(s1) : as_uint(s0);
    const uint v11 = v9 ? as_uint(s3) : as_uint(s2);
    const uint v12 = v9 ? as_uint(s0) : as_uint(s1);
    const uint v13 = v9 ? as_uint(s2) : as_uint(s3);
    const uint v18 = ((lane >> 1u) & 1u) | (lane << 1u);
    const uint v19 = sub_group_shuffle(v10, (lane & ~3u) | (v18 & 3u));
    const uint v20 = sub_group_shuffle(v11, (lane & ~3u) | (v18 & 3u));
    const uint v22 = v18 ^ 2u;
    const uint v23 = sub_group_shuffle(v12, (lane & ~3u) | (v22 & 3u));
    const uint v24 = sub_group_shuffle(v13, (lane & ~3u) | (v22 & 3u));
    const bool v25 = (lane & 1u) != 0u;
    const uint v26 = v25 ? v23 : v19;
    const uint v27 = v25 ? v24 : v20;
    const uint v28 = v25 ? v19 : v23;
    const uint v29 = v25 ? v20 : v24;
    destination[0] = v26;
    destination[1] = v27;
    destination[2] = v28;
    destination[3] = v29;
}
