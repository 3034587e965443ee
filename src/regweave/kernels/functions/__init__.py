"""Element-wise functions of vectors, each written once.

`vectormath` has the few operations from which all of them are made, and two ways to carry them out: NumPy,
and counting. By a third, `buildermath`, they become instructions. The functions are `activations`.
"""

__all__: list[str] = []
