"""AVX-512 assembly as AVX2 assembly, so that tests run wide kernels on processors without wide registers.

    >>> from translator import translate
    >>> narrow = translate(listing.text)        # the same function, for AVX2, FMA and BMI2

The 32 vector and 8 mask registers lie in memory, one register file for each thread, which the segment
register `gs` points to. An instruction on 64 bytes becomes two on 32:

    vaddps zmm1, zmm2, zmmword ptr [rdi]        vmovups ymm0, ymmword ptr gs:[128]
                                                vaddps ymm0, ymm0, ymmword ptr [rdi]
                                                vmovups ymmword ptr gs:[64], ymm0
                                                vmovups ymm0, ymmword ptr gs:[160]
                                                vaddps ymm0, ymm0, ymmword ptr [rdi+32]
                                                vmovups ymmword ptr gs:[96], ymm0

Everything else stays as it is: general registers, flags, the stack, calls, jumps, constants. That is why this
is text and not a compiler's program: a jump needs no meaning to be right, a kernel of a thousand lines is
translated in milliseconds, and LLVM's assembler is there. Rounding is the processor's own. Lanes that a mask
leaves out touch no memory. What is not known is an AssemblyError, never a guess.

In the order of meeting: `reading` (a line's operands), `state` (where registers lie), `entering` (how a
thread gets its file), `bits` (masks as vectors and back), `pieces` (an instruction on its halves), `tables`
and `lanewise` (what does the same in every half), `moves`, `spreads`, `masks`, `picks`, `narrowing` and
`scaling` (what does not), `text` (a whole function) and `plugin` (what pytest makes of it).
"""

from translator.text import is_wide, translate

__all__ = ["is_wide", "translate"]
