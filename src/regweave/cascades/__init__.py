"""Cascades of matrix products as one kernel: plan, compile, call; their traffic; single products.

`cascade` and `gemm` are what people call; `compile_chain` is what the engine builds on.
"""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.cascades.calls import cascade
    from regweave.cascades.compiled import CompiledChain, compile_chain
    from regweave.cascades.costs import Costs, Estimate, Traffic, estimate, host_costs, traffic
    from regweave.cascades.elementwise import CompiledRun, compile_elementwise
    from regweave.cascades.plan import CascadePlan, Seam
    from regweave.cascades.products import gemm
    from regweave.cascades.threads import thread_count, usable_processors

__all__ = [
    "CascadePlan",
    "CompiledChain",
    "CompiledRun",
    "Costs",
    "Estimate",
    "Seam",
    "Traffic",
    "cascade",
    "compile_chain",
    "compile_elementwise",
    "estimate",
    "gemm",
    "host_costs",
    "thread_count",
    "traffic",
    "usable_processors",
]

__getattr__ = lazy_names(
    __name__,
    calls=("cascade",),
    compiled=("CompiledChain", "compile_chain"),
    elementwise=("CompiledRun", "compile_elementwise"),
    plan=("CascadePlan", "Seam"),
    products=("gemm",),
    threads=("thread_count", "usable_processors"),
    costs=("Costs", "Estimate", "Traffic", "estimate", "host_costs", "traffic"),
)
