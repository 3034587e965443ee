// mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: exchange (direct), 4 exchanges, 8 selects, 6 logic, 2 tests
// source[i]: the f32 registers of a lane in the layout mma.m16n8k8.tf32:C.
// destination[i]: the tf32 registers of the same lane for mma.m16n8k8.tf32:A.
// All 32 lanes of the warp must call it together.
__device__ __forceinline__ void regweave_mma_m16n8k8_tf32_C_to_mma_m16n8k8_tf32_A_direct(
    const float (&source)[4], unsigned (&destination)[4]) {
    const float s0 = source[0];
    const float s1 = source[1];
    const float s2 = source[2];
    const float s3 = source[3];
    unsigned lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    const bool v9 = (lane & 2u) != 0u;
    const unsigned v10 = v9 ? __float_as_uint(s1) : __float_as_uint(s0);
    const unsigned v11 = v9 ? __float_as_uint(s3) : __float_as_uint(s2);
    const unsigned v12 = v9 ? __float_as_uint(s0) : __float_as_uint(s1);
    const unsigned v13 = v9 ? __float_as_uint(s2) : __float_as_uint(s3);
    const unsigned v18 = ((lane >> 1u) & 1u) | (lane << 1u);
    const unsigned v19 = __shfl_sync(0xffffffffu, v10, v18, 4);
    const unsigned v20 = __shfl_sync(0xffffffffu, v11, v18, 4);
    const unsigned v22 = v18 ^ 2u;
    const unsigned v23 = __shfl_sync(0xffffffffu, v12, v22, 4);
    const unsigned v24 = __shfl_sync(0xffffffffu, v13, v22, 4);
    const bool v25 = (lane & 1u) != 0u;
    const unsigned v26 = v25 ? v23 : v19;
    const unsigned v27 = v25 ? v24 : v20;
    const unsigned v28 = v25 ? v19 : v23;
    const unsigned v29 = v25 ? v20 : v24;
    destination[0] = v26;
    destination[1] = v27;
    destination[2] = v28;
    destination[3] = v29;
}
