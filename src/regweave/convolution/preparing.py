"""The code of a layer for each shape and layout that it meets: tables, and packed weights, made once.

    layer of 64 filters     [8, 64, 56, 56]       transformed rows; packed weights; tables
                            [8, 64, 57, 57]       the same packed weights, tables of its own
                            channels last         weights packed for lanes that are filters

Packed weights depend on the tile, tables on the shape as well: so both are kept apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from regweave.convolution.decision import decide, streams
from regweave.convolution.results import stored_close
from regweave.machines.x86 import VectorMachine
from regweave.operators import Convolution, Elementwise

#: Shapes for which a layer keeps its tables.
_KEPT = 8

#: Code with its tables (its `run` says False where another form is needed), and the packed weights for it.
Prepared = tuple[Any, np.ndarray]


class LayerCode:
    """What runs a layer of these weights on `machine`."""

    def __init__(
        self,
        weights: np.ndarray,
        bias: np.ndarray | None,
        epilogue: tuple[Elementwise, ...],
        machine: VectorMachine,
        threads: int,
    ) -> None:
        self.weights, self.bias, self.epilogue = weights, bias, epilogue
        self.machine, self.threads = machine, threads
        arrays = (weights,) if bias is None else (weights, bias)
        self._alike = all(bool((array == array[:1]).all()) for array in arrays)
        self._packed: dict[Any, np.ndarray] = {}
        self.kept: dict[Any, Prepared] = {}

    def for_arrays(self, c: Convolution, x: np.ndarray, y: np.ndarray, form: str | None) -> Prepared:
        """For arrays [batch, channels, height, width] laid out as these are."""
        x_strides, y_strides = _strides(x), _strides(y)
        stream = streams(self.machine, y_strides, y.nbytes, y.shape[3], y.ctypes.data)
        key = (c, x_strides, y_strides, form, stream, stored_close(x, y))
        found = self.kept.get(key)
        if found is None:
            found = self.for_strides(*key)
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            self.kept[key] = found
        return found

    def for_strides(
        self,
        c: Convolution,
        x_strides: tuple[int, ...],
        y_strides: tuple[int, ...],
        form: str | None,
        stream: bool = False,
        late: bool = False,
        *,
        planes: bool = False,
    ) -> Prepared:
        """For arrays of these strides, made anew; of `planes` even where a plane is one pixel, and so the
        channels lie side by side."""
        from regweave.convolution.channels_last import LastChoice, LastConvolution, pack_last
        from regweave.convolution.channels_last.banded import BandChoice
        from regweave.convolution.channels_last.relayed import BandedConvolution
        from regweave.convolution.planes.native import NativeConvolution
        from regweave.convolution.planes.tables import pack_weights
        from regweave.convolution.separable import factors

        decision = decide(
            c,
            self.machine,
            x_strides,
            y_strides,
            form=form,
            stream=stream,
            late=late,
            epilogue=self.epilogue,
            threads=self.threads,
            separable=factors(self.weights) is not None,
            planes=planes,
            alike=self._alike,
        )
        c, choice = decision.convolution, decision.choice
        # of channels that share a kernel all are one
        weights, bias = self.weights[: c.filters], None if self.bias is None else self.bias[: c.filters]
        strides = decision.x_strides, decision.y_strides
        if isinstance(choice, BandChoice):
            return BandedConvolution(c, choice, *strides, weights, bias, self.threads), weights
        if isinstance(choice, LastChoice):
            order: Any = c.filters, choice.packing
            if order not in self._packed:
                self._packed[order] = pack_last(c, choice, weights, bias)
            return LastConvolution(c, choice, *strides, self.threads), self._packed[order]
        tile = choice.tile
        order = c.filters, choice.tiles, tile.by_column, tile.separable, tile.combined, tile.apart
        if order not in self._packed:
            self._packed[order] = pack_weights(c, choice, weights, bias)
        return NativeConvolution(c, choice, self.machine, *strides, self.threads), self._packed[order]


def _strides(array: np.ndarray) -> tuple[int, ...]:
    """Strides in bytes; 4 for the elements of rows that have one, where NumPy leaves it open."""
    *outer, element = array.strides
    return (*outer, 4 if array.shape[-1] == 1 else element)
