"""What the compiler has no builtin for, as HIP C++ functions that stand above a program.

Each is guarded, so that the texts of several programs can stand in one file.
"""

VECTORS = """\
#ifndef REGWEAVE_VECTORS
#define REGWEAVE_VECTORS
typedef unsigned regweave_words2 __attribute__((ext_vector_type(2)));
typedef unsigned regweave_words4 __attribute__((ext_vector_type(4)));
#endif"""

SPREAD = """\
#ifndef REGWEAVE_SPREAD
#define REGWEAVE_SPREAD
// 0x....dcba -> 0x0d0c0b0a
static __device__ __forceinline__ unsigned regweave_spread(unsigned x) {
    x = __builtin_amdgcn_perm(0u, x, 0x0c010c00u);  // bytes 1 and 0, each with a byte of zeros above it
    return (x | x << 4u) & 0x0f0f0f0fu;
}
#endif"""

PACK_INTEGERS = """\
#ifndef REGWEAVE_PACK_INTEGERS
#define REGWEAVE_PACK_INTEGERS
// two integers kept within bounds, side by side in fields of `bits`
static __device__ __forceinline__ unsigned regweave_pack_integers(
    int low, int high, int least, int most, unsigned bits) {
    low = __builtin_elementwise_min(__builtin_elementwise_max(low, least), most);
    high = __builtin_elementwise_min(__builtin_elementwise_max(high, least), most);
    return (low & ((1u << bits) - 1u)) | (high & ((1u << bits) - 1u)) << bits;
}
#endif"""

WITHIN = """\
#ifndef REGWEAVE_WITHIN
#define REGWEAVE_WITHIN
// kept within bounds, as the conversion itself does not; a NaN stays one
static __device__ __forceinline__ float regweave_within(float x, float most) {
    return x != x ? x : __builtin_amdgcn_fmed3f(x, -most, most);
}
#endif"""

AT_MOST = """\
#ifndef REGWEAVE_AT_MOST
#define REGWEAVE_AT_MOST
// kept within bounds; a NaN becomes the upper one, where the type has none
static __device__ __forceinline__ float regweave_at_most(float x, float most) {
    return x != x ? most : __builtin_amdgcn_fmed3f(x, -most, most);
}
#endif"""
