"""Inputs to try a model on: what decisions are measured with and results are verified with.

Floats are drawn from a normal distribution, whole numbers are zero (a valid index into anything) or, if the
model does not run with that, one (a valid size of anything), all from a fixed seed. Sizes are those given for
the dynamic dimensions. A batch dimension (the first one of an input) that nobody gave counts as 1; any other
must be given, because a plan for a wrong size is worth nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from regweave.errors import InputError, UnsupportedError
from regweave.graphs import Model, read_model
from regweave.memory import free_memory

_FLOATS = ("float16", "float32", "float64")


def sized_model(source: str | os.PathLike[str] | onnx.ModelProto, dims: Mapping[str, int]) -> Model:
    """The model with a size for every dynamic dimension of its inputs; batches that nobody gave are 1.

    Errors: InputError naming the dimensions that need a size, and those of `read_model`.
    """
    model = read_model(source, dims)
    if not model.unresolved:
        return model
    batches = _batches(model)
    missing = [name for name in model.unresolved if name not in batches]
    if missing:
        raise InputError(
            f"these dimensions of the model's inputs have no size: {', '.join(missing)}",
            where="dims",
            expected="a size for each, that plans are made and checked for (others may come when it runs)",
            fix=" ".join(f"--dim {name}=SIZE" for name in missing),
        )
    return read_model(source, {**dims, **dict.fromkeys(batches, 1)})


def _batches(model: Model) -> list[str]:
    """Unresolved dimensions that are the first one of an input and nothing else."""
    first: set[str] = set()
    other: set[str] = set()
    for value in model.proto.graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            names = {f"{value.name}[{axis}]", dim.dim_param}
            (first if axis == 0 else other).update(name for name in names if name in model.unresolved)
    return [name for name in model.unresolved if name in first - other]


def sample_inputs(model: Model, seed: int = 0, whole: int = 0) -> dict[str, np.ndarray]:
    """An array for every input; whole numbers are `whole`.

    Errors: UnsupportedError for inputs that are no tensors of numbers, InputError for sizes that this
    machine's memory cannot hold.
    """
    _check_memory(model)
    random = np.random.default_rng(seed)
    return {name: _sample(model, name, random, whole) for name in model.inputs}


def _check_memory(model: Model) -> None:
    """All tensors that pieces read and write are there at once when the pieces are verified, and outputs of
    two models when these are compared."""
    sizes = {}
    for name, shape in model.shapes.items():
        known = [size for size in shape if size is not None]
        if len(known) == len(shape) and name not in model.constants:
            sizes[name] = _item_bytes(model, name) * math.prod(known)
    total = sum(sizes.values()) + sum(sizes.get(name, 0) for name in model.outputs)
    there = free_memory()
    if total > there:
        largest = max(sizes, key=lambda name: sizes[name])
        raise InputError(
            f"the model's tensors would take {total / 1e9:.3g} GB, more than this machine can hold "
            f"('{largest}' alone {sizes[largest] / 1e9:.3g} GB)",
            where="dims " + ", ".join(f"{key}={size}" for key, size in model.dims.items()),
            expected=f"at most {there / 1e9:.3g} GB, the memory that is free",
            fix="give smaller sizes to decide on; others may come when the model runs",
        )


def _item_bytes(model: Model, name: str) -> int:
    code = model.types.get(name)
    return 4 if code is None else helper.tensor_dtype_to_np_dtype(code).itemsize


def _sample(model: Model, name: str, random: np.random.Generator, whole: int) -> np.ndarray:
    shape = model.shapes.get(name)
    code = model.types.get(name)
    if shape is None or code is None or any(size is None for size in shape):
        raise UnsupportedError(
            f"input '{name}' is no tensor of known rank and type",
            where=model.name,
            fix="run the model with onnxruntime itself",
        )
    dtype = np.dtype(helper.tensor_dtype_to_np_dtype(code))
    sizes = [size for size in shape if size is not None]
    if dtype.name in _FLOATS:
        return random.standard_normal(sizes).astype(dtype)
    if dtype == np.dtype(object):
        return np.full(sizes, "", dtype)
    return np.full(sizes, whole, dtype)
