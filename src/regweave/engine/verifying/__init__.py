"""Every native piece against float64.

`verification` does it on the tensors that reach a piece, which come of `samples` of the model's inputs;
`truth` is what regions compute, some rows of it.
"""

__all__: list[str] = []
