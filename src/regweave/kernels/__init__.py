"""The kernels: generators that speak only a machine's instruction table, one source for all machines.

`chain` fuses products (on `rows`, or on `pixels` of planes, a `stage` at a time; large ones by `seven`),
`gemm` is one product, `sweeps` are element-wise runs. `convolution` and `channels_last` convolve;
`depthwise`, `planes`, `taps` and `means` work on images between such kernels; `photographs` and `colours` on
pictures; `seams` and `amd` are for GPUs. All write through a `workspace`, compute activations by
`activations`, and are called with `arguments`.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.activations import activate, activate_all, operation_counts
    from regweave.kernels.arguments import STREAM, chain_arguments
    from regweave.kernels.chain import chain_kernel
    from regweave.kernels.gemm import GemmArguments, gemm_kernel, gemm_packing
    from regweave.kernels.packing import PackArguments, PackedStage, PackStep, packing_kernel, packing_steps
    from regweave.kernels.plan import ChainPlan, chain_plan
    from regweave.kernels.sweeps import RunStructure, run_arguments, sweep_kernel
    from regweave.kernels.vectormath import CountingMath, NumpyMath, VectorMath

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
    activations=("activate", "activate_all", "operation_counts"),
    arguments=("STREAM", "chain_arguments"),
    chain=("chain_kernel",),
    gemm=("GemmArguments", "gemm_kernel", "gemm_packing"),
    packing=("PackArguments", "PackStep", "PackedStage", "packing_kernel", "packing_steps"),
    plan=("ChainPlan", "chain_plan"),
    sweeps=("RunStructure", "run_arguments", "sweep_kernel"),
    vectormath=("CountingMath", "NumpyMath", "VectorMath"),
)
