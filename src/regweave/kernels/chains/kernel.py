"""From a chain's structure to its kernel.

    >>> from regweave.machines.x86 import AVX512
    >>> listing = chain_kernel(chain.signature, AVX512)         # doctest: +SKIP
    >>> print(listing.register_map)                             # doctest: +SKIP

One kernel serves every number of rows, every number of threads and all weights of that structure.
"""

from __future__ import annotations

from functools import lru_cache

from regweave.assembly import Listing
from regweave.kernels.chains.plan import chain_plan
from regweave.kernels.common.arguments import chain_arguments
from regweave.kernels.common.workspace import Workspace
from regweave.machines.x86 import VectorMachine
from regweave.operators import Signature


@lru_cache(maxsize=64)
def chain_kernel(signature: Signature, machine: VectorMachine) -> Listing:
    """The kernel `void f(const Args *, size_t part)` of a chain; see `common.arguments` for Args.

    Errors: UnsupportedError for machines without kernels, and as `chain_plan`.
    """
    plan = chain_plan(signature, machine)
    name, longest = f"rw_chain_{signature.order}", max(signature.widths[:-1])
    w = Workspace(machine, plan.geometry, name, chain_arguments(signature), longest)
    if signature.order == "pixels":
        from regweave.kernels.chains.pixels import PixelsDriver as Driver
    else:
        from regweave.kernels.chains.rows import RowsDriver as Driver
    return Driver(signature, plan).write(w)
