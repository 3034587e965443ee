"""A convolution node as values: its settings, and its weights with what follows folded in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regweave.graphs.elementwise.folding import build_chain
from regweave.graphs.elementwise.steps import Step
from regweave.operators import ChannelAdd, Convolution, Elementwise, convolution_of


@dataclass(frozen=True, eq=False)
class Layer:
    """A convolution's weights [filters, channels / groups, height, width], bias [filters] and activations."""

    weights: np.ndarray
    bias: np.ndarray | None
    epilogue: tuple[Elementwise, ...]


@dataclass(frozen=True, eq=False)
class Window:
    """A Conv node: the shape of its weights, `weight()` for their float32 values, and `settings` (strides,
    padding, dilations, groups) as `convolution_of` takes them."""

    shape: tuple[int, ...]
    weight: Callable[[], np.ndarray]
    settings: Mapping[str, Any]

    def convolution(self, image: Iterable[int]) -> Convolution:
        """The convolution of an image of that shape. Errors: InputError."""
        return convolution_of(tuple(image), self.shape, **self.settings)

    def layer(self, steps: Sequence[Step]) -> Layer:
        """The weights with the work behind the node folded in; what remains are activations."""
        matrix = self.weight().reshape(self.shape[0], -1).T
        (stage,) = build_chain([np.ascontiguousarray(matrix)], [steps], "pixels").stages
        ops, bias = stage.epilogue, None
        if ops and isinstance(ops[0], ChannelAdd):
            bias, ops = np.asarray(stage.operands[0], np.float32), ops[1:]
        return Layer(np.ascontiguousarray(stage.weight.T).reshape(self.shape), bias, ops)
