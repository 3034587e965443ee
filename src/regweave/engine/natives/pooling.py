"""MaxPool and AveragePool of blocked images as native operators: stand-ins for onnxruntime's."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache

import onnx

from regweave.devices import cpu
from regweave.devices.onnxruntime import OUTPUT_PLACE, Place, Prepared, SizedOperator, Step
from regweave.engine.natives.native import PART_ELEMENTS
from regweave.errors import UnsupportedError
from regweave.graphs.attributes import attribute
from regweave.kernels.blocks.pools import Pool, PoolArguments, pool_kernel
from regweave.machines.x86 import VectorMachine


def pool_operator(
    name: str, pool: Pool, channels: int, machine: VectorMachine, threads: int
) -> tuple[SizedOperator, cpu.Function]:
    """The operator for blocked images of so many channels, padded ones counted; and its kernel.

    Errors: UnsupportedError for windows that may lie in padding alone.
    """
    if not pool.is_whole:
        raise UnsupportedError("windows that may have no pixel of the image", where=name)
    function, blocks = _loaded(pool, machine), channels // machine.lanes

    def prepare(shape: tuple[int, ...]) -> Prepared:
        batch, _, rows, columns = shape
        high, wide = pool.size(rows, columns)
        elements = batch * channels * high * wide
        parts = max(1, min(threads, batch * blocks, elements // PART_ELEMENTS))
        arguments = PoolArguments(
            blocks=batch * blocks, rows=rows, columns=columns, high=high, wide=wide, parts=parts
        )
        places = {"x": Place(0), "y": Place(OUTPUT_PLACE)}
        step = Step(function.address, arguments, places, parts, keep=(function,))
        return Prepared((batch, channels, high, wide), (step,) if elements else (), 0)

    return SizedOperator(name, (channels,), ctypes.sizeof(PoolArguments), prepare, keep=(function,)), function


def pool_of(node: onnx.NodeProto) -> Pool | None:
    """What a node MaxPool or AveragePool computes, if there is a kernel for it."""
    dilated = any(step != 1 for step in attribute(node, "dilations") or ())
    if node.op_type not in ("MaxPool", "AveragePool") or attribute(node, "ceil_mode") or dilated:
        return None
    (high, wide), (down, across) = attribute(node, "kernel_shape"), attribute(node, "strides") or (1, 1)
    pads = _padding(node, (high, wide), (down, across))
    if pads is None:
        return None
    mean, counts = node.op_type == "AveragePool", bool(attribute(node, "count_include_pad"))
    pool = Pool((high, wide), (down, across), pads, mean=mean, counts_padding=counts)
    return pool if pool.is_whole else None


def _padding(
    node: onnx.NodeProto, kernel: Sequence[int], strides: Sequence[int]
) -> tuple[int, int, int, int] | None:
    """What a pool adds above, to the left, below and to the right; None where that depends on the image."""
    auto = attribute(node, "auto_pad", "NOTSET")
    if auto in ("NOTSET", ""):
        top, left, bottom, right = attribute(node, "pads") or (0, 0, 0, 0)
        return top, left, bottom, right
    if auto == "VALID":
        return 0, 0, 0, 0
    if tuple(strides) != (1, 1):
        return None
    (above, before), (below, behind) = (tuple((side - 1 + more) // 2 for side in kernel) for more in (0, 1))
    return (above, before, below, behind) if auto == "SAME_UPPER" else (below, behind, above, before)


@lru_cache(maxsize=32)
def _loaded(pool: Pool, machine: VectorMachine) -> cpu.Function:
    return cpu.load_made(lambda: pool_kernel(pool, machine), repr(pool), machine)
