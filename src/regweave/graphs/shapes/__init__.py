"""Shapes in which what varies is a symbol: may two tensors be added in registers at every size?

dimensions   a number times symbols, and what can be proved about products of them
reshapes     the shape after a Reshape; `windows`: after a convolution or a pooling
vectors      shapes that a model computes with
symbolic     the shape of every tensor of a graph
"""

__all__: list[str] = []
