"""Models written anew: the only modules here that change what a model's nodes are.

spreading    transposed convolutions without overlap become products; pixels move apart later
rewriting    every piece becomes one node
"""

__all__: list[str] = []
