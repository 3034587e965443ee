// mma.m16n8k16.f16:C x 1x2 -> mma.m16n8k16.f16:A: identity, 4 converts
// source[i]: the f32 registers of a lane in the layout mma.m16n8k16.f16:C x 1x2.
// destination[i]: the f16 registers of the same lane for mma.m16n8k16.f16:A.
// Elements are rounded to f16, the even items of a lane in the low halves.
__device__ __forceinline__ void regweave_mma_m16n8k16_f16_C_x_1x2_to_mma_m16n8k16_f16_A_identity(
    const float (&source)[8], unsigned (&destination)[4]) {
    const float s0 = source[0];
    const float s1 = source[1];
    unsigned v2;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(v2) : "f"(s0), "f"(s1));
    const float s2 = source[2];
    const float s3 = source[3];
    unsigned v5;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(v5) : "f"(s2), "f"(s3));
    const float s4 = source[4];
    const float s5 = source[5];
    unsigned v8;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(v8) : "f"(s4), "f"(s5));
    const float s6 = source[6];
    const float s7 = source[7];
    unsigned v11;
    asm("{ .reg .b16 l, h; cvt.rn.f16.f32 l, %1; cvt.rn.f16.f32 h, %2; mov.b32 %0, {l, h}; }" : "=r"(v11) : "f"(s6), "f"(s7));
    destination[0] = v2;
    destination[1] = v5;
    destination[2] = v8;
    destination[3] = v11;
}
