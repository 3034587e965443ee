// mma.m16n8k8.tf32:C -> mma.m16n8k8.tf32:A: fold, 4 moves
// source[i]: the f32 registers of a lane in the layout mma.m16n8k8.tf32:C.
// destination[i]: the tf32 registers of the same lane for mma.m16n8k8.tf32:A.
// Row p of the next operand's tile must hold true k = 0, 2, 4, 6, 1, 3, 5, 7.
__device__ __forceinline__ void regweave_mma_m16n8k8_tf32_C_to_mma_m16n8k8_tf32_A_fold(
    const float (&source)[4], unsigned (&destination)[4]) {
    const float s0 = source[0];
    const float s2 = source[2];
    const float s1 = source[1];
    const float s3 = source[3];
    destination[0] = __float_as_uint(s0);
    destination[1] = __float_as_uint(s2);
    destination[2] = __float_as_uint(s1);
    destination[3] = __float_as_uint(s3);
}
