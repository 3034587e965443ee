"""16-bit floats in plain OpenCL C, which need no extension as long as they stay in memory."""

WIDEN_F16 = """\
#ifndef REGWEAVE_WIDEN_F16
#define REGWEAVE_WIDEN_F16
static inline float regweave_widen_f16(uint word) {
    const ushort low = word;
    return vload_half(0, (const half *)&low);
}
#endif"""
