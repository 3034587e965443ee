"""Products of blocks on AMD's GPUs: load, stage in LDS, multiply, store."""

from typing import TYPE_CHECKING

from regweave.lazy import lazy_names

if TYPE_CHECKING:
    from regweave.kernels.amd.product import BlockProduct, block_product, lds_conflicts
    from regweave.kernels.amd.steps import product_kernel

__all__ = ["BlockProduct", "block_product", "lds_conflicts", "product_kernel"]

__getattr__ = lazy_names(
    __name__, product=("BlockProduct", "block_product", "lds_conflicts"), steps=("product_kernel",)
)
