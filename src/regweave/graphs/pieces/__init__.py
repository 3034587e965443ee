"""What one kernel can replace, as values.

products     nodes that are matrix products with weights
layers       convolutions, with what is folded into their weights
lifetimes    one memory for tensors that live for a while
members      the parts of a region, in their order, and where its images lie
pieces       some nodes that one kernel replaces; `formation` makes them of what a walk found
"""

__all__: list[str] = []
