"""Compiled code as disassemblers and compilers print it."""

import pytest

from regweave.devices import cuda, hip
from regweave.errors import DeviceError

SASS = """
//--------------------- .text.second --------------------------
.text.second:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 EXIT ;
.L_x_0:
        /*0020*/                   BRA `(.L_x_0);
        /*0030*/                   NOP;
//--------------------- .text.trial  --------------------------
\t.section\t.text.trial,"ax",@progbits
.text.trial:
        /*0000*/                   S2R R5, SR_TID.X ;
        /*0010*/               @P1 SHFL.IDX PT, R7, R6, R0, 0x1f ;
        /*0020*/                   MOVM.16.MT88 R7, R6 ;
        /*0030*/                   FSEL R3, R2, R1, !P0 ;
        /*0040*/             @!UP0 UPRMT UR4, UR5, 0x5410, UR6 ;
        /*0050*/                   LDSM.16.M88.4 R4, [R3] ;
        /*0060*/                   STL [R1], R4 ;
        /*0070*/                   HMMA.1688.F32.TF32 R4, R8, R2, R4 ;
        /*0080*/                   HFMA2.MMA R7, -RZ, RZ, 0, 0 ;
        /*0090*/                   BRA `(.L_x_3);
        /*00a0*/                   EXIT ;
.L_x_1:
        /*00b0*/                   BRA `(.L_x_1);
        /*00c0*/                   NOP;
"""

GCN = """
other:
\ts_endpgm
trial:                                  ; @trial
; %bb.0:
\tv_mbcnt_lo_u32_b32 v4, -1, 0
\ts_delay_alu instid0(VALU_DEP_1)
\t;;#ASMSTART
\t; takes v0
\t;;#ASMEND
\tv_dual_cndmask_b32 v1, v2, v3 :: v_dual_cndmask_b32 v4, v5, v6
\tds_bpermute_b32 v5, v4, v5 offset:128
\tv_mov_b32_dpp v1, v2 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf
\tds_read2st64_b32 v[0:1], v2 offset1:1
\ts_waitcnt lgkmcnt(0)
\ts_endpgm
\t.section\t.rodata
"""


def test_sass():
    listing = cuda.read_sass(SASS, "trial")
    kinds = ("exchange", "select", "byte_permute", "shared_load", "local", "matrix", "other")
    assert [listing.count(kind) for kind in kinds] == [2, 1, 1, 1, 1, 1, 4]
    assert len(listing) == 11
    assert listing.mnemonics[-2:] == ("BRA", "EXIT")  # the jump behind the end is none of the kernel's
    assert cuda.read_sass(SASS, "second").mnemonics == ("LDC", "EXIT")
    with pytest.raises(DeviceError, match="no kernel 'third'"):
        cuda.read_sass(SASS, "third")


def test_gcn():
    listing = hip.read_gcn(GCN, "trial")
    kinds = ("exchange", "select", "shared_load", "other")
    assert [listing.count(kind) for kind in kinds] == [2, 2, 1, 3]
    assert hip.read_gcn(GCN, "other").mnemonics == ("s_endpgm",)
    with pytest.raises(DeviceError, match="no kernel 'third'"):
        hip.read_gcn(GCN, "third")
    with pytest.raises(AssertionError):
        listing.count("shuffles")
