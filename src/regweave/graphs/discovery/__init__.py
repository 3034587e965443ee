"""Which nodes one kernel can replace: found by following a tensor forward from a product.

walks        as far as a tensor stays in registers
requests     what a caller wants together or apart
misses       what stood between two products
candidates   chains of products, and why others are none
convolutions with the work behind them
runs         the rest: single products, and element-wise work
"""

__all__: list[str] = []
