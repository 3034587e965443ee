"""The kernels: generators that speak only a machine's instruction table, one source for all machines.

A newcomer meets them in this order:

    functions       activations as a few vector operations, written once for instructions and for NumPy
    common          what kernels are written with: arguments, tiles, parts of the work, epilogues, places
    chains          products that follow one another, and single products of any size
    convolution     convolutions of images of planes; channels_last of images whose channels lie side by side
    planes, blocks  work between convolutions, on planes and on blocks as wide as a vector
    tensors         work on plain tensors of any rank: lines, moves, products of pairs
    photographs     filters of pictures; colours of their pixels
    amd             products of pictures on AMD's GPUs

In files of their own: `sweeps` are element-wise runs of any layout; a `relay` calls kernels; a product's
`sequence` of steps is the same on GPUs (`amd`) and CPUs (`colours`); `seams` are two products in one warp.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.chains.gemm import GemmArguments, gemm_kernel, gemm_packing
    from regweave.kernels.chains.kernel import chain_kernel
    from regweave.kernels.chains.packing import (
        PackArguments,
        PackedStage,
        PackStep,
        packing_kernel,
        packing_steps,
    )
    from regweave.kernels.chains.plan import ChainPlan, chain_plan
    from regweave.kernels.common.arguments import STREAM, chain_arguments
    from regweave.kernels.functions.activations import activate, activate_all, operation_counts
    from regweave.kernels.functions.vectormath import CountingMath, NumpyMath, VectorMath
    from regweave.kernels.sweeps import RunStructure, run_arguments, sweep_kernel

__all__ = [
    "STREAM",
    "ChainPlan",
    "CountingMath",
    "GemmArguments",
    "NumpyMath",
    "PackArguments",
    "PackStep",
    "PackedStage",
    "RunStructure",
    "VectorMath",
    "activate",
    "activate_all",
    "chain_arguments",
    "chain_kernel",
    "chain_plan",
    "gemm_kernel",
    "gemm_packing",
    "operation_counts",
    "packing_kernel",
    "packing_steps",
    "run_arguments",
    "sweep_kernel",
]

__getattr__ = lazy_names(
    __name__,
    sweeps=("RunStructure", "run_arguments", "sweep_kernel"),
    **{
        "chains.gemm": ("GemmArguments", "gemm_kernel", "gemm_packing"),
        "chains.kernel": ("chain_kernel",),
        "chains.packing": ("PackArguments", "PackStep", "PackedStage", "packing_kernel", "packing_steps"),
        "chains.plan": ("ChainPlan", "chain_plan"),
        "common.arguments": ("STREAM", "chain_arguments"),
        "functions.activations": ("activate", "activate_all", "operation_counts"),
        "functions.vectormath": ("CountingMath", "NumpyMath", "VectorMath"),
    },
)
